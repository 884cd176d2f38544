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
		git -C "$TOP" diff --quiet "$(found_in "$1")" "$2" -- kmod uapi provider tests/lib.sh tests/tools tests/verbs \
			"$folder" "${sourced[@]}" ':!tests/programs/tried'
}
