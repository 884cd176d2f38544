# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What tests/strict/run and tests/user/strict have in common: of MTUs, CRC and markers, at most one segment of a hundred
# may begin within an FPDU. Sourced, with
#
#   receives [crc] [markers]   the peer, for one connection
#   sends                      a program that connects to it and writes
#   mtu BYTES                  sets that of both ends

# TCP cuts where the peer's window ends, too; here that is far away.
aligned() { awk '$1 >= 1000 && $7 * 100 <= $1 { good = 1 } END { exit !good }' "$WORK/strict"; }
counts() { # NAME OPTION...
	local peer status=0
	receives "${@:2}" >"$WORK/strict" 2>&1 &
	peer=$!
	PORT=7000 until_true listens 7000
	sends >"$WORK/sends" 2>&1 || status=$?
	wait $peer || status=$?
	if [ $status = 0 ] && aligned; then ok "$1"; else not_ok "$1" "$status: $(cat "$WORK/sends" "$WORK/strict")"; fi
	sed 's/^/# /' "$WORK/strict"
}
counts_all() {
	local bytes
	for bytes in 1500 9000; do
		t mtu_$bytes mtu $bytes
		counts plain_$bytes
		counts crc_$bytes crc
		counts markers_$bytes markers
		counts crc_and_markers_$bytes crc markers
	done
}
