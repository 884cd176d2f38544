// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// One end of whatever joins two of them: a queue pair and its queues, what is posted to it, and what comes of that.
#pragma once

#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <string>
#include <vector>

#include "support.hpp"

namespace vt {

/// Shorthand for what a work request has beyond its buffers.
struct Work {
	std::uint64_t id = 0;
	unsigned int flags = IBV_SEND_SIGNALED;
	std::uint64_t remote = 0;
	std::uint32_t rkey = 0;
	std::uint32_t invalidate = 0;
	__be32 imm = 0;
	std::uint64_t compare_add = 0;
	std::uint64_t swap = 0;
};

using Sges = std::vector<ibv_sge>;

/// The completion queues of an end, and the channel that they may have. Without recv, send serves both.
struct Queues {
	CompletionChannel channel;
	Cq send;
	Cq recv;
};

/// Its queue pair is made by the derived class, which knows how it is connected.
class Endpoint {
public:
	virtual ~Endpoint() = default;
	Endpoint(const Endpoint &) = delete;
	Endpoint &operator=(const Endpoint &) = delete;

	/// Null when it is destroyed
	virtual ibv_qp *qp() const = 0;
	ibv_context *context() const { return pd_->context; }
	ibv_pd *pd() const { return pd_.get(); }
	ibv_comp_channel *channel() const { return queues_.channel.get(); }
	ibv_cq *send_cq() const { return queues_.send.get(); }
	ibv_cq *recv_cq() const { return queues_.recv ? queues_.recv.get() : send_cq(); }

	/// Those that return int return what the verb says: 0 or errno.
	int post(ibv_wr_opcode opcode, const Sges &sges, const Work &work) const;
	int receive(const Sges &sges = {}, std::uint64_t id = 0) const;
	/// The next completion; throws if none comes.
	ibv_wc sent(const std::string &what = "a send completion") const { return poll_one(send_cq(), what); }
	ibv_wc received(const std::string &what = "a receive completion") const { return poll_one(recv_cq(), what); }

	/// What the verb says of the attributes of a mask; throws if it fails.
	ibv_qp_attr query(int mask) const;
	ibv_qp_state state() const { return query(IBV_QP_STATE).qp_state; }
	void wait_state(ibv_qp_state state) const;
	int modify(ibv_qp_attr attr, int mask) const { return ibv_modify_qp(qp(), &attr, mask); }
	/// A change of state that takes no other attributes
	int modify(ibv_qp_state state) const;

protected:
	/// On a device that somebody else has open
	Endpoint(ibv_context *context, Queues queues);
	/// On a device of its own
	Endpoint(Context own, const std::function<Queues(ibv_context *)> &make_queues);

private:
	Context own_;
	Pd pd_;
	Queues queues_;
};

} // namespace vt
