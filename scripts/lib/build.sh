# SPDX-License-Identifier: GPL-2.0
# Builds the working tree for a guest. Sourced after kernel.sh.

checkout_files() {
	if [ -e "$TOP/.git" ]; then
		git -c safe.directory='*' -C "$TOP" ls-files -co --exclude-standard -z
	else
		(cd "$TOP" && find . \( -path ./build -o -path ./.git \) -prune -o -type f -printf '%P\0')
	fi | (cd "$TOP" && while IFS= read -r -d '' f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done) | sort -zu
}

# What a build can't depend on: a change here builds nothing.
NOT_BUILT='^(Documentation/|debian/|packaging/|ci/|tools/|scripts/(lib/(common|tree|recipe|boot|results)|guest|check|bench|demo|kernels)|tests/(demo/cold$|packages/|services/|guest/[a-z]+$|[a-z]+/run$)|\.ci/)|\.(md|sh|suite|py)$'

# What make gets besides, as VARIABLE=VALUE
BUILD_ARGS=()

# What is built of tests for another architecture
FOREIGN_TESTS='arch proto session user verbs wire record'

# build_where TREE: what a build for that tree wants: sets BUILD_TREE, the tree in which it runs, which isn't that one where
# nothing in that can run, and binds and BUILD_ARGS
build_where() {
	local foreign
	BUILD_TREE=$(tree_dir "$1")
	foreign=$(tree_foreign "$1")
	[ -n "$foreign" ] || return 0
	binds=("$BUILD_TREE:/sysroot:ro" "$BUILD_TREE/usr/src:/usr/src:ro")
	# The last of each counts: the caller's.
	BUILD_ARGS=(KIWARP_FOREIGN="$foreign" KIWARP_TESTS="$FOREIGN_TESTS" "${BUILD_ARGS[@]}")
	tree_need "${1%%-*}-cross"
	BUILD_TREE=$(tree_dir "${1%%-*}-cross")
}

# build_need FOLDER TREEDIR KVER KDIR BIND...: brings FOLDER up to date; sets DEST to what is to be installed in the
# guest, and holds it with a shared lock on descriptor 7 as long as this process lives
build_need() {
	local folder=$1 tree=$2 kver=$3 kdir=$4 key
	shift 4
	[ ! -e "$TOP/.git" ] || host_packages git
	[ -e "$folder" ] || builds_forget
	build_hold
	# The date of this file is that of the last use.
	printf '%s\n' "$TOP" >"$folder/clone"
	# A file that an editor takes away meanwhile is none.
	key=$({ checkout_files | grep -zvE "$NOT_BUILT" | (cd "$TOP" && xargs -0r sha256sum 2>/dev/null || :); echo "$kver ${tree##*/} $* ${BUILD_ARGS[*]}"; } |
		sha256sum | cut -c1-16)
	DEST=$folder/dest-$key
	[ -e "$DEST" ] || build_make "$@"
	exec 7>"$DEST.lock"
	flock -s 7
	build_forget
	exec 8>&-
}

# build_hold: makes the folder if it isn't there, and locks it on descriptor 8. Until then another may remove it.
build_hold() {
	while :; do
		mkdir -p "$folder/src"
		{ exec 8>"$folder/lock"; } 2>/dev/null || continue
		flock -n 8 || { say "waiting for another build of this checkout"; flock 8; }
		[ ! "$folder/lock" -ef /proc/self/fd/8 ] || return 0
	done
}

# builds_forget: removes the builds of clones that are gone, and those that nobody has used for 30 days, unless one is in use
builds_forget() {
	local lock
	for lock in "$CACHE"/build/*/lock; do
		[ ! -e "$lock" ] || (flock -n 6 && build_unneeded "${lock%/*}" && rm -rf "${lock%/*}") 6<>"$lock" || :
	done
}

# build_unneeded FOLDER: it is so, and no guest runs of it. Its lock is held, so no guest begins to.
build_unneeded() {
	local used=$1/clone dest
	# Earlier versions of this script left none.
	[ -e "$used" ] || used=$1/lock
	cached_unused "$used" || { [ "$used" != "$1/lock" ] && [ ! -d "$(cat "$used")" ]; } || return 1
	for dest in "$1"/dest-*.lock; do
		[ ! -e "$dest" ] || (flock -n 5) 5<>"$dest" || return 1
	done
}

build_make() {
	local start=$SECONDS
	host_packages rsync
	say "building the working tree for $kver"
	checkout_files >"$folder/files.new"
	# By content, so that only what really changed gets a new date and is compiled again
	rsync -rlp --checksum --ignore-missing-args --from0 --files-from="$folder/files.new" "$TOP/" "$folder/src/"
	if [ -e "$folder/files" ]; then
		comm -z -23 "$folder/files" "$folder/files.new" | (cd "$folder/src" && xargs -0r rm -f --)
	fi
	mv "$folder/files.new" "$folder/files"
	rm -rf "$folder/dest.new"
	mkdir "$folder/dest.new"
	mkdir -p "$CACHE/ccache"
	LIMIT=1800 in_tree "$tree" "$folder/src:/build" "$folder/dest.new:/dest" "$CACHE/ccache:/ccache" "$@" -- \
		bash /build/scripts/lib/build-inside "$kver" "$kdir" "${BUILD_ARGS[@]}" >"$folder/log" 2>&1 </dev/null || {
		grep -E '(error: |Error [0-9]|undefined reference|\*\*\*)' "$folder/log" | head -n 40 >&2 || :
		echo ... >&2
		tail -n 15 "$folder/log" >&2
		die 96 "the build for $kver failed (whole log: $folder/log)"
	}
	mv "$folder/dest.new" "$DEST"
	say "built in $((SECONDS - start)) s"
}

# Removes earlier results that no running guest holds.
build_forget() {
	local old
	for old in "$folder"/dest-????????????????; do
		[ "$old" != "$DEST" ] || continue
		(flock -n 6 && rm -rf "$old" "$old.lock") 6>"$old.lock" || :
	done
}
