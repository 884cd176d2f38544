// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connecting by queue pair number, without rdma_cm (proto/number.h, protocol.md).
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "peer.hpp"
#include "qp.hpp"

namespace kiwu::number {

/// Takes a number for a queue pair, by which its peers find it. Returns 0 or an errno value.
int take(std::uint32_t &number);
void give_back(std::uint32_t number);
/// In a child of fork(): ports and early Requests are its parent's.
void forget();

/// Modifies a queue pair, with attributes that were checked. named: the peer to connect to, for a change to RTR. That
/// begins to connect, and doesn't wait. Returns 0 or an errno value: EOPNOTSUPP for a peer while connections by number
/// are off; EACCES: a connection that existed before RTS belongs to another peer.
int modify(Qp &qp, const ibv_qp_attr &attr, int mask, const Peer *named);

} // namespace kiwu::number
