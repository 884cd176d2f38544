// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Devices, their interfaces, their namespaces and the module go and come back under traffic.
#include <array>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>

#include "sides.hpp"

namespace storm {

namespace {

// As seconds for timeout(1): what takes longer hangs.
constexpr const char *limit = "timeout -k 5 60 ";

/// Whether the command ended well; one that hangs throws.
bool run(const std::string &command)
{
	const std::string line = "exec >/dev/null 2>&1; " + (limit + ("sh -c '" + command + "'"));
	const int status = std::system(line.c_str()); // NOLINT(cert-env33-c)
	const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	demand(code != 124 && code != 137, "hangs: " + command);
	return code == 0;
}

void must(const std::string &command)
{
	demand(run(command), "failed: " + command);
}

/// Everything that is missing of the two hosts
void mend_hosts()
{
	(void)run("ip netns add storm-left");
	(void)run("ip netns add storm-right");
	(void)run("ip -n storm-left link set lo up; ip -n storm-right link set lo up");
	if (!run("ip -n storm-left link show kiws0")) {
		(void)run("ip -n storm-right link del kiws0; ip -n storm-right link del kiws1");
		(void)run("ip link add kiws0 netns storm-left type veth peer name kiws1 netns storm-right");
	}
	(void)run("ip -n storm-left addr replace 10.74.0.1/24 dev kiws0; ip -n storm-left link set kiws0 up");
	(void)run("ip -n storm-right addr replace 10.74.0.2/24 dev kiws1; ip -n storm-right link set kiws1 up");
	(void)run("ip netns exec storm-left rdma link add kiws0 type kiwarp netdev kiws0");
	(void)run("ip netns exec storm-right rdma link add kiws1 type kiwarp netdev kiws1");
}

constexpr const char *no_device = "while ls /sys/class/infiniband | grep -q kiws; do sleep 0.05; done";

/// One thing that happens to them; some of it is mended at once, the rest by mend_hosts().
void disturb(Random &random)
{
	static constexpr std::array<const char *, 14> disturbances = {
		"rdma link delete kiws0",
		"rdma link delete kiws1",
		"rdma link delete kiws0; ip netns exec storm-left rdma link add kiws0 type kiwarp netdev kiws0",
		"ip -n storm-left link set kiws0 down",
		"ip -n storm-right link set kiws1 down; ip -n storm-right link set kiws1 up",
		"ip -n storm-left link del kiws0",
		"ip -n storm-right link del kiws1",
		"ip netns del storm-left",
		"ip netns del storm-left; ip netns del storm-right",
		"ip -n storm-left addr flush dev kiws0",
		"ip -n storm-left link set kiws0 mtu 9000; ip -n storm-right link set kiws1 mtu 1280",
		"ip -n storm-left link set kiws0 netns storm-right",
		"ip -n storm-left link set kiws0 down; ip -n storm-left link set kiws0 name storm0; "
		"ip -n storm-left link set storm0 name kiws0",
		"rdma link delete kiws0 & rdma link delete kiws0 & ip -n storm-right link del kiws1; wait",
	};

	(void)run(random.pick(disturbances));
}

void pause(Random &random)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(random.below(1500)));
}

/// After all that a connection is as good as ever.
void prove(Part &part)
{
	vt::Listener listener;
	const RawPair pair(find_devices(), listener, part);
}

} // namespace

void make_hosts()
{
	mend_hosts();
	must("test -e /sys/class/infiniband/kiws0 && test -e /sys/class/infiniband/kiws1");
}

void remove_hosts()
{
	(void)run("ip -n storm-left link del kiws0");
	must(no_device);
	(void)run("ip netns del storm-left; ip netns del storm-right");
}

void churn_devices(Part &part)
{
	while (part.running()) {
		pause(part.random);
		for (std::uint32_t n = part.random.below(3); n > 0; n--)
			disturb(part.random);
		// Namespaces go late, and their interfaces with them: until then the names are taken.
		pause(part.random);
		mend_hosts();
		part.tally.accepted++;
	}
	(void)run(
		"ip -n storm-left link del kiws0; ip -n storm-right link del kiws0; ip -n storm-right link del kiws1");
	(void)run("ip netns del storm-left; ip netns del storm-right");
	must(no_device);
	make_hosts();
	prove(part);
}

void churn_module(Part &part)
{
	while (part.running()) {
		pause(part.random);
		// Under traffic, and once more with nothing
		must("rmmod kiwarp");
		if (part.random.one_in(4))
			must("modprobe kiwarp && rmmod kiwarp");
		must("modprobe kiwarp");
		must("ip netns exec left rdma link add kiw0 type kiwarp netdev veth0");
		must("ip netns exec right rdma link add kiw1 type kiwarp netdev veth1");
		part.tally.accepted++;
	}
	must("rdma link add kiwlo type kiwarp netdev lo");
	prove(part);
}

} // namespace storm
