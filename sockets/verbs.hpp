// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// libibverbs and librdmacm, which are loaded when a connection first may get a lane: a program without lanes loads
// neither. What stands in front of them in the process, such as the device of kiwarp-user, is found first.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#undef ibv_reg_mr

#define KIWS_VERBS(X) \
	X(ibv_ack_cq_events) \
	X(ibv_alloc_pd) \
	X(ibv_create_comp_channel) \
	X(ibv_create_cq) \
	X(ibv_dealloc_pd) \
	X(ibv_dereg_mr) \
	X(ibv_destroy_comp_channel) \
	X(ibv_destroy_cq) \
	X(ibv_get_cq_event) \
	X(ibv_reg_mr)
#define KIWS_RDMACM(X) \
	X(rdma_accept) \
	X(rdma_ack_cm_event) \
	X(rdma_bind_addr) \
	X(rdma_connect) \
	X(rdma_create_event_channel) \
	X(rdma_create_id) \
	X(rdma_create_qp) \
	X(rdma_destroy_event_channel) \
	X(rdma_destroy_id) \
	X(rdma_destroy_qp) \
	X(rdma_disconnect) \
	X(rdma_get_cm_event) \
	X(rdma_get_src_port) \
	X(rdma_listen) \
	X(rdma_reject) \
	X(rdma_resolve_addr) \
	X(rdma_resolve_route)

namespace kiws {

struct Verbs {
#define KIWS_MEMBER(name) decltype(&::name) name;
	KIWS_VERBS(KIWS_MEMBER)
	KIWS_RDMACM(KIWS_MEMBER)
#undef KIWS_MEMBER
};

/// Loads them at the first call. Returns nullptr where a library, or a name in it, is missing.
const Verbs *load_verbs();

/// Those that load_verbs() has found
extern const Verbs *verbs;

/// The protection domain of a device, made at the first call. nullptr: there is none.
ibv_pd *pd_of(ibv_context *context);
/// In a child of fork(): there is no device open.
void forget_pds();

} // namespace kiws
