// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Posting by builders and setters (ibv_wr_start() and what follows), against the fake kernel.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "ah.hpp"
#include "provider_fixture.hpp"

namespace {

constexpr std::uint64_t ops_of_connections =
	IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;

/// Those that take a module with the features for them
constexpr std::uint64_t ops_of_extensions = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
					    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
					    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;

/// The queue pair has the builders.
class Builder : public Provider {
protected:
	Builder()
	{
		kernel.features() = KIW_FEATURES;
		use(make(IBV_QPT_RC, ops_of_connections));
	}

	ibv_qp_init_attr_ex attributes(ibv_qp_type type, std::uint64_t ops)
	{
		ibv_qp_init_attr_ex attr{};

		attr.send_cq = attr.recv_cq = cq;
		attr.cap = {depth, depth, 4, 3, 100};
		attr.qp_type = type;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.pd = kernel.pd();
		attr.send_ops_flags = ops;
		return attr;
	}

	ibv_qp *make(ibv_qp_type type, std::uint64_t ops, int signal_all = 0)
	{
		ibv_qp_init_attr_ex attr = attributes(type, ops);

		attr.sq_sig_all = signal_all;
		return kiw::create_qp_ex(kernel.context(), &attr);
	}

	/// In place of the one that there is
	void use(ibv_qp *other)
	{
		kiw::destroy_qp(qp);
		qp = other;
		ASSERT_NE(qp, nullptr);
		connect();
		ex = &kiw::Qp::from(qp).base.qp_ex;
		ex->wr_flags = IBV_SEND_SIGNALED;
	}

	ibv_qp_ex *ex = nullptr;
};

TEST_F(Builder, ARequestReachesTheRingWhenItIsComplete)
{
	ibv_wr_start(ex);
	ex->wr_id = 77;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	EXPECT_EQ(sq().produced(), 0);
	EXPECT_EQ(kernel.doorbells, 0);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	ASSERT_EQ(sq().produced(), 1);
	EXPECT_EQ(kernel.doorbells, 1);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_SEND);
	EXPECT_EQ(wqe.flags, KIW_WQE_SIGNALED | KIW_WQE_SOLICITED | KIW_WQE_FENCE);
	EXPECT_EQ(wqe.num_sge, 1);
	EXPECT_EQ(wqe.inline_len, 0);
	EXPECT_EQ(wqe.wr_id, 77);
	const kiw_sge &sge = sq().sge(0, sizeof(kiw_wqe), 0);
	EXPECT_EQ(sge.addr, 0x1000);
	EXPECT_EQ(sge.length, 10);
	EXPECT_EQ(sge.lkey, 5);
}

TEST_F(Builder, EveryOpcodeNamesItsPartOfThePeer)
{
	std::array<ibv_sge, 3> list{{{0x1000, 10, 1}, {0x2000, 20, 2}, {0x3000, 0, 3}}};

	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0x55667788, 0x123456789abc);
	ibv_wr_set_sge_list(ex, list.size(), list.data());
	ibv_wr_rdma_read(ex, 0x55667789, 0x123456789abd);
	ibv_wr_set_sge_list(ex, 1, list.data());
	ibv_wr_send_inv(ex, 0xabcdef01);
	ibv_wr_send(ex);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	ASSERT_EQ(sq().produced(), 4);
	EXPECT_EQ(kernel.doorbells, 1);
	const auto &write = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(write.opcode, KIW_WR_WRITE);
	EXPECT_EQ(write.flags, KIW_WQE_SIGNALED); // solicited has no meaning
	EXPECT_EQ(write.rkey, 0x55667788);
	EXPECT_EQ(write.remote_addr, 0x123456789abc);
	EXPECT_EQ(write.num_sge, 3);
	EXPECT_EQ(sq().sge(0, sizeof(kiw_wqe), 1).addr, 0x2000);
	EXPECT_EQ(sq().sge(0, sizeof(kiw_wqe), 2).lkey, 3);
	const auto &read = sq().entry<kiw_wqe>(1);
	EXPECT_EQ(read.opcode, KIW_WR_READ);
	EXPECT_EQ(read.rkey, 0x55667789);
	EXPECT_EQ(read.remote_addr, 0x123456789abd);
	EXPECT_EQ(read.num_sge, 1);
	EXPECT_EQ(sq().entry<kiw_wqe>(2).opcode, KIW_WR_SEND_INV);
	EXPECT_EQ(sq().entry<kiw_wqe>(2).rkey, 0xabcdef01);
	EXPECT_EQ(sq().entry<kiw_wqe>(2).flags, KIW_WQE_SIGNALED | KIW_WQE_SOLICITED);
	EXPECT_EQ(sq().entry<kiw_wqe>(3).opcode, KIW_WR_SEND);
	EXPECT_EQ(sq().entry<kiw_wqe>(3).rkey, 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(3).num_sge, 0);
}

