# SPDX-License-Identifier: GPL-2.0
# Headers, libraries and programs of other architectures, of this machine's own Debian release, whose cross compilers build for
# them. Nothing of them runs while a sysroot is made. Sourced after common.sh.

. "$TOP/scripts/lib/recipe.sh"

SYSROOT_PACKAGES=libc6-dev,libibverbs-dev,librdmacm-dev,libgtest-dev,ibverbs-utils,ibverbs-providers,rdmacm-utils,perftest

host_release() { (. /etc/os-release && echo "$VERSION_CODENAME"); }

# sysroot_triplet ARCHITECTURE: of GNU's tools
sysroot_triplet() { dpkg-architecture -A "$1" -q DEB_TARGET_GNU_TYPE; }

sysroot_dir() { echo "$CACHE/sysroots/$1-$(hash_of "$TOP/scripts/lib/sysroot.sh" "$TOP/scripts/lib/recipe.sh" -- "$(host_release)")"; }

# sysroot_need ARCHITECTURE: makes it unless it is there, and installs the compilers for it
sysroot_need() {
	local dir triplet
	triplet=$(sysroot_triplet "$1")
	host_packages "g++-${triplet//_/-}" || return
	dir=$(sysroot_dir "$1")
	once "$CACHE/locks/sysroot-$1" test -e "$dir" -- sysroot_make "$1" "$dir" || return
	touch -- "$dir"
}

sysroot_make() {
	local arch=$1 dir=$2 library line link args
	library=libstdc++-$("$(sysroot_triplet "$arch")-g++" -dumpversion)-dev
	host_packages mmdebstrap debian-archive-keyring
	need_root
	# The release's first: a mirror may lack others for an architecture.
	line=$(tree_lines "$(host_release)" | head -n 1)
	[ -n "$line" ] || die 96 "this machine's apt knows no Debian mirror to make a sysroot from"
	mapfile -t args < <(tree_aptopts)
	cache_forget sysroots "$dir"
	say "making the sysroot of $arch (about a minute)"
	mkdir -p "${dir%/*}"
	rm -rf --one-file-system "$dir.new"
	mmdebstrap --mode=root --variant=extract --architectures="$arch" --keyring="$KEYRING" --include="$SYSROOT_PACKAGES,$library" \
		"${args[@]}" "$(host_release)" "$dir.new" "$line" >"$dir.log" 2>&1 ||
		{ tail -n 20 "$dir.log" >&2; die 96 "making the sysroot of $arch failed (whole log: $dir.log)"; }
	# qemu-user looks there for the paths that a program names, but not for those that links name.
	find "$dir.new" -type l -lname '/*' | while read -r link; do
		ln -sfn "$(realpath -ms --relative-to="${link%/*}" "$dir.new$(readlink "$link")")" "$link"
	done
	mv "$dir.new" "$dir"
}
