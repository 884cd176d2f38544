// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion queues.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "lock.hpp"
#include "memory.hpp"
#include "origin.hpp"
#include "ring.hpp"

namespace kiw {

struct Domain;
struct Qp;

struct alignas(64) Cq {
	union {
		ibv_cq ibv;
		ibv_cq_ex ex{}; ///< ibv_create_cq_ex() only
	};
	CompletionRing ring;
	Origin origin;
	// Held by the one thread that sleeps on or reads the channel, for kiwarpdv_poll_cq() and kiwarpdv_start_poll();
	// taken before the other locks.
	Lock sleeping;
	// Held to arm the queue, perhaps with lock held, between ibv_start_poll() and ibv_end_poll(). A change of the
	// ring needs both.
	Lock arming;
	// Protects the members below and the slots.
	Lock lock;
	// Index of the next completion; the ring's copy is write-only.
	std::uint32_t consumed = 0;
	// Empty polls since the last completion
	std::uint32_t idle = 0;
	// Completion between ibv_start_poll() and ibv_end_poll(), at consumed, or nullptr
	const kiw_cqe *current = nullptr;
	// The program polls with one thread: polls of ibv_cq_ex do not lock.
	bool single_threaded = false;
	// Parent domain, which outlives the queue, or nullptr
	Domain *parent = nullptr;

	static Cq &from(ibv_cq *cq) { return *reinterpret_cast<Cq *>(cq); }
	static Cq &from(ibv_cq_ex *cq) { return *reinterpret_cast<Cq *>(cq); }

	/// Removes the completions of a QP and frees their slots; the kernel must add no more. Afterwards no poll_cq
	/// uses the QP.
	void forget(const Qp &qp);

	/// After `idle` empty polls in a row: sometimes yields the CPU to a thread that the completion may depend on.
	static void found_nothing(std::uint32_t idle);

private:
	/// Whether a slot is to be polled, or belongs to the one before it.
	bool is_wanted(std::uint32_t index) const;

	/// Moves wanted slots up to produced and frees the others. Under the lock.
	void compact(std::uint32_t produced);
};

/// A CQ with its ring; empty and errno on failure. flags: KIW_CQ_*
Owner<Cq> make_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, std::uint32_t flags = 0);

// Operations; see ibv_create_cq(3) and so on.
ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector);
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr); // cq_ex.cpp
int resize_cq(ibv_cq *cq, int cqe);
int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr);
int destroy_cq(ibv_cq *cq);
int poll_cq(ibv_cq *cq, int max, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);

} // namespace kiw