TEST_F(Builder, InlineDataIsGatheredIntoTheSlot)
{
	std::array<char, 100> text{};
	std::generate(text.begin(), text.end(), [c = 'A']() mutable { return c++; });
	std::array<ibv_data_buf, 4> list{{{text.data(), 30}, {nullptr, 0}, {&text[30], 1}, {&text[31], 69}}};

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data_list(ex, list.size(), list.data());
	ibv_wr_rdma_write(ex, 1, 2);
	ibv_wr_set_inline_data(ex, text.data(), 7);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	const auto &gathered = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(gathered.flags, KIW_WQE_SIGNALED | KIW_WQE_INLINE);
	EXPECT_EQ(gathered.num_sge, 0);
	EXPECT_EQ(gathered.inline_len, 100);
	EXPECT_EQ(std::memcmp(sq().slot(0) + sizeof(kiw_wqe), text.data(), 100), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).inline_len, 7);
	EXPECT_EQ(std::memcmp(sq().slot(1) + sizeof(kiw_wqe), text.data(), 7), 0);
}

TEST_F(Builder, TheLastSetterCounts)
{
	std::string text = "inline";

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, text.data(), text.size());
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_set_inline_data(ex, text.data(), text.size());
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).flags, KIW_WQE_SIGNALED);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).num_sge, 1);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).inline_len, 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).flags, KIW_WQE_SIGNALED | KIW_WQE_INLINE);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).num_sge, 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).inline_len, text.size());
}

// Programs pass what they would have passed to ibv_post_send().
TEST_F(Builder, TheFlagOfInlineDataIsTheSettersAffair)
{
	ex->wr_flags = IBV_SEND_INLINE;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_rdma_read(ex, 1, 2);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).flags, 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).flags, 0);
}

TEST_F(Builder, AbortUndoesAll)
{
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ibv_wr_send(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	EXPECT_EQ(sq().produced(), 0);
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ibv_wr_send(ex);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().produced(), 1);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).wr_id, 2);
	EXPECT_EQ(kernel.doorbells, 1);
}

TEST_F(Builder, NothingBuiltIsNothingPosted)
{
	ibv_wr_start(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().produced(), 0);
	EXPECT_EQ(kernel.doorbells, 0);
}

TEST_F(Builder, BothWaysOfPostingTakeTurns)
{
	for (std::uint64_t id = 0; id < depth; id += 2) {
		ASSERT_EQ(post(send_wr(id)), 0);
		ibv_wr_start(ex);
		ex->wr_id = id + 1;
		ibv_wr_send(ex);
		ASSERT_EQ(ibv_wr_complete(ex), 0);
	}
	for (std::uint32_t i = 0; i < depth; i++)
		EXPECT_EQ(sq().entry<kiw_wqe>(i).wr_id, i);
	EXPECT_EQ(post(send_wr()), ENOMEM);
}

TEST_F(Builder, SignalAllSignalsEverything)
{
	use(make(IBV_QPT_RC, ops_of_connections, 1));
	ex->wr_flags = 0;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).flags, KIW_WQE_SIGNALED);
}

/// What goes wrong between two good requests, and the error that is to come of it
struct Mistake {
	std::string name;
	int error;
	std::function<void(ibv_qp_ex *)> make;
};

