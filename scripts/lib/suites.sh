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
