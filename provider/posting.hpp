// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Common to ibv_post_send() and ibv_wr_start(): parts of a slot, and publishing requests.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "ah.hpp"
#include "kiwarp-abi.h"
#include "qp.hpp"

namespace kiw {

static_assert(sizeof(ibv_sge) == sizeof(kiw_sge));
static_assert(offsetof(ibv_sge, addr) == offsetof(kiw_sge, addr));
static_assert(offsetof(ibv_sge, length) == offsetof(kiw_sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(kiw_sge, lkey));

inline constexpr std::uint64_t max_message = std::uint64_t{1} << 31;
inline constexpr std::uint64_t max_datagram = KIW_UD_MAX_MSG;
inline constexpr std::uint64_t max_datagram_imm = KIW_UD_MAX_IMM_MSG;
inline constexpr std::uint64_t max_record = std::uint64_t{KIW_RECORD_MAX_SEGS} * KIW_RECORD_MAX_SEG_SIZE;

inline constexpr std::uint64_t atomic_octets = sizeof(std::uint64_t);

inline kiw_atomic_args &atomic_args(const Qp &qp, kiw_wqe &wqe)
{
	return *reinterpret_cast<kiw_atomic_args *>(reinterpret_cast<std::byte *>(&wqe) + qp.head + sizeof(kiw_sge));
}

/// Whether a bind can be written. The kernel checks the rest when its turn comes.
inline bool can_bind(const Qp &qp, const ibv_mw &mw, ibv_mw_type type, std::uint32_t rkey, const ibv_mw_bind_info &info)
{
	// The program chooses the key; the index names the window.
	return (qp.features & KIW_FEATURE_MW) && mw.type == type && (rkey ^ mw.rkey) >> 8 == 0 &&
	       (info.mr || (type == IBV_MW_TYPE_1 && info.length == 0));
}

inline void write_bind(const Qp &qp, kiw_wqe &wqe, std::uint32_t rkey, const ibv_mw_bind_info &info)
{
	wqe.rkey = rkey;
	*reinterpret_cast<kiw_bind_args *>(reinterpret_cast<std::byte *>(&wqe) + qp.head) = {
		.addr = info.addr,
		.length = info.length,
		.lkey = info.mr ? info.mr->lkey : 0,
		.access = info.mw_access_flags,
	};
}

constexpr std::uint64_t longest_message(bool datagram, std::uint8_t op)
{
	if (!datagram)
		return max_message;
	if (op == KIW_WR_WRITE)
		return max_record;
	return op == KIW_WR_SEND_IMM ? max_datagram_imm : max_datagram;
}

/// Whether ibv_post_send() can send it as a datagram. A Write leaves no room for the address handle.
constexpr bool is_datagram_send(std::uint8_t op, std::uint32_t features)
{
	return op == KIW_WR_SEND || (op == KIW_WR_SEND_IMM && (features & KIW_FEATURE_UD_IMM));
}

inline std::uint8_t slot_flags(unsigned int send_flags, bool signal_all)
{
	std::uint8_t flags = 0;

	if ((send_flags & IBV_SEND_SIGNALED) || signal_all)
		flags |= KIW_WQE_SIGNALED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= KIW_WQE_FENCE;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= KIW_WQE_SOLICITED;
	if (send_flags & IBV_SEND_INLINE)
		flags |= KIW_WQE_INLINE;
	return flags;
}

inline void write_dest(const ibv_ah *ah, std::uint32_t number, std::uint32_t key, kiw_ud_dest &dest)
{
	dest = Ah::from(ah).dest;
	dest.qpn = number;
	dest.qkey = key;
}

/// Checks before the first request whether doorbells are accepted. Returns 0 or an errno value.
int check_connected(Qp &qp);

/// Publishes the send requests below an index, written under the lock of lock_to_post(); unlocks, and rings the
/// doorbell if needed. Returns how many of them the kernel has; if not all, refused is the errno value.
std::uint32_t publish_sends(Qp &qp, std::uint32_t end, int &refused);

} // namespace kiw
