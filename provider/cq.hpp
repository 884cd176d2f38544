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
		ibv_cq_ex ex{}; ///< of ibv_create_cq_ex() only
	};
	CompletionRing ring;
	Origin origin;
	// The one thread that sleeps on the channel, or reads it, for kiwarpdv_poll_cq() and kiwarpdv_start_poll(),
	// holds it; taken in front of the others.
	Lock sleeping;
	// A thread that arms the queue holds this one; it may hold lock, too, between ibv_start_poll() and
	// ibv_end_poll(). Which ring it is changes under both.
	Lock arming;
	// Protects what follows, and the slots.
	Lock lock;
	// Index of the next completion; the ring's copy is only written.
	std::uint32_t consumed = 0;
	// Empty polls since the last completion.
	std::uint32_t idle = 0;
	// The completion between ibv_start_poll() and ibv_end_poll(), at consumed, or nullptr
	const kiw_cqe *current = nullptr;
	// The program polls it by one thread: the polls of ibv_cq_ex don't lock.
	bool single_threaded = false;
	// Parent domain that names what may use it, or nullptr; that stays as long
	Domain *parent = nullptr;

	static Cq &from(ibv_cq *cq) { return *reinterpret_cast<Cq *>(cq); }
	static Cq &from(ibv_cq_ex *cq) { return *reinterpret_cast<Cq *>(cq); }

	/// Takes the completions of a QP away, for which the kernel must add no more, and gives their slots back.
	/// When this returns, no poll_cq uses the QP.
	void forget(const Qp &qp);

	/// After so many polls in a row that found nothing: now and then lets another thread have the CPU, which
	/// the completion may depend on.
	static void found_nothing(std::uint32_t idle);

private:
	/// Whether a slot has something to poll, or belongs to the one before it that has.
	bool is_wanted(std::uint32_t index) const;

	/// Moves the slots that are wanted up to produced, and gives the others back to the kernel. Under the lock.
	void compact(std::uint32_t produced);
};

/// A CQ of the kernel's, with its ring; empty and errno if there is none.
/// flags: KIW_CQ_*
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
