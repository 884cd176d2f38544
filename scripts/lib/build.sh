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

# build_need FOLDER TREEDIR KVER KDIR BIND...: brings FOLDER up to date; sets DEST to what is to be installed in the
# guest, and holds it with a shared lock on descriptor 7 as long as this process lives
build_need() {
	local folder=$1 tree=$2 kver=$3 kdir=$4 key
	shift 4
	[ ! -e "$TOP/.git" ] || host_packages git
	mkdir -p "$folder/src"
	exec 8>"$folder/lock"
	flock -n 8 || { say "waiting for another build of this checkout"; flock 8; }
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
