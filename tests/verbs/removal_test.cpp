// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A device that goes while a process uses it.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

#include "child.hpp"
#include "connection.hpp"

namespace vt {

namespace {

constexpr const char *address = "10.75.0.1";

bool run(const char *command)
{
	return std::system(command) == 0; // NOLINT(cert-env33-c)
}

/// A device of its own, on a pair of interfaces that nobody else uses.
class SpareDevice : public testing::Test {
protected:
	void SetUp() override
	{
		if (!run("ip link add kiwt0 type veth peer name kiwt1 && ip addr add 10.75.0.1/32 dev kiwt0 && "
			 "ip link set kiwt0 up && ip link set kiwt1 up && rdma link add kiwt type kiwarp netdev kiwt0"))
			fail("no device can be made here");
	}
	void TearDown() override { run("ip link delete kiwt0 2>/dev/null"); }

	/// The child's status when it has removed the device by a command.
	static int status_after(const std::string &removal)
	{
		Child child({"part-bereaved", removal});
		wait_until([&] { return !child.running(); }, "the process whose device is removed");
		return child.status();
	}
};

TEST_F(SpareDevice, CanBeDeletedWhileInUse)
{
	EXPECT_EQ(status_after("rdma link delete kiwt"), 0);
}

TEST_F(SpareDevice, GoesWithItsInterface)
{
	EXPECT_EQ(status_after("ip link delete kiwt0"), 0);
}

} // namespace

int part_bereaved(const std::string &removal)
{
	int failures = 0;
	const auto expect = [&](const char *what, int is, int wanted) {
		if (is == wanted)
			return;
		std::cerr << what << ": " << is << " instead of " << wanted << '\n';
		failures++;
	};

	setenv("KIWARP_TEST_CLIENT", address, 1); // NOLINT(concurrency-mt-unsafe)
	setenv("KIWARP_TEST_SERVER", address, 1); // NOLINT(concurrency-mt-unsafe)
	Pair pair;
	Side &a = pair.a();
	Side &b = pair.b();
	const Region from(a.pd(), 1 << 20);
	const Region to(b.pd(), 1 << 20);
	pair.sync();
	b.receive_empty(3);
	for (std::uint64_t i = 0; i < 16; i++)
		expect("write", a.write({from.sge()}, {.id = i, .remote = to.address(), .rkey = to.rkey()}), 0);
	if (!run(removal.c_str()))
		return 2;

	for (std::uint64_t i = 0; i < 16; i++)
		expect("completion of a write", static_cast<int>(a.sent().wr_id), static_cast<int>(i));
	for (int i = 0; i < 3; i++)
		expect("status of a receive", b.received().status, IBV_WC_WR_FLUSH_ERR);
	expect("post_send", a.send(), EIO);
	expect("post_recv", b.receive(), EIO);
	expect("modify_qp", a.modify(IBV_QPS_ERR), EIO);
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	expect("query_qp", ibv_query_qp(a.qp(), &attr, IBV_QP_STATE, &init), EIO);
	ibv_port_attr port{};
	expect("query_port", ibv_query_port(a.context(), 1, &port), EIO);
	errno = 0;
	expect("alloc_pd", ibv_alloc_pd(a.context()) != nullptr, 0);
	expect("errno of alloc_pd", errno, EIO);
	errno = 0;
	expect("create_cq", ibv_create_cq(a.context(), 10, nullptr, nullptr, 0) != nullptr, 0);
	expect("errno of create_cq", errno, EIO);
	expect("req_notify_cq", ibv_req_notify_cq(a.send_cq(), 0), 0);
	expect("empty CQ", static_cast<int>(poll_all(a.send_cq()).size()), 0);
	wait_async(
		a.context(), [](const ibv_async_event &event) { return event.event_type == IBV_EVENT_DEVICE_FATAL; });
	// What is destroyed now is gone already: libibverbs says EIO and keeps its part of it.
	_exit(failures ? 1 : 0);
}

} // namespace vt
