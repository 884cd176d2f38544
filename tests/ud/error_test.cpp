// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What goes wrong between datagram queue pairs. None of it ends one, but what their own process does to their queues.
#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <thread>

#include "../lib/datagram.hpp"
#include "../lib/link.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

/// Left sends to right; both must still be able to at the end.
class Errors : public testing::Test {
protected:
	~Errors() override
	{
		EXPECT_EQ(left.state(), IBV_QPS_RTS);
		EXPECT_EQ(right.state(), IBV_QPS_RTS);
		expect_delivery();
	}
	To right_end(std::uint32_t key = some_key) const { return {ah.get(), right.number(), key}; }
	void expect_delivery() const
	{
		right.receive(77, 0, 100);
		left.send(right_end(), 0, 100);
		EXPECT_WC(right.received(), 77, IBV_WC_SUCCESS);
	}
	/// What is posted is sent when this returns.
	void expect_send_fails(const To &to, const std::vector<ibv_sge> &list, ibv_wc_status status) const
	{
		ASSERT_EQ(left.try_send(to, list, 5), 0);
		EXPECT_WC(left.sent(), 5, status);
	}

	End left{"kiw0"};
	End right{"kiw1"};
	Ah ah = left.ah(ipv4.left, right, ipv4.right);
};

TEST_F(Errors, ReceiveThatIsTooSmall)
{
	const std::uint64_t before = right.counter("ud_too_long");

	right.memory().fill(0xee);
	right.receive(1, 0, 99);
	left.send(right_end(), 0, 100);
	EXPECT_WC(right.received(), 1, IBV_WC_LOC_LEN_ERR);
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 200), 0xee));
	right.expect_counter("ud_too_long", before + 1);
}

TEST_F(Errors, ReceiveWithoutARight)
{
	const vt::Region readable(right.pd(), 4096, IBV_ACCESS_REMOTE_READ);
	const std::uint64_t before = right.counter("ud_bad_receives");
	ibv_sge sge = readable.sge();
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = 2;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	ASSERT_EQ(ibv_post_recv(right.qp(), &wr, &bad), 0);
	left.send(right_end(), 0, 100);
	EXPECT_WC(right.received(), 2, IBV_WC_LOC_PROT_ERR);
	right.expect_counter("ud_bad_receives", before + 1);
}

