# SPDX-License-Identifier: GPL-2.0
# For a program of this folder: two machines with kiw0 and kiw1, which tests/services/inside has made. With LAUNCHER, the
# device without a module: both machines are this one. Sourced.
. "$(dirname "$(realpath "$0")")/../lib.sh"

# moved BYTES COMMAND...: COMMAND succeeds, and kiw0 sends and receives as many bytes meanwhile, at least
if [ -n "${LAUNCHER:-}" ]; then
	A=192.0.2.1 SERVER_HOST=- second=() launch=("$LAUNCHER")
	moved() { "${@:2}"; }
else
	. /src/tests/packages/second.sh
	A=192.0.2.2 second=(ip netns exec second) launch=()
	counters=/sys/class/infiniband/kiw0/ports/1/hw_counters
	traffic() { awk '{ sum += $1 } END { printf "%d\n", sum }' $counters/{sent,received}_bytes; }
	moved() {
		local least=$1 before moved
		shift
		before=$(traffic)
		"$@" || return
		moved=$(($(traffic) - before))
		[ $moved -ge "$least" ] || { echo "kiw0 moved $moved bytes, not $least"; return 1; }
	}
fi
