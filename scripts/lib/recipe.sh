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

# tree_packages TREE: what it holds
tree_packages() {
	awk -v tree="$1:" '{ sub(/#.*/, "") } $1 ~ /:$/ { if ($1 != tree) next; $1 = "" } { print }' "$TOP/scripts/kernels/packages"
}

tree_make() {
	local name=$1 dir=$2 release=${1%-backports} debs=$CACHE/debs/$1
	local list packages args path start=$SECONDS
	host_packages mmdebstrap debian-archive-keyring
	need_root
	mapfile -t list < <(tree_lines "$release")
	[ ${#list[@]} != 0 ] || die 96 "this machine's apt knows no Debian mirror to make a root tree from"

	mapfile -t args < <(tree_aptopts)
	# Documentation and drivers that no test can use
	for path in doc man locale info; do args+=(--dpkgopt="path-exclude=/usr/share/$path/*"); done
	for path in sound drivers/{gpu,media,net/wireless,iio,staging,bluetooth,isdn,hid}; do
		args+=(--dpkgopt="path-exclude=/lib/modules/*/kernel/$path/*" --dpkgopt="path-exclude=/usr/lib/modules/*/kernel/$path/*")
	done
	if [ "$name" != "$release" ]; then
		printf 'Package: src:linux src:linux-signed-amd64 linux-image-* linux-headers-* linux-kbuild-* linux-base\nPin: release n=%s\nPin-Priority: 990\n' "$name" >"$dir.pin"
		args+=(--setup-hook="mkdir -p \"\$1/etc/apt/preferences.d\" && mv '$dir.pin' \"\$1/etc/apt/preferences.d/kernel\"")
	fi
	packages=$(tree_packages "$name" | xargs | tr ' ' ,)

	say "making the root tree of $name (about two minutes)"
	mkdir -p "${dir%/*}" "$debs"
	rm -rf --one-file-system "$dir.new"
	# INITRD=No: no initramfs is made, the guests bring their own.
	env INITRD=No LC_ALL=C mmdebstrap --quiet --mode=root --variant=minbase --architectures=amd64 --keyring="$KEYRING" \
		--include="$packages" --aptopt='APT::Install-Recommends "false"' "${args[@]}" --skip=download/empty --skip=essential/unlink \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives"; cp -al "'"$debs"'"/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || :' \
		--customize-hook='cp -aln "$1"/var/cache/apt/archives/*.deb "'"$debs"'/" 2>/dev/null || :' \
		--customize-hook='mkdir -p "$1"/src "$1"/out "$1"/build "$1"/kernel "$1"/dest "$1"/ctl "$1"/siw "$1"/ccache' \
		--customize-hook=': >"$1/etc/machine-id"; echo guest >"$1/etc/hostname"; echo "127.0.0.1 localhost guest" >"$1/etc/hosts"' \
		"$release" "$dir.new" "${list[@]}" >"$dir.log" 2>&1 ||
		{ tail -n 20 "$dir.log" >&2; die 96 "making the root tree of $name failed (whole log: $dir.log)"; }
	mv "$dir.new" "$dir"
	say "root tree of $name made in $((SECONDS - start)) s"
}
