// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The interface of a device changes, or the device goes, while a process uses it.
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "child.hpp"

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
		wait_until([&] { return !child.running(); }, "the process of the removed device");
		return child.status();
	}
};

/// What follows on a change of the interface: the events up to the one that is awaited, which must come.
void expect_event(ibv_context *context, const char *change, ibv_event_type type)
{
	ASSERT_TRUE(run(change)) << change;
	const auto event = wait_async(context, [=](const ibv_async_event &e) { return e.event_type == type; });
	EXPECT_EQ(event.element.port_num, 1) << change;
}

ibv_port_state port_state(ibv_context *context)
{
	ibv_port_attr attr{};

	if (const int err = ibv_query_port(context, 1, &attr))
		fail("ibv_query_port", err);
	return attr.state;
}

TEST_F(SpareDevice, SaysWhenItsPortGoesDownAndUp)
{
	const Context context = open_device("kiwt");

	EXPECT_EQ(port_state(context.get()), IBV_PORT_ACTIVE);
	expect_event(context.get(), "ip link set kiwt0 down", IBV_EVENT_PORT_ERR);
	EXPECT_EQ(port_state(context.get()), IBV_PORT_DOWN);
	expect_event(context.get(), "ip link set kiwt0 up", IBV_EVENT_PORT_ACTIVE);
	EXPECT_EQ(port_state(context.get()), IBV_PORT_ACTIVE);
}

TEST_F(SpareDevice, LosesItsCarrierWithThePeer)
{
	const Context context = open_device("kiwt");

	expect_event(context.get(), "ip link set kiwt1 down", IBV_EVENT_PORT_ERR);
	EXPECT_EQ(port_state(context.get()), IBV_PORT_DOWN);
	expect_event(context.get(), "ip link set kiwt1 up", IBV_EVENT_PORT_ACTIVE);
	EXPECT_EQ(port_state(context.get()), IBV_PORT_ACTIVE);
}

using Bytes = std::array<std::uint8_t, 16>;

constexpr Bytes hardware{0x02, 0x00, 0x5e, 0x10, 0x20, 0x30};
constexpr const char *set_hardware = "ip link set kiwt0 address 02:00:5e:10:20:30";
constexpr int last_slot = 63;

Bytes bytes_of(const char *text)
{
	Bytes bytes{};

	if (inet_pton(AF_INET6, text, bytes.data()) != 1)
		fail(text);
	return bytes;
}

bool has_gid(ibv_context *context, int slot, const Bytes &wanted)
{
	ibv_gid gid{};

	return !ibv_query_gid(context, 1, slot, &gid) && !std::memcmp(gid.raw, wanted.data(), wanted.size());
}

// RDMA core keeps the event of a change for itself.
void expect_gid(ibv_context *context, int slot, const Bytes &wanted, const std::string &what)
{
	wait_until([&] { return has_gid(context, slot, wanted); }, what + " in slot " + std::to_string(slot));
}

TEST_F(SpareDevice, GidFollowsTheInterfacesHardwareAddress)
{
	const Context context = open_device("kiwt");

	ASSERT_TRUE(run(set_hardware));
	expect_gid(context.get(), last_slot, hardware, "the hardware address");
	expect_gid(context.get(), 0, bytes_of("::ffff:10.75.0.1"), "the first address");
}

/// The slot that an address has of its own, or -1
int gid_slot(ibv_context *context, const char *text)
{
	const Bytes wanted = bytes_of(text);

	for (int i = 1; i < 64; i++)
		if (has_gid(context, i, wanted))
			return i;
	return -1;
}

void expect_first(ibv_context *context, const char *change, const char *text)
{
	ASSERT_TRUE(run(change)) << change;
	expect_gid(context, 0, bytes_of(text), std::string("after ") + change + ": " + text);
}

