#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tests of what turns samples into tables, and of the ping-pong; on the host.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/lib.sh
make -s -C tests/bench O="$PWD/build/tests/bench" all report || exit 1
bin=build/tests/bench

# add KIND CRC WHO REPETITION VALUE
add() { echo "{\"group\": \"$GROUP\", \"kind\": \"$1\", \"octets\": 4096, \"mtu\": 1500, \"crc\": \"$2\", \"who\": \"$3\", \"rep\": $4, $5}" >>"$WORK/samples.jsonl"; }
# row KEY: its values in results.json, in order
rows() { grep -o "\"$1\": [^,]*" "$WORK/results.json" | sed 's/^[^:]*: //' | xargs; }
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "'$2' instead of '$3'"; fi; }
report() { $bin/bench_report "$WORK" >"$WORK/tables" 2>&1; }

GROUP=bandwidth
echo kernel=9.9 >"$WORK/about"
for rep in 1 2 3; do
	add write off ours $rep "\"value\": ${rep}00"
	add write off siw $rep "\"value\": $((50 * rep * rep))"
	add stream none tcp $rep '"value": 100'
done
add read off ours 1 '"value": 30'
add read off siw 1 '"failed": "client: took more than 18 s"'
echo '{"group": "bandwi' >>"$WORK/samples.jsonl"
report
is report_takes_half_a_line $? 0
is medians_of_both "$(rows ours) $(rows peer)" '200.0 200.0 30.0 30.0 200.0 100.0 null 100.0'
is ratio_is_the_median_of_ratios "$(rows ratio)" '1.0 2.0 null 0.3'
is ratio_shows_its_spread "$(rows ratio_min) $(rows ratio_max)" '0.6666666666666666 1.0 null 0.3 2.0 3.0 null 0.3'
is targets_are_open "$(rows target | tr ' ' '\n' | sort -u)" null
is kernel_is_named "$(rows kernel | awk '{ print $NF }')" 9.9
t failure_is_in_the_table grep -q 'failed (client: took more than 18 s)' "$WORK/tables"

GROUP=latency
: >"$WORK/samples.jsonl"
add read off ours 1 '"value": 40'
add stream none tcp 1 '"value": 20'
report
is read_latency_is_compared_with_a_whole_round_trip "$(rows ratio)" 'null 1.0'

for mode in blocking spinning; do
	timeout 20 $bin/bench_pingpong $mode server 127.0.0.1 18999 64 200 &
	until_true sh -c 'ss -Hltn "sport = :18999" | grep -q .'
	t ping_pong_$mode $bin/bench_pingpong $mode client 127.0.0.1 18999 64 200
	wait $! || not_ok ping_pong_server_$mode
done
is ping_pong_refuses_nonsense "$($bin/bench_pingpong blocking server 127.0.0.1 0 64 200 2>/dev/null; echo $?)" 2
is bench_refuses_unknown_names "$(scripts/bench nothing 2>/dev/null; echo $?)" 2
finish
