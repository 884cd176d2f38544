# SPDX-License-Identifier: GPL-2.0
# How a root tree is made. Sourced by tree.sh; a change of this file makes every tree anew.

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# "URI suite" pairs of this machine's own apt sources, in both of apt's formats
tree_sources() {
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
		function out(  i, j, u, s, n, m) {
			if (types ~ /(^| )deb( |$)/) {
				n = split(uris, u, " "); m = split(suites, s, " ")
				for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
			}
			types = uris = suites = ""
		}
		/^#/ { next }
		/^[ \t]*$/ || FNR == 1 { out() }
		/^Types:/ { sub(/^[^:]*: */, ""); types = $0 }
		/^URIs:/ { sub(/^[^:]*: */, ""); uris = $0 }
		/^Suites:/ { sub(/^[^:]*: */, ""); suites = $0 }
		END { out() }' || :
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) +([^ ]+).*/\2 \3/p' || :
}

# tree_lines RELEASE: its lines of apt's sources, from this machine's mirror; none if apt knows no Debian mirror
tree_lines() {
	local release=$1 pairs main security option="signed-by=$KEYRING"
	pairs=$(tree_sources)
	main=$(awk '$2 !~ /security/ && $1 ~ /\/debian\/?$/ { print $1; exit }' <<<"$pairs")
	security=$(awk '$2 ~ /-security/ { print $1; exit }' <<<"$pairs")
	[ -n "$main" ] || return 0
	# The testing index of a mirror may be past its date: accepted up to 90 days, the signature is still checked.
	[ "$release" != forky ] || option+=" valid-until-min=$((90 * 86400))"
	echo "deb [$option] $main $release main"
	[ "$release" = forky ] || printf '%s\n' "deb [$option] $main $release-updates main" "deb [$option] $main $release-backports main"
	[ -z "$security" ] || echo "deb [$option] $security $release-security main"
}

# tree_aptopts: mmdebstrap's options for the way to the mirror, one a line
tree_aptopts() {
	printf -- '--aptopt=%s\n' 'Acquire::Retries "3"' 'Acquire::Languages "none"'
	apt-config dump | sed -nE 's/^Acquire::[a-z]+::Proxy/--aptopt=&/p'
}

# tree_foreign TREE: its architecture, where that isn't amd64; then nothing in it can run here
tree_foreign() { case ${1#*-} in arm64 | armhf | ppc64el | riscv64 | s390x) echo "${1#*-}" ;; esac; }

# tree_list TREE: the file that says what it holds
tree_list() {
	local kind=
	[ -z "$(tree_foreign "$1")" ] || kind=.foreign
	[[ $1 != *-cross ]] || kind=.cross
	echo "$TOP/scripts/kernels/packages$kind"
}

# tree_packages TREE: what it holds
tree_packages() {
	awk -v tree="$1:" '{ sub(/#.*/, "") } $1 ~ /:$/ { if ($1 != tree) next; $1 = "" } { print }' "$(tree_list "$1")"
}

# tree_unpacked DIR: does what matters of the maintainer scripts, which didn't run
tree_unpacked() {
	local dir=$1 name link kernel
	for name in passwd group; do cp "$dir/usr/share/base-passwd/$name.master" "$dir/etc/$name"; done
	for link in usr/bin/awk:mawk var/run:/run var/lock:/run/lock; do ln -sfn "${link#*:}" "$dir/${link%:*}"; done
	mkdir -p "$dir"/usr/local/{bin,sbin,lib}
	chmod 1777 "$dir/tmp"
	for kernel in "$dir"/lib/modules/*/kernel; do [ ! -e "$kernel" ] || depmod -b "$dir" "$(basename "${kernel%/kernel}")"; done
	# A compiler, and qemu-user, look here for a path that something names, but not for one that a link names.
	find "$dir" -type l -lname '/*' | while read -r link; do
		ln -sfn "$(realpath -ms --relative-to="${link%/*}" "$dir$(readlink "$link")")" "$link"
	done
}

tree_make() {
	local name=$1 dir=$2 release=${1%%-*} debs=$CACHE/debs/$1 foreign last=customize
	local list packages args path start=$SECONDS
	host_packages mmdebstrap debian-archive-keyring kmod
	foreign=$(tree_foreign "$name")
	need_root
	mapfile -t list < <(tree_lines "$release")
	[ ${#list[@]} != 0 ] || die 96 "this machine's apt knows no Debian mirror to make a root tree from"
	# The release's own alone: a mirror may lack the others for an architecture. What builds for it has to have the same kernel's scripts.
	[ -z "$foreign" ] && [[ $name != *-cross ]] || list=("${list[0]}")

	mapfile -t args < <(tree_aptopts)
	# Documentation and drivers that no test can use
	for path in doc man locale info; do args+=(--dpkgopt="path-exclude=/usr/share/$path/*"); done
	for path in sound drivers/{gpu,media,net/wireless,iio,staging,bluetooth,isdn,hid}; do
		args+=(--dpkgopt="path-exclude=/lib/modules/*/kernel/$path/*" --dpkgopt="path-exclude=/usr/lib/modules/*/kernel/$path/*")
	done
	if [[ $name = *-backports ]]; then
		printf 'Package: src:linux src:linux-signed-amd64 linux-image-* linux-headers-* linux-kbuild-* linux-base\nPin: release n=%s\nPin-Priority: 990\n' "$name" >"$dir.pin"
		args+=(--setup-hook="mkdir -p \"\$1/etc/apt/preferences.d\" && mv '$dir.pin' \"\$1/etc/apt/preferences.d/kernel\"")
	fi
	packages=$(tree_packages "$name" | xargs | tr ' ' ,)
	if [ -n "$foreign" ]; then
		# A package's own links in /bin and /lib would come too late.
		last=extract
		args+=(--variant=extract --architectures="$foreign" --setup-hook='mkdir -p "$1/usr"'
			--setup-hook='for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d" && ln -s "usr/$d" "$1/$d"; done')
	else
		args+=(--variant=minbase --architectures=amd64)
	fi

	say "making the root tree of $name (about two minutes)"
	mkdir -p "${dir%/*}" "$debs"
	rm -rf --one-file-system "$dir.new"
	# INITRD=No: no initramfs is made, the guests bring their own.
	env INITRD=No LC_ALL=C mmdebstrap --quiet --mode=root --keyring="$KEYRING" \
		--include="$packages" --aptopt='APT::Install-Recommends "false"' "${args[@]}" --skip=download/empty --skip=essential/unlink \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives"; cp -al "'"$debs"'"/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || :' \
		"--$last-hook"='cp -aln "$1"/var/cache/apt/archives/*.deb "'"$debs"'/" 2>/dev/null || :' \
		"$release" "$dir.new" "${list[@]}" >"$dir.log" 2>&1 ||
		{ tail -n 20 "$dir.log" >&2; die 96 "making the root tree of $name failed (whole log: $dir.log)"; }
	mkdir -p "$dir.new"/{src,out,build,kernel,dest,ctl,siw,ccache,sysroot}
	: >"$dir.new/etc/machine-id"
	echo guest >"$dir.new/etc/hostname"
	echo "127.0.0.1 localhost guest" >"$dir.new/etc/hosts"
	[ -z "$foreign" ] || tree_unpacked "$dir.new"
	mv "$dir.new" "$dir"
	say "root tree of $name made in $((SECONDS - start)) s"
}
