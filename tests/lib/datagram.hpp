// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// One end of an exchange of datagrams: a queue pair, its queues and its memory. Both ends live in this process, on the
// devices kiw0 and kiw1 of the hosts left and right.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "endpoint.hpp"
#include "gid.hpp"

namespace ud {

constexpr std::uint32_t some_key = 0x11111111;
constexpr std::size_t grh = 40;
constexpr std::size_t longest = 65483;

using Ah = std::unique_ptr<ibv_ah, vt::Closer<ibv_ah, ibv_destroy_ah>>;

using vt::Gid;

/// How a destination is named.
struct To {
	ibv_ah *ah;
	std::uint32_t number;
	std::uint32_t key = some_key;
};

struct Options {
	ibv_qp_state state = IBV_QPS_RTS;
	std::uint32_t key = some_key;
	std::uint32_t depth = 64;
	bool shared = false; // receives are those of a shared queue
	int completions = 256;
	std::uint32_t sges = 4;
	std::uint32_t max_inline = 128;
	std::size_t memory = 1 << 20;
	bool extended_cq = false;   // for receives
	std::uint64_t send_ops = 0; // the queue pair has these builders
	std::function<vt::Context(const std::string &)> open = vt::open_device;
	std::function<ibv_qp *(ibv_context *, ibv_qp_init_attr_ex *)> create_qp = ibv_create_qp_ex;
};

class End : public vt::Endpoint {
public:
	explicit End(const std::string &device, const Options &options = {});

	ibv_qp *qp() const override { return qp_.get(); }
	ibv_srq *srq() const { return srq_.get(); }
	/// With extended_cq
	ibv_cq_ex *recv_cq_ex() const { return reinterpret_cast<ibv_cq_ex *>(recv_cq()); }
	std::uint32_t number() const { return qp_->qp_num; }
	const vt::Region &memory() const { return *memory_; }
	const std::string &device() const { return device_; }

	/// Takes the queue pair through all states up to one.
	void go_to(ibv_qp_state state, std::uint32_t key = some_key);
	/// One change of state, by all attributes that it takes; 0 or an errno value.
	int modify(ibv_qp_state state, std::uint32_t key = some_key);
	void destroy_qp() { qp_.reset(); }

	/// The slot of an address; an empty text stands for the link-local one. Waits until it is there.
	Gid gid(const std::string &address) const { return vt::find_gid(context(), address); }
	/// An address handle, or an empty one and errno.
	Ah make_ah(
		const Gid &from, const ibv_gid &to, std::uint8_t hop_limit = 64, std::uint8_t traffic_class = 0) const;
	Ah ah(const std::string &from, const End &peer, const std::string &to) const;

	int try_send(const To &to, const std::vector<ibv_sge> &list, std::uint64_t id = 0,
		unsigned int flags = IBV_SEND_SIGNALED) const;
	/// Sends bytes of the memory; waits for the completion, which must be good.
	void send(const To &to, std::size_t offset, std::size_t length) const;
	/// A receive into the memory, from an offset on, with room for the GRH and a payload.
	void receive(std::uint64_t id, std::size_t offset, std::size_t payload) const;
	/// The next completion.
	ibv_wc sent() const { return Endpoint::sent("the completion of a send"); }
	ibv_wc received() const { return Endpoint::received("a datagram"); }
	std::span<std::uint8_t> bytes(std::size_t offset, std::size_t length) const
	{
		return memory_->bytes(offset, length);
	}

	/// A counter of the device. RDMA core reads all of them once in a tick of its clock: it may be that old.
	std::uint64_t counter(const std::string &name) const;
	/// Waits until it has that value.
	void expect_counter(const std::string &name, std::uint64_t value) const;

private:
	std::string device_;
	std::unique_ptr<vt::Region> memory_;
	vt::Srq srq_;
	vt::Qp qp_;
};

using vt::Addresses;
using vt::ipv4;
using vt::ipv6;
using vt::link_local;

} // namespace ud
