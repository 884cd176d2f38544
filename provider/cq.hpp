// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion queues.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "lock.hpp"
#include "origin.hpp"
#include "ring.hpp"

namespace kiw {

struct Qp;

struct alignas(64) Cq {
	ibv_cq ibv;
	CompletionRing ring;
	Origin origin;
	// Protects what follows, the slots, and which ring it is.
	Lock lock;
	// Index of the next completion; the ring's copy is only written.
	std::uint32_t consumed = 0;
	// Empty polls since the last completion.
	std::uint32_t idle = 0;

	static Cq &from(ibv_cq *cq) { return *reinterpret_cast<Cq *>(cq); }

	/// Makes poll_cq skip the completions of a QP, for which the kernel must add no more. When this
	/// returns, no poll_cq uses the QP.
	void forget(const Qp &qp);
};

// Operations; see ibv_create_cq(3) and so on.
ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector);
int resize_cq(ibv_cq *cq, int cqe);
int destroy_cq(ibv_cq *cq);
int poll_cq(ibv_cq *cq, int max, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);

} // namespace kiw