std::array<char, 200> some_bytes;
std::array<ibv_sge, 5> some_sges{{{0, 1U << 31, 0}, {0, 1U << 31, 0}, {}, {}, {}}};

const std::array<ibv_data_buf, 2> lengths_that_wrap{{{some_bytes.data(), 1}, {some_bytes.data(), SIZE_MAX}}};

const std::vector<Mistake> mistakes{
	{"TooManySges", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_sge_list(ex, 5, some_sges.data());
		}},
	{"MoreSgesThanAnyoneHas", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_sge_list(ex, SIZE_MAX, some_sges.data());
		}},
	{"TooLong", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_sge(ex, 1, 0, (1U << 31) + 1);
		}},
	{"TooLongTogether", EINVAL, // the 32-bit sum would be 0
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_sge_list(ex, 2, some_sges.data());
		}},
	{"TooMuchInline", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_inline_data(ex, some_bytes.data(), kiw::Qp::from(ex).max_inline + 1);
		}},
	{"InlineLengthsThatWrap", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_inline_data_list(ex, 2, lengths_that_wrap.data());
		}},
	{"AReadOfInlineData", EINVAL,
		[](ibv_qp_ex *ex) {
			ibv_wr_rdma_read(ex, 1, 2);
			ibv_wr_set_inline_data(ex, some_bytes.data(), 1);
		}},
	{"AFlagThatNobodyHas", EINVAL,
		[](ibv_qp_ex *ex) {
			ex->wr_flags |= IBV_SEND_IP_CSUM;
			ibv_wr_send(ex);
			ex->wr_flags = IBV_SEND_SIGNALED;
		}},
	{"AnImmediateValue", EOPNOTSUPP,
		[](ibv_qp_ex *ex) {
			ibv_wr_send_imm(ex, 1);
		}},
	{"AnAtomic", EOPNOTSUPP,
		[](ibv_qp_ex *ex) {
			ibv_wr_atomic_fetch_add(ex, 1, 2, 3);
		}},
	{"ADestination", EOPNOTSUPP, // of a connection
		[](ibv_qp_ex *ex) {
			ibv_wr_send(ex);
			ibv_wr_set_ud_addr(ex, nullptr, 1, 2);
		}},
	{"MoreThanThereIsRoomFor", ENOMEM,
		[](ibv_qp_ex *ex) {
			for (int i = 0; i < 8; i++)
				ibv_wr_send(ex);
		}},
};

class Mistaken : public Builder, public testing::WithParamInterface<Mistake> {};

INSTANTIATE_TEST_SUITE_P(, Mistaken, testing::ValuesIn(mistakes), [](const auto &test) { return test.param.name; });

// The requests around it are good, and setters behind it have no request.
TEST_P(Mistaken, IsReportedAtTheEndAndNothingIsPosted)
{
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	GetParam().make(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_rdma_write(ex, 1, 2);
	ibv_wr_set_inline_data(ex, some_bytes.data(), 1);
	EXPECT_EQ(ibv_wr_complete(ex), GetParam().error);
	EXPECT_EQ(sq().produced(), 0);
	EXPECT_EQ(kernel.doorbells, 0);

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().produced(), 1);
}

TEST_F(Builder, ASetterNeedsARequest)
{
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	ibv_wr_start(ex);
	ibv_wr_set_inline_data(ex, some_bytes.data(), 1); // not into the one that was posted
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	EXPECT_EQ(sq().produced(), 1);
}

TEST_F(Builder, AbortForgetsAnError)
{
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 1);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
}

TEST_F(Builder, OpsThatWereNotAskedForAreRefused)
{
	use(make(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE));
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EOPNOTSUPP);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 2);
	EXPECT_EQ(ibv_wr_complete(ex), EOPNOTSUPP);
	EXPECT_EQ(sq().produced(), 1);
}

