// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Making and destroying PDs, CQs and QPs: limits, bad arguments, order.
#include <atomic>
#include <cerrno>
#include <thread>

#include "../lib/link.hpp"
#include "../lib/support.hpp"

namespace vt {
namespace {

class Objects : public testing::Test {
protected:
	Objects() : pd(make_pd(context)), cq(make_cq(context, 64)) { EXPECT_EQ(ibv_query_device(context, &limits), 0); }

	ibv_qp_init_attr attributes() const
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = cq.get();
		attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};
		attr.qp_type = IBV_QPT_RC;
		return attr;
	}

	/// Expects that no QP can be made with these attributes, and that one can still be made after that.
	void refused(ibv_qp_init_attr attr, int error) const
	{
		errno = 0;
		EXPECT_EQ(ibv_create_qp(pd.get(), &attr), nullptr);
		EXPECT_EQ(errno, error);
		ibv_qp_init_attr good = attributes();
		const Qp qp(ibv_create_qp(pd.get(), &good));
		EXPECT_NE(qp, nullptr);
	}

	ibv_context *context = server_device();
	ibv_device_attr limits{};
	Pd pd;
	Cq cq;
};

TEST_F(Objects, CqHasAtLeastTheEntriesAskedFor)
{
	for (int entries : {1, 2, 3, 63, 64, 65, 1000, 4096}) {
		const Cq made = make_cq(context, entries);
		EXPECT_GE(made->cqe, entries);
	}
}

TEST_F(Objects, LargestCqCanBeMade)
{
	const Cq made(ibv_create_cq(context, limits.max_cqe, nullptr, nullptr, 0));
	EXPECT_NE(made, nullptr);
}

TEST_F(Objects, CqSizesOutsideTheLimitsAreRefused)
{
	for (int entries : {0, -1, limits.max_cqe + 1, INT32_MAX, INT32_MIN}) {
		errno = 0;
		EXPECT_EQ(ibv_create_cq(context, entries, nullptr, nullptr, 0), nullptr) << entries;
		EXPECT_EQ(errno, EINVAL) << entries;
	}
}

TEST_F(Objects, CqWithAnUnknownVectorIsRefused)
{
	for (int vector : {-1, context->num_comp_vectors, 1 << 20}) {
		errno = 0;
		EXPECT_EQ(ibv_create_cq(context, 16, nullptr, nullptr, vector), nullptr) << vector;
		EXPECT_EQ(errno, EINVAL) << vector;
	}
}

TEST_F(Objects, FreshCqIsEmpty)
{
	ibv_wc wc{};

	EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
	EXPECT_EQ(ibv_poll_cq(cq.get(), 0, &wc), 0);
}

TEST_F(Objects, QpIsGrantedAtLeastWhatWasAskedFor)
{
	ibv_qp_init_attr attr = attributes();

	attr.cap = {.max_send_wr = 100, .max_recv_wr = 33, .max_send_sge = 5, .max_recv_sge = 3, .max_inline_data = 77};
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	ASSERT_NE(qp, nullptr);
	EXPECT_GE(attr.cap.max_send_wr, 100);
	EXPECT_GE(attr.cap.max_recv_wr, 33);
	EXPECT_GE(attr.cap.max_send_sge, 5);
	EXPECT_GE(attr.cap.max_recv_sge, 3);
	EXPECT_GE(attr.cap.max_inline_data, 77);
	EXPECT_NE(qp->qp_num, 0);
}

TEST_F(Objects, LargestQpCanBeMade)
{
	ibv_qp_init_attr attr = attributes();
	const auto wr = static_cast<std::uint32_t>(limits.max_qp_wr);
	const auto sge = static_cast<std::uint32_t>(limits.max_sge);

	attr.cap = {
		.max_send_wr = wr, .max_recv_wr = wr, .max_send_sge = sge, .max_recv_sge = sge, .max_inline_data = 256};
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	EXPECT_NE(qp, nullptr);
}