TEST_F(SpareDevice, SlotZeroRepeatsTheFirstAddress)
{
	const Context context = open_device("kiwt");

	ASSERT_TRUE(run(set_hardware));
	expect_gid(context.get(), 0, bytes_of("::ffff:10.75.0.1"), "the first address");
	// Others that come change nothing.
	ASSERT_TRUE(run("ip addr add 10.75.0.2/32 dev kiwt0 && ip addr add fd75::1/64 dev kiwt0 nodad"));
	wait_until([&] { return gid_slot(context.get(), "fd75::1") > 0; }, "an address of IPv6");
	EXPECT_TRUE(has_gid(context.get(), 0, bytes_of("::ffff:10.75.0.1")));
	// IPv4 comes before IPv6, and what comes again isn't the first any more.
	expect_first(context.get(), "ip addr del 10.75.0.1/32 dev kiwt0", "::ffff:10.75.0.2");
	ASSERT_TRUE(run("ip addr add 10.75.0.1/32 dev kiwt0"));
	wait_until([&] { return gid_slot(context.get(), "::ffff:10.75.0.1") > 0; }, "the address that comes again");
	EXPECT_TRUE(has_gid(context.get(), 0, bytes_of("::ffff:10.75.0.2")));
	expect_first(context.get(), "ip -4 addr flush dev kiwt0", "fd75::1");
	expect_gid(context.get(), last_slot, hardware, "the hardware address");
	// None is left: the hardware address, as rdma_cm wants something there.
	ASSERT_TRUE(run("ip addr flush dev kiwt0"));
	expect_gid(context.get(), 0, hardware, "the hardware address");
	expect_gid(context.get(), last_slot, hardware, "the hardware address");
	// What peers on the same link alone can reach gives way to what others can, and that to IPv4.
	expect_first(context.get(), "ip addr add fe80::75/64 dev kiwt0 nodad", "fe80::75");
	expect_first(context.get(), "ip addr add fd75::2/64 dev kiwt0 nodad", "fd75::2");
	expect_first(context.get(), "ip addr add 10.75.0.3/32 dev kiwt0", "::ffff:10.75.0.3");
}

void expect_slot(ibv_context *context, const char *text, int slot)
{
	wait_until([&] { return gid_slot(context, text) == slot; }, std::string("the slot of ") + text);
}

TEST_F(SpareDevice, AddressesHaveSlotsAndKeepThem)
{
	const Context context = open_device("kiwt");

	// That of the fixture is there from the start; IPv6 finds an address itself.
	const int first = gid_slot(context.get(), "::ffff:10.75.0.1");
	ASSERT_GT(first, 0);
	ASSERT_TRUE(run("ip addr add 10.75.0.2/32 dev kiwt0"));
	wait_until([&] { return gid_slot(context.get(), "::ffff:10.75.0.2") > 0; }, "a second address");
	ASSERT_TRUE(run("ip addr add fd75::1/64 dev kiwt0 nodad"));
	wait_until([&] { return gid_slot(context.get(), "fd75::1") > 0; }, "an address of IPv6");
	const int second = gid_slot(context.get(), "::ffff:10.75.0.2");
	const int third = gid_slot(context.get(), "fd75::1");
	EXPECT_NE(second, third);

	// One goes: the others stay where they are, and its slot isn't the first to be used again.
	ASSERT_TRUE(run("ip addr del 10.75.0.1/32 dev kiwt0"));
	expect_slot(context.get(), "::ffff:10.75.0.1", -1);
	EXPECT_EQ(gid_slot(context.get(), "::ffff:10.75.0.2"), second);
	EXPECT_EQ(gid_slot(context.get(), "fd75::1"), third);
	ASSERT_TRUE(run("ip addr add 10.75.0.3/32 dev kiwt0"));
	wait_until([&] { return gid_slot(context.get(), "::ffff:10.75.0.3") > 0; }, "a new address");
	EXPECT_NE(gid_slot(context.get(), "::ffff:10.75.0.3"), first);
}

TEST_F(SpareDevice, AddressesBeyondTheTableHaveNoSlot)
{
	const Context context = open_device("kiwt");

	ASSERT_TRUE(run("for i in $(seq 100); do ip addr add 10.75.1.$i/32 dev kiwt0; done"));
	wait_until([&] { return gid_slot(context.get(), "::ffff:10.75.1.60") > 0; }, "the table to be full");
	EXPECT_EQ(gid_slot(context.get(), "::ffff:10.75.1.100"), -1);
	// Once there is room, a further change finds them.
	ASSERT_TRUE(run("for i in $(seq 50); do ip addr del 10.75.1.$i/32 dev kiwt0; done"));
	wait_until([&] { return gid_slot(context.get(), "::ffff:10.75.1.100") > 0; }, "room in the table");
}

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
