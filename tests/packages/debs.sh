# SPDX-License-Identifier: GPL-2.0
# The Debian packages: built in a machine "builder", which is Debian 12, and installed in others. Sourced after machine.sh.
#
#   builder PACKAGE...           makes that machine, with what the build needs and PACKAGEs; the source belongs into its
#                                /build/kiwarp
#   build                        builds there; its /debs has the result
#   target NAME RELEASE          makes a machine to install them in
#   copy_debs NAME               takes there what was built so far
#   install_debs NAME VERSION    installs those of VERSION in a machine
#   has_module NAME VERSION      DKMS has built VERSION for $kernel there, and knows no other
#   uses TEST NAME COMMAND...    runs COMMAND in a guest whose root is that machine's, named like its release

packages=(kiwarp-dkms libkiwarp-provider kiwarp-tools libkiwarp-dev kiwarp-user)

builder() {
	machine builder bookworm && mkdir -p "$LAB/builder/tree/build/kiwarp" &&
		on builder apt-get -qq -o APT::Sandbox::User=root install -y --no-install-recommends build-essential debhelper dh-dkms fakeroot "$@"
}
build() {
	on builder sh -c 'cd /build/kiwarp && dpkg-buildpackage -b -us -uc' && mkdir -p "$LAB/builder/tree/debs" &&
		mv "$LAB"/builder/tree/build/*.deb "$LAB/builder/tree/debs/"
}
# debs VERSION: as they are named in the machines; an earlier release may have had fewer
debs() {
	local package
	for package in "${packages[@]}"; do
		[ ! -e "$(echo "$LAB/builder/tree/debs/${package}_$1"_*.deb)" ] || echo /debs/"${package}_$1"_*.deb
	done
}

target() {
	machine "$1" "$2" && mkdir -p "$LAB/$1/tree/debs" &&
		on "$1" apt-get -qq purge -y linux-headers-cloud-amd64 linux-headers-rt-amd64 'linux-headers-*-cloud-amd64' 'linux-headers-*-rt-amd64' &&
		on "$1" apt-get -qq -o APT::Sandbox::User=root install -y --no-install-recommends dkms systemd udev
}
copy_debs() { cp "$LAB"/builder/tree/debs/*.deb "$LAB/$1/tree/debs/"; }
install_debs() { on "$1" sh -c "apt-get -qq -o APT::Sandbox::User=root install -y --no-install-recommends $(debs "$2" | xargs)"; }
has_module() {
	on "$1" dkms install kiwarp/"$2" -k "$kernel" && on "$1" sh -c 'dkms status kiwarp' >"$WORK/status" &&
		grep -q "$2.*$kernel.*installed" "$WORK/status" && ! grep -v "$2[,/]" "$WORK/status" &&
		[ "$(on "$1" modinfo -k "$kernel" -F version kiwarp)" = "$2" ]
}
uses() { in_guest "$2.$1" "$2.$1." "$2" "$2" "${@:3}"; }
