# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Whether a scenario went as it has to; for scripts with tests/lib.sh and a function
#   counters DEVICE	prints the counters of events there are, as NAME:VALUE, sorted by name

# moved DEVICE: which counters moved since $WORK/before, as "NAME=BY ..."
moved() {
	counters "$1" | join -t : "$WORK/before" - |
		awk -F : '$2 != $3 { printf "%s%s=%d", n++ ? " " : "", $1, $3 - $2 }'
}
# as_expected DEVICE: is it what $expected says? A last "*" there allows for more.
as_expected() {
	local now word
	now=$(moved "$1")
	[[ $expected = *\* ]] || { [ "$(tr ' ' '\n' <<<"$now" | sort)" = "$(tr ' ' '\n' <<<"$expected" | sort)" ]; return; }
	for word in ${expected%\*}; do [[ " $now " = *" $word "* ]] || return 1; done
}

# scenario NAME DEVICE COMMAND...: the hostile side has to be content, and the counters of DEVICE to be as $expected
scenario() {
	local name=$1 device=$2 status=0 reason=
	selected "$name" || return 0
	shift 2
	counters "$device" >"$WORK/before"
	limited "$@" >"$WORK/output" 2>&1 || status=$?
	[ $status = 0 ] || reason="$(why $status) $(tail -n 3 "$WORK/output" | tr '\n' ' ')"
	[ -n "$reason" ] || LIMIT=5 soon as_expected "$device" || reason="moved '$(moved "$device")' instead of '$expected'"
	kill -0 $bystander 2>/dev/null || reason="$reason; the bystander's connection ended"
	if [ -z "$reason" ]; then ok "$name"; else not_ok "$name" "$reason"; fi
}
