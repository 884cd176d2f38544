# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# What tests/strict/run and tests/user/strict have in common: MTUs, CRC, markers. Sourced, with
#
#   receives [crc] [markers]   the peer, for one connection
#   sends                      a program that connects to it and writes
#   mtu BYTES                  sets that of both ends

counts() { # NAME OPTION...
	local peer status=0
	receives "${@:2}" >"$WORK/strict" 2>&1 &
	peer=$!
	PORT=7000 until_true listens 7000
	sends >"$WORK/sends" 2>&1 || status=$?
	wait $peer || status=$?
	if [ $status = 0 ]; then ok "$1"; else not_ok "$1" "$status: $(cat "$WORK/sends" "$WORK/strict")"; fi
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
