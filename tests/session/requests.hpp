// SPDX-License-Identifier: GPL-2.0
// Send requests, the bytes that they move, and what comes of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>

#include "side.hpp"

namespace session {

inline kiw_wqe request(kiw_wr_op opcode, std::uint64_t id, std::uint8_t flags = KIW_WQE_SIGNALED)
{
	kiw_wqe wqe{};

	wqe.opcode = opcode;
	wqe.flags = flags;
	wqe.wr_id = id;
	return wqe;
}

inline kiw_wqe remote(kiw_wr_op opcode, std::uint64_t id, const Side &peer, std::uint32_t offset,
	std::size_t region = 0, std::uint8_t flags = KIW_WQE_SIGNALED)
{
	kiw_wqe wqe = request(opcode, id, flags);

	wqe.rkey = peer.region(region).stag;
	wqe.remote_addr = peer.region(region).iova + offset;
	return wqe;
}

inline void fill(std::span<std::uint8_t> bytes, std::uint8_t seed)
{
	for (std::size_t i = 0; i < bytes.size(); i++)
		bytes[i] = static_cast<std::uint8_t>(seed + i * 7 + i / 251);
}

inline bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b)
{
	return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline bool zero(std::span<const std::uint8_t> bytes)
{
	return std::ranges::all_of(bytes, [](auto byte) { return !byte; });
}

#define EXPECT_COMPLETES(side, id, expected) \
	do { \
		SCOPED_TRACE(#side); \
		ASSERT_FALSE((side).completions().empty()); \
		const kiw_cqe cqe_ = (side).completion(); \
		EXPECT_EQ(cqe_.wr_id, std::uint64_t(id)); \
		EXPECT_EQ(int(cqe_.status), int(expected)); \
		EXPECT_EQ(cqe_.qp_num, (side).core.own.num); \
		EXPECT_EQ(cqe_.cookie, 0xc00c1eU); \
	} while (0)

} // namespace session
