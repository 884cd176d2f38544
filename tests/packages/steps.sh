# SPDX-License-Identifier: GPL-2.0
# The commands that README.md names, or another PAGE. Sourced with the checkout as the working folder.

# steps SECTION...: the commands of these sections, a line each, without comments
steps() {
	awk -v sections="$(printf '## %s\n' "$@")" '
		BEGIN { n = split(sections, names, "\n"); for (i = 1; i <= n; i++) wanted[names[i]] }
		/^## / { on = $0 in wanted }
		on && sub(/^    /, "") { sub(/ +#.*/, ""); if ($0 != "") print }' "${PAGE:-README.md}"
}
# Those up to the first that needs the running kernel, from that on, and the lines for two machines
needs_the_kernel='^(systemctl|rdma|kiwarp-selftest|ibv_)'
two_machines='^(first|second)\$ '
steps_before_the_kernel() { steps "$@" | grep -vE "$two_machines" | sed -E "/$needs_the_kernel/,\$d"; }
steps_in_the_kernel() { steps "$@" | grep -vE "$two_machines" | sed -nE "/$needs_the_kernel/,\$p"; }
steps_of() { steps "${@:2}" | sed -nE "s/^$1\\$ +//p"; }
