# SPDX-License-Identifier: GPL-2.0
# Two machines in a guest: itself, and the network namespace "second", which see their own RDMA devices only. Each has its eth0,
# 192.0.2.1 and 192.0.2.2. Sourced after tests/lib.sh; "pair" then has its server in second, its client in the guest.

SERVER_HOST=second CLIENT_HOST=-
in_host() { if [ "$1" = - ]; then IN=(); else IN=(ip netns exec "$1"); fi; }

second_machine() {
	rdma system set netns exclusive &&
		ip netns add second &&
		ip link set lo up && ip -n second link set lo up &&
		ip link add eth0 type veth peer name eth0 netns second &&
		ip address add 192.0.2.1/24 dev eth0 && ip -n second address add 192.0.2.2/24 dev eth0 &&
		ip link set eth0 up && ip -n second link set eth0 up
}

# second_link: kiw1 on its eth0; one kernel has no two devices of one name
second_link() {
	ip netns exec second rdma link add kiw1 type kiwarp netdev eth0 || return
	# Older kernels make every device outside of namespaces, whence it has to be moved.
	! rdma dev show kiw1 >/dev/null 2>&1 || rdma dev set kiw1 netns second
}
