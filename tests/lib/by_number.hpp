// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// One end of a connection by number: a queue pair, its queue and its memory. Both ends live in this process, on the
// devices kiw0 and kiw1 of the hosts left and right.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <string>

#include "endpoint.hpp"
#include "gid.hpp"

namespace number {

/// What one program tells the other of its queue pair.
struct Name {
	ibv_gid gid;
	std::uint32_t qpn;
	std::uint32_t psn;
};

class End final : public vt::Endpoint {
public:
	explicit End(const std::string &device, const std::string &address, std::uint32_t depth = 64);

	ibv_qp *qp() const override { return qp_.get(); }
	ibv_cq *cq() const { return send_cq(); }
	const vt::Region &memory() const { return *memory_; }
	Name name() const { return {gid_.gid, qp_->qp_num, psn_}; }
	static constexpr int whole_peer = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN;
	ibv_qp_attr query(int mask = IBV_QP_STATE | whole_peer) const { return Endpoint::query(mask); }

	int reset() const { return modify(IBV_QPS_RESET); }
	int error() const { return modify(IBV_QPS_ERR); }
	int init(int access = vt::all_access) const;
	/// What the change to RTR takes
	ibv_qp_attr rtr_attr(const Name &peer) const;
	static constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int rtr(const Name &peer) const;
	int rts(std::uint8_t reads = 4, std::uint8_t rnr_retry = 6, std::uint8_t timeout = 14) const;
	/// All of it; throws if it fails.
	void connect(const Name &peer) const;
	/// Another PSN than before, which the peer may not know of
	void change_psn() { psn_ ^= 0x555555; }

	/// An atomic adds one to the first eight bytes of what Reads and Writes reach.
	int post(ibv_wr_opcode opcode, std::uint64_t id, const vt::Region *remote = nullptr) const;
	void receive(std::uint64_t id) const;
	ibv_wc completion(const std::string &what) const { return sent(what); }
	/// A new queue pair in place of the old one
	void renew();

private:
	std::unique_ptr<vt::Region> memory_;
	vt::Qp qp_;
	std::uint32_t depth_;
	vt::Gid gid_;
	std::uint32_t psn_;
};

/// One Send each way
void exchange(const End &a, const End &b);
/// One Send
void send(const End &from, const End &to);

using vt::Addresses;
using vt::ipv4;
using vt::ipv6;
using vt::link_local;

} // namespace number
