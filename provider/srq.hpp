// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Shared receive queues.
#pragma once

#include <infiniband/verbs.h>

#include "doorbell.hpp"
#include "origin.hpp"
#include "qp.hpp"

namespace kiw {

struct Srq { // NOLINT(clang-analyzer-optin.performance.Padding): see WorkQueue
	ibv_srq ibv;
	Origin origin;
	Doorbell doorbell;
	// The kernel frees a slot when it takes the request, shown by the ring and by no completion.
	WorkQueue queue;

	static Srq &from(ibv_srq *srq) { return *reinterpret_cast<Srq *>(srq); }
};

// Operations; see ibv_create_srq(3) and so on. post_srq_recv() is in post.cpp.
ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr);
int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask);
int query_srq(ibv_srq *srq, ibv_srq_attr *attr);
int destroy_srq(ibv_srq *srq);
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);

} // namespace kiw
