# SPDX-License-Identifier: GPL-2.0
# The wire between two guests that are joined, in each of them. Source it after tests/lib.sh.

# wire_link NAME ADDRESS...: a link on it, which has these addresses with their prefixes
wire_link() {
	local wire address
	modprobe virtio_net
	LIMIT=20 until_true compgen -G '/sys/class/net/*/device/driver' >/dev/null
	wire=$(compgen -G '/sys/class/net/*/device/driver' | cut -d/ -f5)
	for address in "${@:2}"; do
		if [[ $address = *:* ]]; then ip addr add "$address" dev "$wire" nodad; else ip addr add "$address" dev "$wire"; fi
	done
	ip link set "$wire" up
	t link rdma link add "$1" type kiwarp netdev "$wire"
}
