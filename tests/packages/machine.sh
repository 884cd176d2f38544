# SPDX-License-Identifier: GPL-2.0
# Machines to install on: a release's root tree each, with an overlay that keeps what is written, and this machine's network.
# Sourced after scripts/lib/tree.sh and tests/lib.sh, by a shell with mounts of its own: they end with it.
#
#   machine NAME RELEASE   makes one; its root is $LAB/NAME/tree
#   on NAME COMMAND...     runs COMMAND in it as root, within LIMIT seconds
#   believes NAME          what asks there for the running kernel gets $kernel
#   in_guest TEST PREFIX GUEST NAME COMMAND...
#                          runs COMMAND in a guest whose root it is, within GUEST_LIMIT seconds; names of tests there get PREFIX,
#                          and TEST is that all went well. The guest's files are in build/FOLDER-SCRIPT-TEST

# Beside the trees: an overlay takes no other overlay's folder.
mkdir -p "$CACHE/machines"
LAB=$(mktemp -d --suffix=.$$ "$CACHE/machines/XXXXXX")
# What a run that was killed has left
for old in "$CACHE"/machines/*; do [ -d "/proc/${old##*.}" ] || rm -rf --one-file-system "$old"; done
# Packages that were downloaded, by machine: a folder of the cache for each release
declare -A DEBS
forget_machines() {
	local root name
	for name in "${!DEBS[@]}"; do
		cp -aln "$LAB/$name/upper/var/cache/apt/archives"/*.deb "${DEBS[$name]}/"
	done 2>/dev/null
	for root in "$LAB"/*/tree; do
		[ ! -d "$root" ] || umount -R "$root"
	done 2>/dev/null
	rm -rf --one-file-system "$LAB" "$WORK"
}
trap forget_machines EXIT
trap 'exit 143' INT TERM HUP

machine() {
	local root=$LAB/$1/tree tree node archives=$LAB/$1/upper/var/cache/apt/archives
	tree_need "$2" || return 1
	tree=$(tree_dir "$2")
	DEBS[$1]=$CACHE/debs/$2-machines
	# Links of its own to the cached packages: machines that are used at the same time would wait for each other's apt.
	mkdir -p "$LAB/$1"/{tree,work} "$archives" "${DEBS[$1]}" &&
		find "${DEBS[$1]}" -maxdepth 1 -name '*.deb' -exec cp -alt "$archives" {} + &&
		mount -t overlay -o "xino=on,lowerdir=$tree,upperdir=$LAB/$1/upper,workdir=$LAB/$1/work" overlay "$root" &&
		mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp" &&
		mount -t tmpfs -o mode=755 tmpfs "$root/dev" && ln -s /proc/self/fd "$root/dev/fd" &&
		mkdir "$root/dev/shm" || return 1
	for node in null zero full random urandom tty; do
		: >"$root/dev/$node"
		mount --bind "/dev/$node" "$root/dev/$node" || return 1
	done
	cat /etc/resolv.conf >"$root/etc/resolv.conf"
	# No service starts.
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod 755 "$root/usr/sbin/policy-rc.d"
	on "$1" apt-get -qq -o APT::Sandbox::User=root update
}

# files_of NAME: all that is installed, without what any installation changes
files_of() {
	(cd "$LAB/$1/tree" && find . -xdev \( -path ./build -o -path ./out -o -path ./src -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o \
		-path ./var/cache -o -path ./var/log -o -path ./etc/ld.so.cache -o -name 'modules.*' -o -name '*-old' -o -name '*.dpkg-old' \) -prune -o -print) | sort
}

on() {
	local root=$LAB/$1/tree
	shift
	setpriv --pdeathsig KILL timeout -k 10 "$LIMIT" setpriv --pdeathsig KILL unshare --pid --fork --kill-child --mount-proc="$root/proc" \
		chroot "$root" env -i HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

believes() {
	printf '#!/bin/sh\n[ "$*" = -r ] && echo %s || exec /bin/uname "$@"\n' "$kernel" >"$LAB/$1/tree/usr/local/bin/uname"
	chmod 755 "$LAB/$1/tree/usr/local/bin/uname"
}
GUEST_LIMIT=1200
in_guest() {
	local name=$1 script=${0#*tests/} status=0
	scripts/guest -k "$3" -b -r "$LAB/$4/tree" -t "$GUEST_LIMIT" -o "$PWD/build/${script//\//-}-$name" -- "${@:5}" \
		>"$WORK/guest" 2>"$WORK/errors" || status=$?
	sed -nE "s/^(ok|not ok|skip) /&$2/p; /^    /p" "$WORK/guest"
	FAILED=$((FAILED + $(grep -c '^not ok ' "$WORK/guest")))
	if [ $status = 0 ] && grep -q '^ok ' "$WORK/guest"; then
		ok "$name"
	else
		not_ok "$name" "status $status"
		tail -n 20 "$WORK/guest" "$WORK/errors" | sed 's/^/    | /'
	fi
}
