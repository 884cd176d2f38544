# SPDX-License-Identifier: GPL-2.0
# What the self-tests of guests share. Sourced, in the checkout's top folder, on the host.
. tests/lib.sh
ONLY= # all of it: each test needs the earlier ones
plant=/usr/lib/kiwarp/guest/plant.ko

# gives NAME STATUS GUEST-ARGUMENT...: the guest must end with STATUS; its outputs are kept in $WORK/out and $WORK/err
gives() {
	local name=$1 expected=$2 status=0
	shift 2
	scripts/guest "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
	[ "$status" = "$expected" ] && { ok "$name"; return 0; }
	not_ok "$name" "status $status instead of $expected"
	tail -n 20 "$WORK/out" "$WORK/err" | sed 's/^/    | /'
	return 1
}
# holds NAME FILE PATTERN
holds() { if grep -qE -- "$3" "$WORK/$2"; then ok "$1"; else not_ok "$1" "no '$3' in the guest's $2"; fi; }