TEST_F(Errors, SendFromNoRegion)
{
	ibv_sge sge = left.memory().sge(0, 100);

	sge.lkey ^= 1;
	expect_send_fails(right_end(), {sge}, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, SendToNowhere)
{
	const Gid from = left.gid(ipv6.left);
	ibv_gid nowhere = from.gid;

	nowhere.raw[0] = 0x20;
	nowhere.raw[1] = 0x01;
	const Ah away = left.make_ah(from, nowhere);
	ASSERT_TRUE(away);
	expect_send_fails({away.get(), 5000}, {left.memory().sge(0, 10)}, IBV_WC_GENERAL_ERR);
}

TEST_F(Errors, SendToNoPort)
{
	for (const std::uint32_t number : {0U, 65536U, 0xfffffeU})
		expect_send_fails({ah.get(), number}, {left.memory().sge(0, 10)}, IBV_WC_LOC_QP_OP_ERR);
}

// An address handle names a slot. Requests tell when the address is gone.
TEST_F(Errors, SendFromAnAddressThatIsGone)
{
	ASSERT_TRUE(vt::run("ip -n left addr add 10.77.0.77/32 dev veth0"));
	const Ah old = left.ah("::ffff:10.77.0.77", right, ipv4.right);
	right.receive(0, 0, 10);
	left.send({old.get(), right.number()}, 0, 10);
	right.received();
	EXPECT_EQ(right.bytes(20, 4)[3], 77);
	ASSERT_TRUE(vt::run("ip -n left addr del 10.77.0.77/32 dev veth0"));
	expect_send_fails({old.get(), right.number()}, {left.memory().sge(0, 10)}, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(Errors, LongerThanADatagram)
{
	EXPECT_EQ(left.try_send(right_end(), {left.memory().sge(0, longest + 1)}), EINVAL);
	EXPECT_EQ(left.try_send(right_end(), {left.memory().sge(0, longest), left.memory().sge(0, 1)}), EINVAL);
}

TEST_F(Errors, NoReceive)
{
	const std::uint64_t before = right.counter("ud_no_receives");

	left.send(right_end(), 0, 10);
	right.expect_counter("ud_no_receives", before + 1);
	EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
}

TEST_F(Errors, WrongKey)
{
	const std::uint64_t before = right.counter("ud_qkey_errors");

	right.receive(1, 0, 100);
	left.send(right_end(some_key + 1), 0, 10);
	right.expect_counter("ud_qkey_errors", before + 1);
	EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
	left.send(right_end(), 0, 10);
	EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
}

// A request can't name a controlled key, which has the top bit set: the one of its queue pair counts.
TEST_F(Errors, ControlledKeyIsTheQueuePairs)
{
	right.receive(1, 0, 100);
	left.send(right_end(0x80000000), 0, 10);
	EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(Errors, NobodyThere)
{
	std::uint32_t gone = 0;
	{
		const End other("kiw1");
		gone = other.number();
	}
	// ICMP says that the port is unreachable, which is nobody's business.
	for (int i = 0; i < 3; i++)
		left.send({ah.get(), gone}, 0, 10);
}

TEST(AddressHandle, MustHaveAGidOfAnAddress)
{
	const End left("kiw0");
	const Gid v4 = left.gid(ipv4.left);
	const Gid v6 = left.gid(ipv6.left);
	ibv_gid hardware{};
	const auto refused = [&](const Gid &from, const ibv_gid &to) {
		errno = 0;
		return !left.make_ah(from, to) && errno;
	};

	ASSERT_EQ(ibv_query_gid(left.context(), 1, 63, &hardware), 0);
	EXPECT_TRUE(left.make_ah(v4, v4.gid));
	EXPECT_TRUE(left.make_ah(v6, v6.gid));
	EXPECT_TRUE(refused(v4, v6.gid));
	EXPECT_TRUE(refused(v6, v4.gid));
	// Slot 0 stands for the first address of each.
	EXPECT_TRUE(left.make_ah({0, {}}, v4.gid));
	EXPECT_TRUE(left.make_ah({0, {}}, v6.gid));
	EXPECT_TRUE(refused({63, hardware}, v4.gid));
	EXPECT_TRUE(refused({62, {}}, v4.gid));
	EXPECT_TRUE(refused({64, {}}, v4.gid));
	EXPECT_TRUE(refused({255, {}}, v4.gid));
	EXPECT_TRUE(refused(v6, ibv_gid{}));
	ibv_gid nobody = v4.gid;
	for (int i = 12; i < 16; i++)
		nobody.raw[i] = 0;
	EXPECT_TRUE(refused(v4, nobody));

	ibv_ah_attr local{};
	local.port_num = 1;
	local.dlid = 1;
	errno = 0;
	EXPECT_EQ(ibv_create_ah(left.pd(), &local), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

// --- states ---------------------------------------------------------------------------------------

TEST(States, NothingIsSentBeforeRts)
{
	for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
		const End left("kiw0", {.state = state});
		const Ah own = left.ah(ipv4.left, left, ipv4.left);

		EXPECT_EQ(left.try_send({own.get(), left.number()}, {}), EINVAL);
		EXPECT_EQ(left.state(), state);
	}
}

TEST(States, NothingIsReceivedBeforeRtr)
{
	const End left("kiw0");
	for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT}) {
		End right("kiw1", {.state = state});
		const Ah ah = left.ah(ipv4.left, right, ipv4.right);
		const std::uint64_t before = right.counter("ud_not_ready");

		left.send({ah.get(), right.number()}, 0, 10);
		right.expect_counter("ud_not_ready", before + 1);
		right.go_to(IBV_QPS_INIT);
		right.receive(1, 0, 100);
		left.send({ah.get(), right.number()}, 0, 10);
		right.expect_counter("ud_not_ready", before + 2);
		EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
		ASSERT_EQ(right.modify(IBV_QPS_RTR), 0);
		left.send({ah.get(), right.number()}, 0, 10);
		EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
	}
}

TEST(States, NoReceiveIsPostedInReset)
{
	End right("kiw1", {.state = IBV_QPS_RESET});
	ibv_recv_wr wr{}, *bad = nullptr;

	for (int round = 0; round < 2; round++) {
		EXPECT_EQ(ibv_post_recv(right.qp(), &wr, &bad), EINVAL);
		EXPECT_EQ(bad, &wr);
		right.go_to(IBV_QPS_RTS);
		right.receive(1, 0, 100);
		ASSERT_EQ(right.modify(IBV_QPS_RESET), 0);
	}
}

TEST(States, InErrorEverythingIsFlushed)
{
	End left("kiw0");
	const Ah own = left.ah(ipv4.left, left, ipv4.left);

	left.receive(1, 0, 100);
	left.receive(2, 0, 100);
	ASSERT_EQ(left.modify(IBV_QPS_ERR), 0);
	EXPECT_WC(left.received(), 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_WC(left.received(), 2, IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(left.try_send({own.get(), left.number()}, {}, 3), 0);
	EXPECT_WC(left.sent(), 3, IBV_WC_WR_FLUSH_ERR);
	left.receive(4, 0, 100);
	EXPECT_WC(left.received(), 4, IBV_WC_WR_FLUSH_ERR);

	ASSERT_EQ(left.modify(IBV_QPS_INIT), EINVAL);
	ASSERT_EQ(left.modify(IBV_QPS_RESET), 0);
	left.go_to(IBV_QPS_RTS);
	left.receive(5, 0, 100);
	left.send({own.get(), left.number()}, 0, 10);
	EXPECT_WC(left.received(), 5, IBV_WC_SUCCESS);
}

TEST(States, ResetDropsWhatIsPosted)
{
	End left("kiw0");
	const Ah own = left.ah(ipv4.left, left, ipv4.left);

	for (int i = 0; i < 64; i++)
		left.receive(i, 0, 100);
	ASSERT_EQ(left.modify(IBV_QPS_RESET), 0);
	left.go_to(IBV_QPS_RTS);
	for (int i = 100; i < 164; i++)
		left.receive(i, 0, 100);
	left.send({own.get(), left.number()}, 0, 10);
	EXPECT_WC(left.received(), 100, IBV_WC_SUCCESS);
}

TEST(States, OthersAreRefused)
{
	End fresh("kiw0", {.state = IBV_QPS_RESET});
	EXPECT_EQ(fresh.modify(IBV_QPS_RTR), EINVAL);
	EXPECT_EQ(fresh.modify(IBV_QPS_RTS), EINVAL);

	End left("kiw0");
	for (const ibv_qp_state state : {IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_INIT, IBV_QPS_RTR})
		EXPECT_EQ(left.modify(state), EINVAL) << state;
	ibv_qp_attr attr{};
	EXPECT_EQ(ibv_modify_qp(left.qp(), &attr, IBV_QP_AV), EINVAL);
	EXPECT_EQ(ibv_modify_qp(left.qp(), &attr, IBV_QP_DEST_QPN), EINVAL);
	EXPECT_EQ(left.state(), IBV_QPS_RTS);
}

TEST(States, ThePacketSequenceNumberIsKept)
{
	End left("kiw0", {.state = IBV_QPS_RTR});
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0x45;
	ASSERT_EQ(ibv_modify_qp(left.qp(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	attr.sq_psn = 0;
	ASSERT_EQ(ibv_query_qp(left.qp(), &attr, IBV_QP_SQ_PSN, &init), 0);
	EXPECT_EQ(attr.sq_psn, 0x45);
}

TEST(States, TheKeyCanBeChanged)
{
	End left("kiw0");
	const Ah own = left.ah(ipv4.left, left, ipv4.left);
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	attr.qkey = 0x2222;
	ASSERT_EQ(ibv_modify_qp(left.qp(), &attr, IBV_QP_QKEY), 0);
	ASSERT_EQ(ibv_query_qp(left.qp(), &attr, IBV_QP_QKEY, &init), 0);
	EXPECT_EQ(attr.qkey, 0x2222);
	EXPECT_EQ(init.qp_type, IBV_QPT_UD);
	left.receive(1, 0, 100);
	left.send({own.get(), left.number(), 0x2222}, 0, 10);
	EXPECT_WC(left.received(), 1, IBV_WC_SUCCESS);
}

// librdmacm takes a queue pair of iWARP to INIT so, whatever its type.
TEST(States, RdmaCmsChangeGivesItsKey)
{
	const End left("kiw0", {.state = IBV_QPS_RESET});
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	ASSERT_EQ(ibv_modify_qp(left.qp(), &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT), 0);
	ASSERT_EQ(ibv_query_qp(left.qp(), &attr, IBV_QP_QKEY, &init), 0);
	EXPECT_EQ(attr.qkey, 0x01234567);
}

// --- what a process does to itself ----------------------------------------------------------------

TEST(Overflow, OfTheReceivesEndsTheQueuePair)
{
	const End left("kiw0");
	End right("kiw1", {.completions = 1});
	const Ah ah = left.ah(ipv4.left, right, ipv4.right);

	for (int i = 0; i < 4; i++)
		right.receive(i, 0, 100);
	for (int i = 0; i < 4; i++)
		left.send({ah.get(), right.number()}, 0, 10);
	vt::wait_async(right.context(), [](const ibv_async_event &e) { return e.event_type == IBV_EVENT_CQ_ERR; });
	vt::wait_async(right.context(), [](const ibv_async_event &e) { return e.event_type == IBV_EVENT_QP_FATAL; });
	EXPECT_EQ(right.state(), IBV_QPS_ERR);
}

TEST(Overflow, OfTheSendsEndsTheQueuePair)
{
	const End left("kiw0", {.completions = 1});
	const Ah own = left.ah(ipv4.left, left, ipv4.left);

	for (int i = 0; i < 3; i++)
		(void)left.try_send({own.get(), left.number()}, {left.memory().sge(0, 10)});
	vt::wait_async(left.context(), [](const ibv_async_event &e) { return e.event_type == IBV_EVENT_QP_FATAL; });
	EXPECT_EQ(left.state(), IBV_QPS_ERR);
}

// --- coming and going -----------------------------------------------------------------------------

TEST(Lifetime, QueuePairsGoWhileTheyAreBeingSentTo)
{
	const Socket socket("left", "10.77.0.1");
	std::atomic<std::uint32_t> number = 0;
	std::atomic<bool> over = false;
	std::thread flood([&] {
		const Bytes good = datagram(some_key, Bytes(100));

		while (!over)
			if (const std::uint32_t port = number)
				socket.send("10.77.0.2", port, good);
	});

	for (int i = 0; i < 100; i++) {
		End right("kiw1");

		for (int r = 0; r < 64; r++)
			right.receive(r, 0, 100);
		number = right.number();
		EXPECT_EQ(right.received().status, IBV_WC_SUCCESS);
	}
	over = true;
	flood.join();
}

TEST(Lifetime, ARegionGoesWhileItIsBeingSentFrom)
{
	const End left("kiw0");
	End right("kiw1");
	const Ah ah = left.ah(ipv4.left, right, ipv4.right);

	for (int i = 0; i < 100; i++) {
		vt::Region region(left.pd(), 65536);

		right.receive(i, 0, 60000);
		ASSERT_EQ(left.try_send({ah.get(), right.number()}, {region.sge(0, 60000)}, i), 0);
		region.deregister();
		const ibv_wc_status status = left.sent().status;
		EXPECT_TRUE(status == IBV_WC_SUCCESS || status == IBV_WC_LOC_PROT_ERR) << status;
		if (status == IBV_WC_SUCCESS)
			right.received();
	}
}

TEST(Lifetime, ThousandQueuePairs)
{
	const vt::Context context = vt::open_device("kiw0");
	const vt::Pd pd = vt::make_pd(context.get());
	const vt::Cq cq = vt::make_cq(context.get(), 16);
	std::vector<vt::Qp> all;

	for (int i = 0; i < 1000; i++) {
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = cq.get();
		attr.qp_type = IBV_QPT_UD;
		attr.cap = {4, 4, 1, 1, 0};
		all.emplace_back(ibv_create_qp(pd.get(), &attr));
		ASSERT_TRUE(all.back()) << i << ": " << errno;
	}
}

} // namespace
} // namespace ud
