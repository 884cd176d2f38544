// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagram queue pairs and address handles of the provider, against the fake kernel.
#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

#include "ah.hpp"
#include "provider_fixture.hpp"

namespace {

/// The queue pair is a datagram one.
class Datagram : public Provider {
protected:
	Datagram()
	{
		kernel.features() = KIW_FEATURES;
		kiw::destroy_qp(qp);
		qp = new_qp(nullptr, 0, IBV_QPT_UD);
		connect();
		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.sgid_index = 3;
		attr.grh.hop_limit = 64;
		attr.grh.traffic_class = 0x20;
		for (int i = 0; i < 16; i++)
			attr.grh.dgid.raw[i] = static_cast<std::uint8_t>(0xa0 + i);
		ah = kiw::create_ah(kernel.pd(), &attr);
	}
	~Datagram() override
	{
		if (ah)
			kiw::destroy_ah(ah);
	}

	ibv_send_wr datagram(ibv_wr_opcode opcode = IBV_WR_SEND) const
	{
		ibv_send_wr wr = send_wr(5);
		wr.opcode = opcode;
		wr.wr.ud = {ah, 4791, 0x80001234};
		return wr;
	}

	ibv_ah_attr attr{};
	ibv_ah *ah;
};

TEST_F(Datagram, DestinationStandsInFrontOfTheBuffers)
{
	ibv_sge sge = {0x1000, 100, 7};
	ibv_send_wr wr = datagram();

	wr.sg_list = &sge;
	wr.num_sge = 1;
	ASSERT_EQ(post(wr), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_SEND);
	EXPECT_EQ(wqe.num_sge, 1);
	EXPECT_EQ(wqe.remote_addr, 0);
	EXPECT_EQ(wqe.rkey, 0);
	const auto &dest = *reinterpret_cast<const kiw_ud_dest *>(sq().slot(0) + sizeof(kiw_wqe));
	EXPECT_EQ(std::memcmp(dest.dgid, attr.grh.dgid.raw, 16), 0);
	EXPECT_EQ(dest.qpn, 4791);
	EXPECT_EQ(dest.qkey, 0x80001234);
	EXPECT_EQ(dest.sgid_index, 3);
	EXPECT_EQ(dest.hop_limit, 64);
	EXPECT_EQ(dest.traffic_class, 0x20);
	EXPECT_EQ(sq().sge(0, sizeof(kiw_wqe) + sizeof(kiw_ud_dest), 0).addr, 0x1000);
}

TEST_F(Datagram, InlineDataStandsBehindTheDestination)
{
	std::string text = "datagram";
	ibv_sge sge = {reinterpret_cast<std::uintptr_t>(text.data()), std::uint32_t(text.size()), 0};
	ibv_send_wr wr = datagram();

	wr.send_flags |= IBV_SEND_INLINE;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(std::memcmp(sq().slot(0) + sizeof(kiw_wqe) + sizeof(kiw_ud_dest), text.data(), text.size()), 0);
}

TEST_F(Datagram, LongerMessagesThanADatagramAreRefused)
{
	std::array<ibv_sge, 2> list{{{0x1000, KIW_UD_MAX_MSG, 7}, {0x1000, 1, 7}}};
	ibv_send_wr wr = datagram();

	wr.sg_list = list.data();
	wr.num_sge = 1;
	EXPECT_EQ(post(wr), 0);
	wr.num_sge = 2;
	EXPECT_EQ(post(wr), EINVAL);
	EXPECT_EQ(sq().produced(), 1);
}

// Where a Write names the peer's memory, a datagram names its address handle: here that is no pointer.
TEST_F(Datagram, NothingButSendsIsTaken)
{
	for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV,
		     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
		ibv_send_wr wr = datagram(opcode);

		wr.wr.rdma = {0x10, 0x20};
		EXPECT_EQ(post(wr), EINVAL);
	}
	EXPECT_EQ(sq().produced(), 0);
}

TEST_F(Datagram, ASendMayHaveImmediateData)
{
	ibv_send_wr wr = datagram(IBV_WR_SEND_WITH_IMM);

	wr.imm_data = 0x11223344;
	ASSERT_EQ(post(wr), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_SEND_IMM);
	EXPECT_EQ(wqe.imm, 0x11223344U);
	EXPECT_EQ(wqe.remote_addr, 0);
	EXPECT_EQ(wqe.rkey, 0);
	EXPECT_EQ(reinterpret_cast<const kiw_ud_dest *>(sq().slot(0) + sizeof(kiw_wqe))->qpn, 4791);
}

TEST_F(Datagram, LongerOnesWithImmediateDataAreRefused)
{
	ibv_sge sge{0x1000, KIW_UD_MAX_IMM_MSG, 7};
	ibv_send_wr wr = datagram(IBV_WR_SEND_WITH_IMM);

	wr.sg_list = &sge;
	wr.num_sge = 1;
	EXPECT_EQ(post(wr), 0);
	sge.length++;
	EXPECT_EQ(post(wr), EINVAL);
	wr.opcode = IBV_WR_SEND;
	EXPECT_EQ(post(wr), 0);
}

TEST_F(Datagram, ReceivesTellTheSender)
{
	for (const bool has_imm : {false, true}) {
		ASSERT_EQ(post_receive(9), 0);
		kiw_cqe cqe{};
		cqe.wr_id = 9;
		cqe.opcode = KIW_WR_RECV;
		cqe.byte_len = 140;
		cqe.flags = KIW_CQE_GRH | (has_imm ? KIW_CQE_WITH_IMM : 0);
		cqe.src_qp = 50123;
		cqe.imm = has_imm ? 0x11223344 : 0;
		kernel.complete(cq, qp, cqe);
		ibv_wc wc{};
		ASSERT_EQ(poll(&wc), 1);
		EXPECT_EQ(wc.wc_flags, IBV_WC_GRH | (has_imm ? IBV_WC_WITH_IMM : 0));
		EXPECT_EQ(wc.src_qp, 50123);
		EXPECT_EQ(wc.byte_len, 140);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
		EXPECT_EQ(has_imm ? wc.imm_data : 0x11223344U, 0x11223344U);
	}
}

TEST_F(Datagram, AnOlderModuleHasNone)
{
	kernel.features() = 0;
	const int before = kernel.commands;
	errno = 0;
	EXPECT_EQ(new_qp(nullptr, 0, IBV_QPT_UD), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(kernel.commands, before);
}

TEST_F(Datagram, RefusedAddressHandleIsReported)
{
	kernel.refuse_create = EINVAL;
	errno = 0;
	EXPECT_EQ(kiw::create_ah(kernel.pd(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	kernel.refuse_create = 0;
	kernel.refuse_destroy = EIO;
	EXPECT_EQ(kiw::destroy_ah(ah), EIO);
	kernel.refuse_destroy = 0;
}

} // namespace