TEST_F(Objects, QpWithoutReceivesOrSendsCanBeMade)
{
	ibv_qp_init_attr attr = attributes();

	attr.cap = {.max_send_wr = 4, .max_recv_wr = 0, .max_send_sge = 1};
	const Qp sender(ibv_create_qp(pd.get(), &attr));
	EXPECT_NE(sender, nullptr);
	attr = attributes();
	attr.cap = {.max_send_wr = 0, .max_recv_wr = 4, .max_recv_sge = 1};
	const Qp receiver(ibv_create_qp(pd.get(), &attr));
	EXPECT_NE(receiver, nullptr);
}

TEST_F(Objects, QpCapabilitiesAboveTheLimitsAreRefused)
{
	const auto wr = static_cast<std::uint32_t>(limits.max_qp_wr);
	const auto sge = static_cast<std::uint32_t>(limits.max_sge);

	for (std::uint32_t excess : {1U, 1U << 20, 0x7fffffffU}) {
		ibv_qp_init_attr attr = attributes();
		attr.cap.max_send_wr = wr + excess;
		refused(attr, EINVAL);
		attr = attributes();
		attr.cap.max_recv_wr = wr + excess;
		refused(attr, EINVAL);
		attr = attributes();
		attr.cap.max_send_sge = sge + excess;
		refused(attr, EINVAL);
		attr = attributes();
		attr.cap.max_recv_sge = sge + excess;
		refused(attr, EINVAL);
		attr = attributes();
		attr.cap.max_inline_data = 4096 + excess;
		refused(attr, EINVAL);
	}
}

TEST_F(Objects, QpTypesOfInfinibandAreRefused)
{
	for (ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV}) {
		ibv_qp_init_attr attr = attributes();
		attr.qp_type = type;
		errno = 0;
		EXPECT_EQ(ibv_create_qp(pd.get(), &attr), nullptr) << type;
		EXPECT_NE(errno, 0) << type;
	}
}

TEST_F(Objects, QpNumbersDiffer)
{
	ibv_qp_init_attr attr = attributes();
	std::vector<Qp> qps;

	for (int i = 0; i < 32; i++) {
		qps.emplace_back(ibv_create_qp(pd.get(), &attr));
		ASSERT_NE(qps.back(), nullptr);
		for (int earlier = 0; earlier < i; earlier++)
			EXPECT_NE(qps.back()->qp_num, qps.at(earlier)->qp_num);
	}
}

TEST_F(Objects, PdInUseIsBusy)
{
	ibv_qp_init_attr attr = attributes();
	{
		const Qp qp(ibv_create_qp(pd.get(), &attr));
		EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
	}
	{
		const Region region(pd.get(), 100);
		EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
	}
	EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST_F(Objects, ParentDomainDoesForAProtectionDomain)
{
	ibv_td_init_attr td_attr{};
	ibv_td *const td = ibv_alloc_td(context, &td_attr);
	ASSERT_NE(td, nullptr);
	ibv_parent_domain_init_attr parent_attr{};
	parent_attr.pd = pd.get();
	parent_attr.td = td;
	Pd parent(ibv_alloc_parent_domain(context, &parent_attr));
	ASSERT_NE(parent, nullptr);
	{
		const Region region(parent.get(), 100);
		const Srq srq = make_srq(pd.get(), 8);
		ibv_qp_init_attr attr = attributes();
		attr.srq = srq.get();
		// To the kernel it is the domain of the SRQ.
		const Qp qp(ibv_create_qp(parent.get(), &attr));
		ASSERT_NE(qp, nullptr);
		EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
		EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
	}
	parent.reset();
	EXPECT_EQ(ibv_dealloc_td(td), 0);
	EXPECT_EQ(ibv_dealloc_pd(pd.release()), 0);
}

TEST_F(Objects, CqInUseIsBusy)
{
	Cq send_cq = make_cq(context, 16);
	Cq recv_cq = make_cq(context, 16);
	ibv_qp_init_attr attr = attributes();
	attr.send_cq = send_cq.get();
	attr.recv_cq = recv_cq.get();
	{
		const Qp qp(ibv_create_qp(pd.get(), &attr));
		EXPECT_EQ(ibv_destroy_cq(send_cq.get()), EBUSY);
		EXPECT_EQ(ibv_destroy_cq(recv_cq.get()), EBUSY);
	}
	EXPECT_EQ(ibv_destroy_cq(send_cq.release()), 0);
	EXPECT_EQ(ibv_destroy_cq(recv_cq.release()), 0);
}

TEST_F(Objects, CompletionChannelInUseIsBusy)
{
	CompletionChannel channel(ibv_create_comp_channel(context));
	ASSERT_NE(channel, nullptr);
	{
		const Cq armed = make_cq(context, 16, channel.get());
		EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
	}
}

TEST_F(Objects, PostingToAQpWithoutAConnection)
{
	ibv_qp_init_attr attr = attributes();
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	ibv_qp_attr to_init{};
	to_init.qp_state = IBV_QPS_INIT;
	ASSERT_EQ(ibv_modify_qp(qp.get(), &to_init, IBV_QP_STATE), 0);

	ibv_send_wr send{};
	ibv_send_wr *bad_send = nullptr;
	send.opcode = IBV_WR_SEND;
	EXPECT_EQ(ibv_post_send(qp.get(), &send, &bad_send), EINVAL);
	EXPECT_EQ(bad_send, &send);

	ibv_recv_wr receive{};
	ibv_recv_wr *bad_receive = nullptr;
	for (std::uint32_t i = 0; i < attr.cap.max_recv_wr; i++)
		EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad_receive), 0);
	EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad_receive), ENOMEM);
	EXPECT_EQ(bad_receive, &receive);

	// The refused send isn't there, the receives are.
	to_init.qp_state = IBV_QPS_ERR;
	ASSERT_EQ(ibv_modify_qp(qp.get(), &to_init, IBV_QP_STATE), 0);
	const std::vector<ibv_wc> flushed = poll_all(cq.get());
	EXPECT_EQ(flushed.size(), attr.cap.max_recv_wr);
	for (const ibv_wc &wc : flushed)
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
}