TEST_F(Builder, OpsThatThereAreNotCannotBeAskedFor)
{
	const int before = kernel.commands;

	for (int bit = 0; bit < 64; bit++) {
		const std::uint64_t op = std::uint64_t{1} << bit;
		if (op & (ops_of_connections | ops_of_extensions))
			continue;
		errno = 0;
		EXPECT_EQ(make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | op), nullptr) << bit;
		EXPECT_EQ(errno, EOPNOTSUPP) << bit;
	}
	for (const std::uint64_t op : {IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_SEND_WITH_INV}) {
		errno = 0;
		EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | op), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	EXPECT_EQ(kernel.commands, before);
}

// librpma, for one, takes a pointer that isn't null for a device that flushes.
TEST_F(Builder, BuildersOfNewerReleasesAreNull)
{
	const kiw::pabi::QueuePair &base = kiw::Qp::from(qp).base;

	for (std::size_t at = kiw::pabi::qp_ex_min; at < kiw::pabi::qp_ex_size; at++)
		EXPECT_EQ(base.octets[at], std::byte{}) << at;
}

TEST_F(Builder, AnOlderModuleHasNoExtensions)
{
	kernel.features() = KIW_FEATURES & ~(KIW_FEATURE_IMM | KIW_FEATURE_ATOMIC | KIW_FEATURE_MW);
	for (int bit = 0; bit < 64; bit++) {
		const std::uint64_t op = std::uint64_t{1} << bit;
		if (!(op & ops_of_extensions))
			continue;
		errno = 0;
		EXPECT_EQ(make(IBV_QPT_RC, op), nullptr) << bit;
		EXPECT_EQ(errno, EOPNOTSUPP) << bit;
	}
}

TEST_F(Builder, ExtensionsAreInTheSlot)
{
	use(make(IBV_QPT_RC, ops_of_extensions));
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 0x11223344);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_rdma_write_imm(ex, 6, 0x2000, 0x55667788);
	ibv_wr_set_sge(ex, 5, 0x1000, 10);
	ibv_wr_atomic_cmp_swp(ex, 7, 0x3000, 1, 2);
	ibv_wr_set_sge(ex, 5, 0x1000, 8);
	ibv_wr_atomic_fetch_add(ex, 8, 0x4000, 3);
	ibv_wr_set_sge(ex, 5, 0x1008, 8);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	const auto &send = sq().entry<kiw_wqe>(0), &write = sq().entry<kiw_wqe>(1), &swap = sq().entry<kiw_wqe>(2),
		   &add = sq().entry<kiw_wqe>(3);
	const auto args = [&](std::uint32_t index) {
		return *reinterpret_cast<const kiw_atomic_args *>(sq().slot(index) + sizeof(kiw_wqe) + sizeof(kiw_sge));
	};
	EXPECT_EQ(send.opcode, KIW_WR_SEND_IMM);
	EXPECT_EQ(send.imm, 0x11223344U);
	EXPECT_EQ(write.opcode, KIW_WR_WRITE_IMM);
	EXPECT_EQ(write.imm, 0x55667788U);
	EXPECT_EQ(write.remote_addr, 0x2000U);
	EXPECT_EQ(swap.opcode, KIW_WR_CMP_SWAP);
	EXPECT_EQ(args(2).compare_add, 1U);
	EXPECT_EQ(args(2).swap, 2U);
	EXPECT_EQ(add.opcode, KIW_WR_FETCH_ADD);
	EXPECT_EQ(add.rkey, 8U);
	EXPECT_EQ(args(3).compare_add, 3U);
}

TEST_F(Builder, AtomicsHaveOneBufferOfEightOctets)
{
	const std::array<ibv_sge, 2> two = {
		{{.addr = 0x1000, .length = 4, .lkey = 5}, {.addr = 0x1008, .length = 4, .lkey = 5}}};
	const std::array<std::function<void()>, 4> wrong = {[&] { ibv_wr_set_sge(ex, 5, 0x1000, 4); },
		[&] { ibv_wr_set_sge_list(ex, 2, two.data()); },
		[&] { ibv_wr_set_inline_data(ex, some_bytes.data(), 8); },
		[&] {
			ibv_wr_set_sge_list(ex, 0, nullptr);
		}};

	use(make(IBV_QPT_RC, ops_of_extensions));
	for (const auto &set : wrong) {
		ibv_wr_start(ex);
		ibv_wr_atomic_fetch_add(ex, 8, 0x4000, 3);
		set();
		EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	}
	EXPECT_EQ(sq().produced(), 0U);
}

