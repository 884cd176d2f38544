# SPDX-License-Identifier: GPL-2.0
# Two guests that are joined by Ethernet, for scripts on the host. Source it after tests/lib.sh, in the checkout's top folder.
#
#   joined NAME SCRIPT GUEST:GUEST OPTION...    boots both with these options of scripts/guest, and runs SCRIPT 1 in the first and
#                                               SCRIPT 2 in the second; their tests are reported as PAIR.TEST, their folders
#                                               build/NAME-1 and build/NAME-2

# joined_guest NAME SCRIPT GUEST NUMBER OPTION...
joined_guest() {
	local name=$1 script=$2 guest=$3 number=$4
	shift 4
	scripts/guest -k "$guest" "$@" -j "$WORK/$number:$WORK/$((3 - number))" -t 1800 -o "$PWD/build/$name-$number" -- \
		"$script" "$number" >"$WORK/out.$number" 2>"$WORK/err.$number"
}

# joined_report PAIR NUMBER STATUS
joined_report() {
	sed -nE "s/^(ok|not ok|skip) /&$1./p; /^    \|/p" "$WORK/out.$2"
	FAILED=$((FAILED + $(grep -c '^not ok ' "$WORK/out.$2")))
	if [ "$3" = 0 ] && grep -q '^ok ' "$WORK/out.$2"; then
		ok "$1.guest$2"
	else
		not_ok "$1.guest$2" "status $3"
		tail -n 20 "$WORK/out.$2" "$WORK/err.$2" | sed 's/^/    | /'
	fi
}

joined() {
	local name=$1 script=$2 pair=$3 first second one=0 two=0
	shift 3
	joined_guest "$name" "$script" "${pair%:*}" 1 "$@" &
	first=$!
	joined_guest "$name" "$script" "${pair#*:}" 2 "$@" &
	second=$!
	wait $first || one=$?
	wait $second || two=$?
	joined_report "$pair" 1 $one
	joined_report "$pair" 2 $two
}
