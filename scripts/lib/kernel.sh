# SPDX-License-Identifier: GPL-2.0
# The kernels that are built here, and the peer driver siw. Sourced after tree.sh. ARCH is uml or x86: the script
# scripts/kernels/build-ARCH builds it.

# source_package VERSION TREEDIR: path of the linux-source package of that version
source_package() { tree_fetch "$2" "linux-source-$1" "$CACHE/debs/source-$(tree_release "$2")"; }

# unpack_source DEB VERSION FOLDER TAR-ARGUMENT...: parts of the kernel source, without its top folder
unpack_source() {
	local deb=$1 version=$2 folder=$3
	shift 3
	host_packages xz-utils
	mkdir -p "$folder"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/linux-source-$version.tar.xz" | xz -dc -T0 |
		tar -x -C "$folder" --strip-components=1 "$@"
}

kernel_configs() {
	local name
	for name in ${1//+/ }; do echo "$TOP/scripts/kernels/$name.config"; done
}

# kernel_dir ARCH VERSION CONFIGS TREEDIR: where that kernel stands
kernel_dir() {
	local files
	mapfile -t files < <(kernel_configs "$3")
	for f in "${files[@]}"; do [ -r "$f" ] || die 2 "no kernel configuration ${f##*/}"; done
	echo "$CACHE/kernels/$1-$2-$3-$(hash_of "${files[@]}" "$TOP/scripts/kernels/build-"{common,"$1"} -- "$(tree_release "$4")")"
}

# kernel_need ARCH VERSION CONFIGS TREEDIR: builds it unless it is there. When one is built, those that belong to no guest any
# more go.
kernel_need() {
	local dir
	dir=$(kernel_dir "$@")
	once "$CACHE/locks/${dir##*/}" test -e "$dir" -- kernel_make_anew "$@" "$dir"
	touch -- "$dir"
}

kernel_make_anew() {
	local kept
	mapfile -t kept < <(guest_rows | while read -r _ kind release version configs _; do
		[ "$version" = - ] || kernel_dir "$(kernel_arch "$kind")" "$version" "$configs" "$(tree_dir "$release")"
	done)
	cache_forget kernels "$5" "${kept[@]}"
	kernel_make "$@"
}

# kernel_arch KIND: what a guest of that kind runs
kernel_arch() { if [ "$1" = uml ]; then echo uml; else echo x86; fi; }

kernel_make() {
	local arch=$1 version=$2 configs=$3 tree=$4 dir=$5 deb files name start=$SECONDS
	need_root
	say "building the $arch kernel $version, configuration $configs (ten minutes and more, log: $dir.log)"
	deb=$(source_package "$version" "$tree")
	rm -rf "$dir.new"
	unpack_source "$deb" "$version" "$dir.new" --exclude='*/arch/[a-t]*/*.[chS]' --exclude='*/arch/*/boot/dts' \
		--exclude='*/Documentation/*/*' --exclude='*/tools/testing' --exclude='*/tools/perf' \
		--exclude='*/drivers/gpu/drm/*/*.[ch]' --exclude='*/drivers/media/*.[ch]' --exclude='*/sound/*.[ch]' \
		--exclude='*/drivers/net/wireless/*.[ch]' --exclude='*/drivers/net/ethernet/*.[ch]'
	mapfile -t files < <(kernel_configs "$configs")
	cat "${files[@]}" >"$dir.new/kiwarp.config"
	cp "$TOP/scripts/kernels/build-$arch" "$dir.new/kiwarp-build"
	cp "$TOP/scripts/kernels/build-common" "$dir.new/kiwarp-build-common"
	mkdir -p "$CACHE/ccache"
	LIMIT=5400 in_tree "$tree" "$dir.new:/kernel" "$CACHE/ccache:/ccache" -- bash /kernel/kiwarp-build >"$dir.log" 2>&1 </dev/null ||
		{ tail -n 20 "$dir.log" >&2; die 96 "the kernel was not built (whole log: $dir.log)"; }
	mv "$dir.new" "$dir"
	say "kernel $version built in $((SECONDS - start)) s"
}

# siw_dir KVER TREEDIR KERNELKEY: where the peer driver, built for that kernel, stands
siw_dir() { echo "$CACHE/siw/$1-$(hash_of "$TOP/scripts/kernels/build-siw" -- "$(tree_release "$2")" "$3")"; }

# siw_need KVER TREEDIR KERNELKEY VERSION KDIR BIND...
siw_need() {
	local dir
	dir=$(siw_dir "$1" "$2" "$3")
	once "$CACHE/locks/siw-${dir##*/}" test -e "$dir" -- siw_make "$dir" "$2" "$4" "$5" "${@:6}"
}

siw_make() {
	local dir=$1 tree=$2 version=$3 kdir=$4 deb
	shift 4
	say "building the peer driver siw from the release's kernel source"
	deb=$(source_package "$version" "$tree")
	rm -rf "$dir.new"
	unpack_source "$deb" "$version" "$dir.new/tree" --wildcards '*/drivers/infiniband/sw/siw'
	mv "$dir.new/tree/drivers/infiniband/sw/siw" "$dir.new/siw"
	cp "$TOP/scripts/kernels/build-siw" "$dir.new/"
	LIMIT=1200 in_tree "$tree" "$dir.new:/build" "$@" -- bash /build/build-siw "$kdir" >"$dir.log" 2>&1 </dev/null ||
		{ tail -n 20 "$dir.log" >&2; die 96 "siw was not built (whole log: $dir.log)"; }
	mv "$dir.new" "$dir"
}
