// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Shared receive queues. Streams that find no request stand in line; each gets a right to one when the process posts,
// which faster streams can't take from it.
#pragma once

#include <atomic>
#include <cstdint>

#include "lock.hpp"
#include "session/rq.h"

namespace kiwu {

struct Srq;

/// A stream's place in the line; the lock of the queue protects it.
struct SrqWait {
	SrqWait *next = nullptr;
	bool waits = false;
	bool granted = false; ///< a request is set aside for the stream
	void *stream = nullptr;
	void (*wake)(SrqWait &wait) = nullptr; ///< has the stream try again; called with the lock of the queue held
};

struct Srq {
	// Protects all of it, and each SrqWait; inside of the lock of a queue pair.
	kiw::Lock lock;
	kiw_rq rq{};
	std::uint32_t limit = 0;   // an event goes out, once, when fewer requests are posted; 0: none
	std::uint32_t granted = 0; // streams with a right to a request
	bool dead = false;	   // the ring's index was nonsense, and the process has been told
	SrqWait *line = nullptr;
	void (*raise)(Srq &srq, int event) = nullptr; // IBV_EVENT_SRQ_*
	void *user = nullptr;
	std::atomic<std::uint32_t> async_events_told = 0;
	std::atomic<std::uint32_t> users = 0; // queue pairs

	/// Makes the ring. Returns 0 or ENOMEM.
	int make(std::uint32_t entries, std::uint32_t max_sge);
	void free();
	/// As kiw_rq_take(), for the stream that is next; otherwise the stream stands in line.
	kiw_take take(SrqWait &wait, kiw_recv_req &request);
	void leave(SrqWait &wait);
	/// Gives it a ring of another size. The process posts nothing meanwhile. Returns 0 or an errno value.
	int resize(std::uint32_t entries);
	/// Returns 0 or EINVAL.
	int set_limit(std::uint32_t limit);
	void query(std::uint32_t &entries, std::uint32_t &limit);
	/// The process has posted while streams wait.
	void doorbell();
};

} // namespace kiwu
