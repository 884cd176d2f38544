# SPDX-License-Identifier: GPL-2.0
# What is built for another architecture, for scripts on the host. Sourced after scripts/lib/build.sh and tests/lib.sh.

# foreign_build TREE FLAVOUR: builds, as scripts/guest does for a guest of that architecture, which finds it built; FLAVOUR is that of
# the kernel (-: tests alone, no module). Leaves in $WORK/built the folders of the tests and of the build, and that of all that is
# installed.
foreign_build() (
	set -euo pipefail
	tree=$1 kver=- kdir=- binds=()
	rm -f "$WORK/built"
	tree_need "$tree"
	if [ "$2" = - ]; then
		FOREIGN_TESTS='proto session'
	else
		kver=$(tree_kernel "$(tree_dir "$tree")" "$2")
		kdir=/usr/src/linux-headers-$kver
	fi
	folder=$CACHE/build/$(hash_of -- "$TOP")-$kver
	[ "$kver" != - ] || folder+=$tree
	build_where "$tree"
	build_need "$folder" "$BUILD_TREE" "$kver" "$kdir" "${binds[@]}"
	printf '%s\n' "$DEST/usr/lib/kiwarp/tests" "$folder" "$DEST" >"$WORK/built"
)
