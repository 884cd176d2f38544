// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the tests of the provider alone share: a CQ and a QP on a fake kernel.
#pragma once

#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "cq.hpp"
#include "fake_kernel.hpp"
#include "qp.hpp"

class Provider : public testing::Test {
protected:
	static constexpr std::uint32_t depth = 8;

	Provider()
	{
		cq = kiw::create_cq(kernel.context(), 64, nullptr, 0);
		qp = new_qp();
		connect();
	}

	~Provider() override
	{
		kernel.refuse_destroy = 0;
		if (qp)
			kiw::destroy_qp(qp);
		if (cq)
			kiw::destroy_cq(cq);
	}

	ibv_qp *new_qp(ibv_cq *recv_cq = nullptr, int signal_all = 0, ibv_qp_type type = IBV_QPT_RC)
	{
		ibv_qp_init_attr attr{};
		attr.send_cq = cq;
		attr.recv_cq = recv_cq ? recv_cq : cq;
		attr.cap = {depth, depth, 4, 3, 100};
		attr.sq_sig_all = signal_all;
		attr.qp_type = type;
		return kiw::create_qp(kernel.pd(), &attr);
	}

	/// The first post finds out whether there is a connection, by a doorbell of its own.
	void connect() { kiw::Qp::from(qp).connected = true; }

	static ibv_send_wr send_wr(std::uint64_t id = 0, unsigned int flags = IBV_SEND_SIGNALED)
	{
		ibv_send_wr wr{};
		wr.wr_id = id;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = flags;
		return wr;
	}

	int post(ibv_send_wr wr)
	{
		ibv_send_wr *bad = nullptr;
		const int error = kiw::post_send(qp, &wr, &bad);

		EXPECT_EQ(bad, error ? &wr : nullptr);
		return error;
	}

	int post_receive(std::uint64_t id, int sges = 0)
	{
		std::array<ibv_sge, 8> list{};
		ibv_recv_wr wr{};
		wr.wr_id = id;
		wr.sg_list = list.data();
		wr.num_sge = sges;
		ibv_recv_wr *bad = nullptr;
		const int error = kiw::post_recv(qp, &wr, &bad);

		EXPECT_EQ(bad, error ? &wr : nullptr);
		return error;
	}

	static kiw_cqe send_cqe(std::uint32_t wq_index, std::uint64_t id = 0)
	{
		kiw_cqe cqe{};
		cqe.wr_id = id;
		cqe.wq_index = wq_index;
		return cqe;
	}

	int poll(ibv_wc *wc, int max = 1) { return kiw::poll_cq(cq, max, wc); }
	FakeWorkRing &sq() { return kernel.qp(qp).sq; }
	FakeWorkRing &rq() { return kernel.qp(qp).rq; }

	FakeKernel kernel;
	ibv_cq *cq;
	ibv_qp *qp;
};
