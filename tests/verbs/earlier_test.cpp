// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Processes with a provider from before there were features: nothing comes that it couldn't read.
#include <arpa/inet.h>
#include <cerrno>

#include "../lib/connection.hpp"
#include "../lib/raw.hpp"

namespace vt {
namespace {

/// The peer is a process as any other. Ours has a context for which no feature was agreed on, and connects by the
/// number of a queue pair that was made on it.
class EarlierProvider : public testing::Test {
protected:
	EarlierProvider()
	{
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq.get();
		init.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1};
		init.qp_type = IBV_QPT_RC;
		qp.reset(ibv_create_qp(pd.get(), &init));
		if (!qp)
			fail("ibv_create_qp", errno);
		ibv_qp_attr attr{};
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		if (ibv_modify_qp(
			    qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			fail("ibv_modify_qp", errno);
		rdma_conn_param param = parameters({}, 16);
		param.qp_num = qp->qp_num;
		if (rdma_connect(caller.id.get(), &param))
			fail("rdma_connect", errno);
		peer = accept(listener, {});
		caller.events->wait(RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
		peer->events().wait(RDMA_CM_EVENT_ESTABLISHED, peer->id());
		from = std::make_unique<Region>(peer->pd(), size);
		from->fill_pattern(5);
	}
	static Context open(const ibv_device *device)
	{
		kiw_get_context_resp told{};
		const int fd = open_uverbs(device);

		if (const int error = get_context(fd, {}, told))
			fail("get_context", error);
		Context context(ibv_import_device(fd));
		if (!context)
			fail("ibv_import_device", errno);
		return context;
	}
	void receive(std::uint64_t id) const
	{
		ibv_sge sge = to.sge();
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		wr.wr_id = id;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
	}
	Work target() const { return {.remote = to.address(), .rkey = to.rkey(), .imm = htonl(0x12345678)}; }
	/// The message isn't taken: the connection ends with a Terminate, and no completion tells of it.
	void expect_end() const
	{
		EXPECT_WC(poll_one(cq.get()), 1, IBV_WC_WR_FLUSH_ERR);
		EXPECT_TRUE(poll_all(cq.get()).empty());
		peer->wait_disconnected();
		peer->wait_state(IBV_QPS_ERR);
		caller.events->wait(RDMA_CM_EVENT_DISCONNECTED, caller.id.get());
	}

	static constexpr std::size_t size = 1000;
	Listener listener;
	Caller caller{listener.port()};
	const Context context = open(caller.id->verbs->device);
	const Pd pd = make_pd(context.get());
	const Cq cq = make_cq(context.get(), 16);
	const Region to{pd.get(), size, all_access | IBV_ACCESS_REMOTE_ATOMIC};
	Qp qp;
	std::unique_ptr<Side> peer;
	std::unique_ptr<Region> from;
};

TEST_F(EarlierProvider, HasWhatItKnows)
{
	receive(1);
	ASSERT_EQ(peer->send({from->sge()}), 0);
	const ibv_wc wc = poll_one(cq.get());
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, size);
	EXPECT_TRUE(same(from->bytes(), to.bytes()));
	EXPECT_EQ(peer->sent().status, IBV_WC_SUCCESS);
}

// What such a Send carries beside its data is a field that means nothing where it wasn't agreed on.
TEST_F(EarlierProvider, SendWithImmediateDataIsASend)
{
	receive(1);
	ASSERT_EQ(peer->post(IBV_WR_SEND_WITH_IMM, {from->sge()}, target()), 0);
	const ibv_wc wc = poll_one(cq.get());
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.wc_flags, 0U);
	EXPECT_EQ(wc.imm_data, 0U);
	EXPECT_EQ(wc.byte_len, size);
	EXPECT_TRUE(same(from->bytes(), to.bytes()));
}

TEST_F(EarlierProvider, WriteWithImmediateDataEndsTheConnection)
{
	receive(1);
	ASSERT_EQ(peer->post(IBV_WR_RDMA_WRITE_WITH_IMM, {from->sge()}, target()), 0);
	expect_end();
}

TEST_F(EarlierProvider, AtomicEndsTheConnection)
{
	to.fill(0x11);
	receive(1);
	ASSERT_EQ(peer->post(IBV_WR_ATOMIC_FETCH_AND_ADD, {from->sge(0, 8)},
			  {.remote = to.address(), .rkey = to.rkey(), .compare_add = 1}),
		0);
	expect_end();
	EXPECT_TRUE(all_equal(to.bytes(), 0x11));
}

TEST_F(EarlierProvider, CannotSendWhatItDoesNotKnow)
{
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;
	ibv_sge sge = to.sge(0, 8);

	wr.sg_list = &sge;
	wr.num_sge = 1;
	for (const ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
		     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_LOCAL_INV}) {
		wr.opcode = opcode;
		EXPECT_EQ(ibv_post_send(qp.get(), &wr, &bad), EINVAL) << opcode;
	}
	errno = 0;
	EXPECT_EQ(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

} // namespace
} // namespace vt
