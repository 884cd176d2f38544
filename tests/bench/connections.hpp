// SPDX-License-Identifier: GPL-2.0
// What connections have in common that are measured, whichever way they are made.
#ifndef BENCH_CONNECTIONS_HPP
#define BENCH_CONNECTIONS_HPP

#include "program.hpp"
#include "verbs.hpp"

#include <chrono>
#include <string>

namespace bench {

struct Options {
	unsigned count = 100;
	unsigned window = 16;
	bool idle = false;
	/// By queue pair number, with that device; empty for rdma_cm
	std::string device;
};

/// What all queue pairs of an end share
class Shared {
public:
	/// With room for so many completions
	Shared(ibv_context *context, unsigned completions)
		: context_(context),
		  pd_(ibv_alloc_pd(context)),
		  channel_(ibv_create_comp_channel(context)),
		  cq_(ibv_create_cq(context, int(completions), nullptr, channel_.get(), 0))
	{
		check(pd_ && channel_ && cq_, "a protection domain, or queues");
	}
	[[nodiscard]] ibv_context *context() const { return context_; }
	[[nodiscard]] ibv_pd *pd() const { return pd_.get(); }
	[[nodiscard]] ibv_comp_channel *channel() const { return channel_.get(); }
	[[nodiscard]] ibv_cq *cq() const { return cq_.get(); }
	/// Of every queue pair
	[[nodiscard]] ibv_qp_init_attr attributes() const
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = cq_.get();
		attr.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 0};
		attr.qp_type = IBV_QPT_RC;
		return attr;
	}

private:
	ibv_context *context_;
	Owned<ibv_pd, ibv_dealloc_pd> pd_;
	Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
	Owned<ibv_cq, ibv_destroy_cq> cq_;
};

/// The server's part by number: takes connections until all have been made and closed.
void serve_by_number(const Options &options, const Socket &control);
/// The client's: returns when the server has closed all.
void call_by_number(const Options &options, const Socket &control);

} // namespace bench

#endif
