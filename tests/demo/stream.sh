#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the program of scripts/demo --datagram says of a small stream, in a guest: facts, never times.
. /src/tests/lib.sh
ONLY= # all of it: each test needs the earlier ones
stream=/usr/lib/kiwarp/tests/demo_stream
frames=60

# shows NAME MODE OPTION...: the stream from left to right
shows() {
	local name=$1 mode=$2
	shift 2
	PORT=19100 pair "$name" $stream "$mode" server 10.77.0.2 19100 --device kiw1 --frames $frames "$@" -- \
		$stream "$mode" client 10.77.0.2 19100 --device kiw0 --frames $frames "$@"
}
# said FACT: what the server said of it
said() { sed -n "s/^$1 //p" "$WORK/server"; }
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "'$2' instead of '$3'"; fi; }
# adds_up NAME: every frame is somewhere, and all octets are
adds_up() {
	is "$1.every_frame_is_told_of" $(($(said whole) + $(said with_holes) + $(said missing))) $frames
	is "$1.no_octet_is_wrong" "$(said octets_wrong)" 0
	is "$1.as_long_as_it_should_be" "$(said octets)" "$octets"
}
octets=$(awk -v n=$frames 'BEGIN { for (i = 0; i < n; i++) sum += i % 25 ? 20000 + i % 5 * 4000 : 120000; print sum }')
# lossy PERCENT: of the packets from left; TBF cuts up what netem would lose together
lossy() {
	left tc qdisc delete dev veth0 root 2>/dev/null
	[ $# = 0 ] || { left tc qdisc add dev veth0 root handle 1: tbf rate 10000tbit burst 2000 limit 100000000 &&
		left tc qdisc add dev veth0 parent 1: netem limit 100000 loss "$1%"; }
}

for mode in record connection; do
	shows good_network.$mode $mode
	adds_up good_network.$mode
	is good_network.$mode.all_is_there "$(said whole) $(said octets_missing)" "$frames 0"
	is good_network.$mode.no_map_of_holes "$(said map)" ''
done

lossy 5
shows losses.record record
adds_up losses.record
# Of 60 frames of 15 to 86 packets each, hardly one in two is whole, and none is without any.
t losses.record.holes test "$(said with_holes)" -gt 10 -a "$(said octets_missing)" -gt 0 -a "$(said missing)" = 0
t losses.record.most_is_there test "$(said octets_missing)" -lt $((octets / 5))
t losses.record.maps_tell_of_holes grep -qE '^map [0-9]+ (#+\.|\.+#)[#.]*$' "$WORK/server"
shows losses.connection connection
adds_up losses.connection
is losses.connection.all_is_there "$(said whole) $(said octets_missing)" "$frames 0"
lossy

t refuses_nonsense bash -c "! $stream record server 10.77.0.2 19100 --device kiw1 --frames 0"
t refuses_a_device_that_there_is_not bash -c "right timeout 20 $stream record server 10.77.0.2 19101 --device kiw9 &
	sleep 1; ! left $stream record client 10.77.0.2 19101 --device kiw0; ! wait \$!"
finish