TEST_F(Objects, ManyOfEachComeAndGo)
{
	for (int round = 0; round < 20; round++) {
		std::vector<Qp> qps;
		std::vector<Cq> cqs;
		for (int i = 0; i < 16; i++) {
			cqs.push_back(make_cq(context, 128));
			ibv_qp_init_attr attr = attributes();
			attr.send_cq = attr.recv_cq = cqs.back().get();
			qps.emplace_back(ibv_create_qp(pd.get(), &attr));
			ASSERT_NE(qps.back(), nullptr);
		}
		qps.clear();
	}
}

TEST_F(Objects, AreShownWhileTheyComeAndGo)
{
	std::atomic<bool> over = false;
	{
		const std::jthread churn([&] {
			while (!over) {
				const Cq own = make_cq(context, 64);
				const Srq shared = make_srq(pd.get(), 64);
				const Region region{pd.get(), 10000};
				ibv_qp_init_attr attr = attributes();
				attr.send_cq = attr.recv_cq = own.get();
				const Qp connected(ibv_create_qp(pd.get(), &attr));
				attr.qp_type = IBV_QPT_UD;
				const Qp datagrams(ibv_create_qp(pd.get(), &attr));
			}
		});
		for (int round = 0; round < 50; round++) {
			EXPECT_TRUE(run("rdma -dd resource show qp >/dev/null")) << round;
			EXPECT_TRUE(run("rdma -dd resource show cq >/dev/null")) << round;
			EXPECT_TRUE(run("rdma -dd resource show mr >/dev/null")) << round;
			EXPECT_TRUE(run("rdma -dd resource show srq >/dev/null")) << round;
		}
		over = true;
	}
}

TEST_F(Objects, ContextWithOpenObjectsCanBeClosed)
{
	// The kernel frees what is left; libibverbs' own memory of them is lost to this process.
	ibv_context *other = ibv_open_device(context->device);
	ASSERT_NE(other, nullptr);
	ibv_pd *leaked = ibv_alloc_pd(other);
	EXPECT_NE(leaked, nullptr);
	EXPECT_NE(ibv_create_cq(other, 16, nullptr, nullptr, 0), nullptr);
	EXPECT_EQ(ibv_close_device(other), 0);
}

} // namespace
} // namespace vt
