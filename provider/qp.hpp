// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Queue pairs.
#pragma once

#include <atomic>
#include <cstdint>
#include <infiniband/verbs.h>

#include "doorbell.hpp"
#include "lock.hpp"
#include "memory.hpp"
#include "opcodes.hpp"
#include "origin.hpp"
#include "private_abi.hpp"
#include "ring.hpp"

namespace kiw {

/// State of posting to a send or receive ring.
struct alignas(64) WorkQueue { // NOLINT(clang-analyzer-optin.performance.Padding): see released
	WorkRing ring;
	// Protects the slots, next, begun, settled and promises.
	Lock lock;
	// Index of the next request; the ring's copy is write-only.
	std::uint32_t next = 0;
	// Granted requests, and SGEs per request
	std::uint32_t limit = 0;
	std::uint32_t max_sge = 0;

	// Doorbells of all threads, for a thread with a refused one; see settle() in post.cpp. Each doorbell is begun,
	// then accepted or refused; its thread counts the latter without the lock.
	std::uint32_t begun = 0;
	std::atomic<std::uint32_t> accepted = 0;
	std::atomic<std::uint32_t> refused = 0;
	// Refused doorbells that are settled: requests taken back, or with the kernel
	std::uint32_t settled = 0;
	// Lists without a doorbell: the kernel had promised to look
	std::uint32_t promises = 0;

	// Requests below it are over and their slots free. Written by the polling thread, hence its own cache line.
	alignas(64) std::atomic<std::uint32_t> released = 0;

	bool has_room(std::uint32_t index) const { return index - released.load(std::memory_order_acquire) < limit; }
	void release_through(std::uint32_t index) { released.store(index + 1, std::memory_order_release); }

	/// Takes the lock to publish, after all refused doorbells are settled.
	void lock_to_post();
	/// Waits for doorbells of other threads. Under the lock, so that no new one begins.
	void await_doorbells() const;
	/// A doorbell rung under the lock was accepted.
	void accept();

	/// Frees consumed slots without a completion: after a reset, and of an SRQ.
	void release_consumed();
	/// The same, under the lock.
	void release_consumed_locked();
};

/// Requests between ibv_wr_start() and ibv_wr_complete() or ibv_wr_abort(); under the send queue's lock.
struct Draft {
	// Slot of the setters' request, or nullptr
	kiw_wqe *wqe = nullptr;
	// Index behind the last request
	std::uint32_t end = 0;
	// The request needs a destination.
	bool nowhere = false;
	// First error: nothing of the draft will be posted
	int error = 0;
};

struct Qp { // NOLINT(clang-analyzer-optin.performance.Padding): see WorkQueue
	pabi::QueuePair base;
	Origin origin;
	Doorbell doorbell;
	std::uint32_t max_inline = 0;
	// Bytes before the buffers in a send slot: kiw_wqe, and kiw_ud_dest if any
	std::uint32_t head = sizeof(kiw_wqe);
	// Common KIW_FEATURES
	std::uint32_t features = 0;
	bool signal_all = false;
	// A connection exists or existed: see check_connected() in post.cpp.
	std::atomic<bool> connected = false;
	WorkQueue sq;
	WorkQueue rq;
	Draft draft;

	static Qp &from(ibv_qp *qp) { return *reinterpret_cast<Qp *>(qp); }
	static Qp &from(ibv_qp_ex *qp) { return *reinterpret_cast<Qp *>(qp); }
	static Qp &from_cookie(std::uint64_t cookie)
	{
		return *reinterpret_cast<Qp *>(cookie); // NOLINT(performance-no-int-to-ptr)
	}
	bool is_datagram() const { return base.qp.qp_type == IBV_QPT_UD; }
	std::uint64_t cookie() const { return reinterpret_cast<std::uintptr_t>(this); }

	/// Frees the slots released by a completion. Under the CQ's lock.
	void complete(const kiw_cqe &cqe)
	{
		if (cqe.opcode != KIW_WR_RECORD)
			(is_receive(cqe.opcode) ? rq : sq).release_through(cqe.wq_index);
	}

	/// Removes its completions from both CQs.
	void forget_completions();
};

/// A QP with its rings; empty and errno on failure. Sets the granted capacities. The request is passed on, with the
/// cookie.
Owner<Qp> make_qp(ibv_pd *pd, ibv_qp_init_attr *attr, const kiw_create_qp_req &own = {});
/// As create_qp_ex(), with a further request, which needs KIW_FEATURE_RECORD unless empty.
ibv_qp *create_qp_with(ibv_context *context, ibv_qp_init_attr_ex *attr, const kiw_create_qp_req &own); // wr.cpp

// Operations; see ibv_create_qp(3) and so on. post_send() and post_recv() are in post.cpp.
ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr);
ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr); // wr.cpp
int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr);
int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask);
int destroy_qp(ibv_qp *qp);
int attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid);
int detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid);
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);

} // namespace kiw
