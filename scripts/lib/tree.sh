# SPDX-License-Identifier: GPL-2.0
# Root trees, one per Debian release. Sourced after common.sh.

. "$TOP/scripts/lib/recipe.sh"

# tree_dir TREE: where this recipe's tree of that release stands
tree_dir() {
	echo "$CACHE/trees/$1-$(hash_of "$TOP/scripts/lib/recipe.sh" "$(tree_list "$1")")"
}

# tree_release DIR: the release that the tree is of. Kernels are keyed by it, so that a further package builds none.
tree_release() { local name=${1##*/}; echo "${name%-*}"; }

# tree_need TREE: makes it unless it is there. When one is made, those that belong to no guest any more go.
tree_need() {
	local dir
	dir=$(tree_dir "$1")
	once "$CACHE/locks/tree-$1" test -e "$dir" -- tree_make_anew "$1" "$dir"
	touch -- "$dir"
}

tree_make_anew() {
	local kept
	mapfile -t kept < <(guest_rows | awk '{ print $3 }' | sort -u | while read -r tree; do tree_dir "$tree"; done)
	cache_forget trees "$2" "${kept[@]}"
	tree_make "$@"
}

# guest_rows: the lines of scripts/kernels/guests
guest_rows() { sed 's/#.*//' "$TOP/scripts/kernels/guests" | awk NF; }

# tree_kernel DIR FLAVOUR: the newest of its kernels, or of their headers, of that flavour: amd64, cloud-amd64 or rt-amd64
tree_kernel() {
	find "$1/lib/modules/" -mindepth 1 -maxdepth 1 -name "*[0-9]-$2" -printf '%f\n' | sort -V | tail -n 1
}

# tree_fetch DIR PACKAGE FOLDER: downloads PACKAGE with the tree's own sources and keys; prints the .deb's path
tree_fetch() {
	local dir=$1 package=$2 folder=$3 deb lists
	mkdir -p "$folder"
	deb=$(find "$folder" -name "${package}_*.deb" | sort -V | tail -n 1)
	if [ -z "$deb" ]; then
		lists=$(mktemp -d)
		mkdir -p "$lists/lists/partial"
		printf '%s\n' "Dir \"$dir\";" "Dir::State::lists \"$lists/lists\";" 'Dir::Cache::pkgcache "";' 'Dir::Cache::srcpkgcache "";' \
			'APT::Architecture "amd64";' 'APT::Sandbox::User "root";' >"$lists/conf"
		(cd "$folder" && export APT_CONFIG=$lists/conf && apt-get -qq update && apt-get -qq download "$package") >&2 ||
			die 96 "package $package could not be fetched"
		rm -rf "$lists"
		deb=$(find "$folder" -name "${package}_*.deb" | sort -V | tail -n 1)
	fi
	echo "$deb"
}

# enter_tree DIR [BIND...] -- COMMAND...: becomes COMMAND, as root inside the tree, in namespaces of its own, without
# network. BIND is HOSTPATH:PATH or HOSTPATH:PATH:ro. The tree itself is read-only, /tmp is empty, the working folder is
# /build. Everything in there dies with the process, and the process with its parent.
enter_tree() {
	local dir=$1 binds=()
	shift
	while [ "$1" != -- ]; do binds+=("$1"); shift; done
	shift
	exec env -i PATH="$PATH" TREE="$dir" BINDS="$(printf '%s\n' "${binds[@]}")" \
		setpriv --pdeathsig KILL ${LIMIT:+timeout --foreground -s KILL "$LIMIT"} setpriv --pdeathsig KILL \
		unshare --mount --propagation private --pid --fork --kill-child --net bash "$TOP/scripts/lib/enter" "$@"
}

in_tree() { (enter_tree "$@"); }