TEST_F(Builder, AttributesThatThereAreNotAreRefused)
{
	for (int bit = 0; bit < 32; bit++) {
		ibv_qp_init_attr_ex attr = attributes(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
		if (attr.comp_mask & 1U << bit || 1U << bit == IBV_QP_INIT_ATTR_CREATE_FLAGS)
			continue;
		attr.comp_mask |= 1U << bit;
		errno = 0;
		EXPECT_EQ(kiw::create_qp_ex(kernel.context(), &attr), nullptr) << bit;
		EXPECT_EQ(errno, EOPNOTSUPP) << bit;
	}
	ibv_qp_init_attr_ex attr = attributes(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	EXPECT_EQ(kiw::create_qp_ex(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; // without a PD
	EXPECT_EQ(kiw::create_qp_ex(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

// libibverbs looks at the mark of any queue pair.
TEST_F(Builder, OnlyAQueuePairWithBuildersIsMarkedSo)
{
	EXPECT_EQ(kiw::Qp::from(qp).base.comp_mask(), 2);
	ibv_qp_init_attr_ex attr = attributes(IBV_QPT_RC, 0);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	use(kiw::create_qp_ex(kernel.context(), &attr));
	EXPECT_EQ(kiw::Qp::from(qp).base.comp_mask(), 0);
	EXPECT_GE(attr.cap.max_send_wr, depth);
	use(new_qp());
	EXPECT_EQ(kiw::Qp::from(qp).base.comp_mask(), 0);
}

TEST_F(Builder, RefusedDoorbellTakesTheRequestsBack)
{
	kernel.on_doorbell = [](const FakeDoorbell &) {
		return EINVAL;
	};
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	EXPECT_EQ(sq().produced(), 0);
	// Known from now on
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	EXPECT_EQ(sq().produced(), 0);
	kernel.on_doorbell = nullptr;
	ibv_wr_start(ex);
	ex->wr_id = 9;
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(sq().produced(), 1);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).wr_id, 9);
}

TEST_F(Builder, AChildIsRefusedAndDoesNotWait)
{
	ibv_wr_start(ex); // the lock is held when the child begins
	const pid_t child = fork();
	if (child == 0) {
		ibv_qp_ex *const inherited = ex;

		ibv_wr_start(inherited);
		ibv_wr_send(inherited);
		ibv_wr_set_sge(inherited, 1, 2, 3);
		const bool refused = ibv_wr_complete(inherited) == EPERM;
		ibv_wr_start(inherited);
		ibv_wr_abort(inherited);
		_exit(refused ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
}

// Each thread's requests stand together.
TEST_F(Builder, ThreadsTakeTurns)
{
	constexpr int threads = 3, each = 2000, together = 3;
	std::mutex drainer;
	std::vector<std::uint64_t> taken;

	kernel.on_doorbell = [&](const FakeDoorbell &) {
		const std::lock_guard lock(drainer);
		FakeWorkRing &ring = sq();
		for (; ring.next != ring.produced(); ring.next++) {
			taken.push_back(ring.entry<kiw_wqe>(ring.next).wr_id);
			kernel.complete(cq, qp, send_cqe(ring.next));
		}
		return 0;
	};
	std::vector<std::thread> posters;
	for (std::uint64_t t = 0; t < threads; t++)
		posters.emplace_back([&, t] {
			for (std::uint64_t i = 0; i < each; i++) {
				int error = 0;
				do {
					std::array<ibv_wc, 8> wc;
					poll(wc.data(), 8);
					ibv_wr_start(ex);
					for (int n = 0; n < together; n++) {
						ex->wr_id = t << 32 | i;
						ibv_wr_send(ex);
					}
					error = ibv_wr_complete(ex);
				} while (error == ENOMEM);
				ASSERT_EQ(error, 0);
			}
		});
	for (auto &poster : posters)
		poster.join();
	std::array<std::uint64_t, threads> next{};
	ASSERT_EQ(taken.size(), std::size_t{threads} * each * together);
	for (std::size_t i = 0; i < taken.size(); i += together) {
		EXPECT_EQ(taken[i], taken[i + 2]);
		EXPECT_EQ(taken[i] & 0xffffffff, next.at(taken[i] >> 32)++);
	}
}

/// A datagram queue pair, and an address handle
class DatagramBuilder : public Builder {
protected:
	DatagramBuilder()
	{
		use(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND));
		attr.is_global = 1;
		attr.grh.sgid_index = 3;
		attr.grh.dgid.raw[15] = 9;
		ah = kiw::create_ah(kernel.pd(), &attr);
	}
	~DatagramBuilder() override { kiw::destroy_ah(ah); }

	const kiw_ud_dest &dest(std::uint32_t index)
	{
		return *reinterpret_cast<const kiw_ud_dest *>(sq().slot(index) + sizeof(kiw_wqe));
	}

	ibv_ah_attr attr{};
	ibv_ah *ah;
};

TEST_F(DatagramBuilder, EachRequestHasItsDestination)
{
	std::string text = "datagram";

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_UD_MAX_MSG);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, text.data(), text.size());
	ibv_wr_set_ud_addr(ex, ah, 4792, 0x1235);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_EQ(dest(0).qpn, 4791);
	EXPECT_EQ(dest(0).qkey, 0x1234);
	EXPECT_EQ(dest(0).sgid_index, 3);
	EXPECT_EQ(dest(0).dgid[15], 9);
	EXPECT_EQ(dest(1).qpn, 4792);
	EXPECT_EQ(sq().sge(0, sizeof(kiw_wqe) + sizeof(kiw_ud_dest), 0).addr, 0x1000);
	EXPECT_EQ(std::memcmp(sq().slot(1) + sizeof(kiw_wqe) + sizeof(kiw_ud_dest), text.data(), text.size()), 0);
}

TEST_F(DatagramBuilder, WithoutADestinationNothingIsPosted)
{
	for (const bool last : {true, false}) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		if (!last) {
			ibv_wr_send(ex);
			ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
		}
		EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	}
	ibv_wr_start(ex);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	EXPECT_EQ(sq().produced(), 0);
}

TEST_F(DatagramBuilder, LongerMessagesThanADatagramAreRefused)
{
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_UD_MAX_MSG + 1);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(DatagramBuilder, AWriteNamesThePeerAndItsMemory)
{
	use(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE));
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0x55667788, 0x123456789abc);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_RECORD_MAX_SEGS * KIW_RECORD_MAX_SEG_SIZE);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_WRITE);
	EXPECT_EQ(wqe.rkey, 0x55667788);
	EXPECT_EQ(wqe.remote_addr, 0x123456789abc);
	EXPECT_EQ(dest(0).qpn, 4791);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0x55667788, 0x123456789abc);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_RECORD_MAX_SEGS * KIW_RECORD_MAX_SEG_SIZE + 1);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(DatagramBuilder, ASendMayHaveImmediateData)
{
	use(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_IMM));
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 0x11223344);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_UD_MAX_IMM_MSG);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_SEND_IMM);
	EXPECT_EQ(wqe.imm, 0x11223344U);
	EXPECT_EQ(dest(0).qpn, 4791);
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 0x11223344);
	ibv_wr_set_ud_addr(ex, ah, 4791, 0x1234);
	ibv_wr_set_sge(ex, 5, 0x1000, KIW_UD_MAX_IMM_MSG + 1);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(DatagramBuilder, AWriteHasNoImmediateData)
{
	errno = 0;
	EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(DatagramBuilder, AnOlderModuleHasNoImmediateData)
{
	kernel.features() = KIW_FEATURES & ~KIW_FEATURE_UD_IMM;
	errno = 0;
	EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(DatagramBuilder, AnOlderModuleHasNoWrites)
{
	kernel.features() = KIW_FEATURE_UD;
	errno = 0;
	EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(DatagramBuilder, AnOlderModuleHasNone)
{
	kernel.features() = 0;
	errno = 0;
	EXPECT_EQ(make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

} // namespace
