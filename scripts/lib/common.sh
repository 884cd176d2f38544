# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts of this folder's parent. Sourced; the caller has set -euo pipefail.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
CACHE=${KIWARP_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kiwarp}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# die STATUS MESSAGE...
die() {
	local status=$1
	shift
	say "$@"
	exit "$status"
}

# end_children [SIGNAL]: ends the children of this shell that still run, and waits for all. It never fails: the status of what
# fails in a trap would be that of the script.
end_children() {
	local running
	running=$(jobs -rp)
	# shellcheck disable=SC2086 # a list of numbers
	[ -z "$running" ] || kill -"${1:-TERM}" $running 2>/dev/null || :
	wait 2>/dev/null || :
}

# with_us COMMAND...: a script that runs long; it is told to end when this one dies, however that comes
with_us() { setpriv --pdeathsig TERM "$@"; }

# hash_of FILE... [-- WORD...]: a short name for this content
hash_of() {
	local files=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do files+=("$1"); shift; done
	{ [ ${#files[@]} = 0 ] || cat -- "${files[@]}"; printf '%s\n' "$@"; } | sha256sum | cut -c1-12
}

# cached_unused PATH: nobody has used it for 30 days, after which it goes from the cache when something new comes. The date of
# PATH is that of its last use.
cached_unused() { [ -n "$(find "$1" -maxdepth 0 -mtime +30)" ]; }

# cache_forget FOLDER KEPT...: removes the folders in that folder of the cache, with their logs, that nobody uses any more, but for
# those that are KEPT
cache_forget() {
	local dir
	for dir in "$CACHE/$1"/*/; do
		dir=${dir%/}
		! printf '%s\n' "${@:2}" | grep -qxFe "$dir" && cached_unused "$dir" || continue
		say "removing what nobody has used for 30 days: $dir"
		rm -rf --one-file-system "$dir" "$dir.log"
	done
}

# once LOCK TEST... -- COMMAND...: runs COMMAND under a lock, unless TEST says that another has done it
once() {
	local lock=$1 test=()
	shift
	while [ "$1" != -- ]; do test+=("$1"); shift; done
	shift
	"${test[@]}" && return 0
	mkdir -p "${lock%/*}"
	(
		exec 9>"$lock"
		flock -n 9 || { say "waiting for another build of ${lock##*/}"; flock 9; }
		"${test[@]}" || "$@" 9>&-
	)
}

# checkout_id: the commit, followed by "+" if files of the checkout differ from it. Tables of results don't count.
checkout_id() {
	local id
	id=$(git -C "$TOP" rev-parse HEAD)
	[ -z "$(git -C "$TOP" status --porcelain -- . ':!Documentation/platforms.md' ':!Documentation/programs.md')" ] || id+=+
	echo "$id"
}

need_root() { [ "$(id -u)" = 0 ] || die 2 "must run as root"; }

# host_packages NAME...: installs those that are missing, never a server
host_packages() {
	local missing=() p
	for p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || :)" = installed ] || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return 0
	need_root
	say "installing on this machine: ${missing[*]}"
	mkdir -p "$CACHE"
	(
		flock 9
		export DEBIAN_FRONTEND=noninteractive
		# On a machine that has just started, apt's own timers may be at work.
		apt=(apt-get -qq -o DPkg::Lock::Timeout=600)
		install=("${apt[@]}" install -y --no-install-recommends "${missing[@]}")
		# What the packages start doesn't get the lock.
		"${install[@]}" 9>&- || { "${apt[@]}" update && "${install[@]}"; } 9>&-
	) 9>"$CACHE/apt.lock" >"$CACHE/apt.log" 2>&1 ||
		die 96 "these packages could not be installed: ${missing[*]} (see $CACHE/apt.log)"
}
