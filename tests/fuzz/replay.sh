#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# replay.sh [SESSIONS [SEED [CORPUS]]]: malformed sessions (2000) against the live module, most towards a listener, a part
# towards what connects. Afterwards nothing may be left of them: no object, no pinned page, no memory beyond a bound.
. /src/tests/lib.sh
ONLY= # all of it: each test needs the earlier ones
. /src/tests/apps/programs.sh
bin=/usr/lib/kiwarp/tests
parameters=/sys/module/kiwarp/parameters
sessions=${1:-2000}
seed=${2:-1}
corpus=("${@:3:1}")
replies=$((sessions / 5))
requests=$((sessions - replies))
# Kilobytes that a run may leave behind; a session that leaks its stream alone leaves more than 1 each.
bound=$((1024 + sessions / 4))
# So that nobody has to wait long for those who say nothing
echo 1 >$parameters/mpa_timeout
echo 2 >$parameters/connect_timeout
# As the model has it
echo 0 >$parameters/receive_wait

objects() { rdma -j resource show "$1" | jq -c '.[0] | [.pd, .cq, .qp, .cm_id, .mr, .ctx]'; }
no_more_than() { [ "$(objects kiw0) $(objects kiw1)" = "$1" ]; }
# used: kilobytes that are neither free nor cache nor in the allocator's own lists of free pages, after all that was put off
# is done
used() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	awk -v lists="$(awk '/^ +count:/ { n += $2 } END { print 4 * n }' /proc/zoneinfo)" '{ v[$1] = $2 }
		END { print v["MemTotal:"] - v["MemFree:"] - v["Buffers:"] - v["Cached:"] - lists }' /proc/meminfo
}
memory() {
	grep -E '^(AnonPages|Slab|SUnreclaim|KernelStack|PageTables|Percpu|VmallocUsed|Shmem)' /proc/meminfo | sort
	awk '/^TCP:/ { print "sockets_in_TIME_WAIT:", $7; print "sockets:", $9 }' /proc/net/sockstat
	awk 'NR > 2 { print "slab_" $1, $3 * $4 / 1024 }' /proc/slabinfo 2>/dev/null | sort
}
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
pinned() { awk '/^VmPin:/ { print $2 }' "/proc/$1/status"; }

# requests NAME COUNT SEED: sessions towards the listener, one after the other
requests() {
	if $bin/fuzz_sessions request "$2" "$3" "${corpus[@]}" |
		left timeout -k 5 $((120 + $2)) $bin/fuzz_replay connect 10.77.0.2 4000 >"$WORK/replay" 2>&1; then
		ok "$1"
	else
		not_ok "$1" "$(tail -n 3 "$WORK/replay" | tr '\n' ' ')"
	fi
	sed 's/^/# /' "$WORK/replay"
}

# replies NAME COUNT SEED: sessions towards what connects, to whoever it is
replies() {
	local caller status=0
	start left "$WORK/caller" $bin/fuzz_caller 10.77.0.2 4001
	caller=$!
	$bin/fuzz_sessions reply "$2" "$3" "${corpus[@]}" |
		right timeout -k 5 $((120 + 3 * $2)) $bin/fuzz_replay listen 10.77.0.2 4001 >"$WORK/replay" 2>&1 || status=$?
	kill -TERM $caller 2>/dev/null
	wait $caller || { status=$?; echo "caller: $(head -n 1 "$WORK/caller")" >>"$WORK/replay"; }
	if [ $status = 0 ]; then ok "$1"; else not_ok "$1" "$(tail -n 3 "$WORK/replay" | tr '\n' ' ')"; fi
	sed 's/^/# /' "$WORK/replay" "$WORK/caller"
}

start right "$WORK/target" $bin/hostile_target 10.77.0.2 4000
target=$!
PORT=4000 until_true listens
# The first ones pay for what is made once.
requests warm_up.requests 200 $((seed + 1000000))
replies warm_up.replies 40 $((seed + 2000000))
no_qp() { [ "$(rdma -j resource show qp | jq length)" = 0 ]; }
until_true no_qp
quiet="$(objects kiw0) $(objects kiw1)"
quiet_pinned=$(pinned $target) # its completion queue
before=$(used)
memory >"$WORK/before_memory"
declare -A count
for name in connects crc_errors stream_errors terminates_sent terminates_received mpa_malformed; do count[$name]=$(counter kiw1 $name); done

# A quarter of them where the module wants markers
requests "requests_$requests" $((requests * 3 / 4)) "$seed"
replies "replies_$replies" $((replies * 3 / 4)) $((seed + 1))
echo Y >$parameters/markers
requests "requests_$requests.with_markers" $((requests / 4)) $((seed + 2))
replies "replies_$replies.with_markers" $((replies / 4)) $((seed + 3))
echo N >$parameters/markers

if LIMIT=20 soon no_more_than "$quiet"; then
	ok objects_as_before
else
	not_ok objects_as_before "$(objects kiw0) $(objects kiw1) instead of $quiet"
fi
if [ "$(pinned $target)" = "$quiet_pinned" ]; then
	ok pinned_pages_as_before
else
	not_ok pinned_pages_as_before "$(pinned $target) kB instead of $quiet_pinned"
fi
less_than_bound() { after=$(used) && [ $((after - before)) -le $bound ]; }
if LIMIT=20 soon less_than_bound; then
	ok memory_is_flat
else
	not_ok memory_is_flat "$((after - before)) kB more, $bound are allowed"
fi
echo "# memory: $((after - before)) kB more, $bound are allowed"
memory >"$WORK/after"
echo "# of that: $(join "$WORK/before_memory" "$WORK/after" | awk '$3 != $2 { printf "%s %+d  ", $1, $3 - $2 }')"
for name in "${!count[@]}"; do
	now=$(counter kiw1 "$name")
	echo "# $name: $((now - count[$name]))"
	if [ "$now" -gt "${count[$name]}" ]; then ok "counted_$name"; else not_ok "counted_$name" "it hasn't moved"; fi
done

t a_good_connection_to_the_same_target left $bin/hostile_peer connect 10.77.0.2 4000 good
A=10.77.0.2 rping_test a_connection_afterwards -S 1000 -C 10
kill $target
if wait $target && grep -q good "$WORK/target"; then
	ok nothing_written_around_a_region
else
	not_ok nothing_written_around_a_region "$(tail -n 1 "$WORK/target")"
fi
for link in kiw0 kiw1 kiwlo; do t "link_delete_$link" rdma link delete $link; done
t unload rmmod kiwarp
finish
