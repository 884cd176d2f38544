# SPDX-License-Identifier: GPL-2.0
# The programs that people run over RDMA, a function each. Source it after tests/lib.sh.
#
# The first argument is the test's name, what follows goes to both sides. The client runs in CLIENT_HOST and connects to
# address A of SERVER_HOST; B is the client's own address, needed where the program binds it.

A=10.77.0.2
B=10.77.0.1

# start HOST OUTPUT COMMAND...: in the background, as process $!, which the caller has to end
start() {
	local output=$2
	in_host "$1"
	shift 2
	"${IN[@]}" "$@" >"$output" 2>&1 &
}

# rping NAME OPTION...: every octet that arrives is compared (-V)
rping_test() {
	local name=$1
	shift
	PORT=7174 pair "$name" rping -s -a "$A" -V "$@" -- rping -c -a "$A" -V "$@"
}

ucmatose_test() {
	local name=$1 family=ip
	shift
	[[ $A != *:* ]] || family=ip6
	PORT=7471 pair "$name" ucmatose -f $family -b "$A" "$@" -- ucmatose -f $family -s "$A" "$@"
}

# The smallest programs of librdmacm, by its calls that wait. rdma_xclient sends 16 octets inline, and has asked for no room for them.
rdma_server_test() { PORT=7471 pair "$1" rdma_server -s "$A" -- rdma_client -s "$A"; }
rdma_xserver_test() { PORT=7471 pair "$1" rdma_xserver -c r -- rdma_xclient -c r -s "$A"; }

# rstream and riostream: rsockets, with Sends and RDMA Writes below. -T v compares what arrives.
rstream_test() {
	local name=$1
	shift
	PORT=7471 pair "$name" rstream -b "$A" -T v "$@" -- rstream -s "$A" -T v "$@"
}
riostream_test() {
	local name=$1
	shift
	PORT=7471 pair "$name" riostream -b "$A" -T v "$@" -- riostream -s "$A" -T v "$@"
}

# rcopy NAME OCTETS: the server goes on for ever
rcopy_test() {
	local name=$1
	selected "$name" "$name.same_content" || return 0
	in_host "$SERVER_HOST"
	"${IN[@]}" rm -f "$WORK/copy"
	in_host "$CLIENT_HOST"
	# shellcheck disable=SC2016 # for sh
	"${IN[@]}" sh -c 'head -c "$1" /dev/urandom >"$2"' sh "$2" "$WORK/original"
	"${IN[@]}" cat "$WORK/original" >"$WORK/content"
	PORT=7427 ENDLESS=1 step pair "$name" rcopy -- rcopy "$WORK/original" "$A:$WORK/copy"
	in_host "$SERVER_HOST"
	"${IN[@]}" cat "$WORK/copy" >"$WORK/copied"
	t "$name.same_content" cmp "$WORK/content" "$WORK/copied"
}

# died_of_retrying WHY TOOL: with -R, perftest's server may come to listen after its client has connected. The client then tries
# again with connections that it has freed before: librdmacm gets a pointer to nothing. The newest death in the log is this one's.
died_of_retrying() {
	[ "$1" = "client: $(why 139)" ] && outside "$CLIENT_HOST" dmesg | grep segfault | tail -n 1 | grep -q "$2.*in librdmacm"
}

# perftest NAME TOOL OPTION...: iWARP connects by rdma_cm only, hence -R; -F is about the clock rate of the CPU. Its server
# gives up its listener once both have talked, and listens anew for the QPs: a client that is faster is refused, and tries
# again here.
perftest_test() {
	local name=$1 tool=$2 family=() result try
	selected "$name" || return 0
	shift 2
	if [[ $A = *:* ]]; then
		family=(--ipv6-addr)
		"$tool" --help 2>&1 | grep -q -- --ipv6-addr || { skip "$name" "this version of $tool knows no IPv6"; return; }
	fi
	for try in {1..30}; do
		result=$(PORT=18515 pair "$name" "$tool" -R -F "${family[@]}" "$@" -- "$tool" -R -F "${family[@]}" "$@" "$A" 2>&1)
		grep -q 'RDMA_CM_EVENT_REJECTED; error: -111' <<<"$result" ||
			died_of_retrying "$(sed -n "1s/^not ok $name: //p" <<<"$result")" "$tool" || break
	done
	echo "$result"
	[ "$try" = 1 ] || echo "    $name: try $try, the server listened late"
	[[ $result != "not ok "* ]] || FAILED=$((FAILED + 1))
}

# fio NAME VERB: 16 messages. The server takes what it is given; it can compare nothing. With Sends, nothing keeps the
# client from being faster than the server posts receives, which ends an iWARP connection: the server posts enough for all.
fio_test() {
	PORT=7777 pair "$1" \
		fio --name=s --ioengine=rdma --rw=read --port=7777 --size=1m --bs=64k --iodepth=32 -- \
		fio --name=c --ioengine=rdma --rw=write --port=7777 --size=1m --bs=64k --iodepth=4 --hostname="$A" --verb="$2"
}

fi_pingpong_test() {
	local name=$1
	shift
	PORT=47592 pair "$name" fi_pingpong -p verbs -e msg -c "$@" -- fi_pingpong -p verbs -e msg -c "$@" "$A"
}
