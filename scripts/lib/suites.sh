# SPDX-License-Identifier: GPL-2.0
# Suites of tests, see tests/README.md. Sourced after common.sh.

# suite_file NAME: the file that describes it, if there is one
suite_file() { compgen -G "$TOP/tests/*/$1.suite" || :; }

# suite_base NAME: NAME, or without its guest, or "two", what it is called; nothing if there is no such suite
suite_base() {
	local base=$1
	until [ -n "$(suite_file "$base")" ]; do
		[[ $base = *-* ]] || return 0
		base=${base%-*}
	done
	echo "$base"
}

EMULATED=" $(awk '$2 == "qemu" { print $1 }' "$TOP/scripts/kernels/guests" | xargs) "

# read_suite NAME: sets the suite's fields, see tests/README.md
read_suite() {
	local base variant
	base=$(suite_base "$1")
	variant=${1#"$base"}
	GUEST=fast ALSO='' OPTS='' TIMEOUT=600 COMMAND='' SHORT='' DESCRIPTION='' ORDER=50 PACKAGES='' LAST=''
	. "$(suite_file "$base")"
	if [ -n "$variant" ]; then
		variant=${variant#-}
		ORDER=$((ORDER + 100)) TIMEOUT=$((TIMEOUT * 4))
		case $variant in
		two) OPTS+=" -2" DESCRIPTION+=" (between two kernels)" ;;
		*)
			GUEST=$variant DESCRIPTION+=" (in $GUEST)"
			[ -z "$SHORT" ] || [[ $EMULATED != *" $GUEST "* ]] || COMMAND=$SHORT DESCRIPTION+=", shortened"
			;;
		esac
	fi
	[ -n "$COMMAND" ] || die 2 "suite $1 has no COMMAND"
}

# known_suites: names in running order
known_suites() {
	local file name
	for file in "$TOP"/tests/*/*.suite; do
		name=${file##*/} name=${name%.suite}
		(
			read_suite "$name"
			printf '%s %s\n' "$ORDER" "$name"
			for guest in $ALSO; do printf '%s %s\n' $((ORDER + 100)) "$name-$guest"; done
		)
	done | sort -n -k1,1 -k2,2 | cut -d' ' -f2
}

# What scripts/check leaves of each suite: NAME.tests and NAME.commit
RESULTS=$TOP/build/check

# found_in SUITE: the commit in which its result was found
found_in() { cat "$RESULTS/$1.commit" 2>/dev/null; }

# has_result SUITE COMMIT: one that counts there, since what the suite runs has not changed: its folder, and the files of other
# folders that its scripts source. The list of programs runs nothing.
has_result() {
	local base folder sourced
	base=$(suite_base "$1")
	folder=$(dirname "$(suite_file "${base:-*}" | head -n 1)")
	mapfile -t sourced < <(grep -shE -d skip '^\. (/src/)?tests/' "$folder"/* | sed -E 's|^\. (/src/)?||' | sort -u)
	[ -s "$RESULTS/$1.tests" ] && git -C "$TOP" merge-base --is-ancestor "$(found_in "$1")" "$2" 2>/dev/null &&
		git -C "$TOP" diff --quiet "$(found_in "$1")" "$2" -- kmod uapi provider tests/lib.sh tests/lib tests/tools \
			"$folder" "${sourced[@]}" ':!tests/programs/tried'
}
