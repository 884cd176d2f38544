// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Limits that ibv_query_device() reports and the verbs enforce: those of the module.
#pragma once

#include <atomic>
#include <cstdint>

namespace kiwu::limits {

inline constexpr std::uint32_t qp = 65536;
inline constexpr std::uint32_t qp_wr = 16384;
inline constexpr std::uint32_t sge = 16;
inline constexpr std::uint32_t inline_data = 512; // bytes
inline constexpr std::uint32_t srq = 65536;
inline constexpr std::uint32_t cq = 65536;
inline constexpr std::uint32_t cqe = 1 << 20;
inline constexpr std::uint32_t mr = 1 << 20;
inline constexpr std::uint32_t mw = 65536;
inline constexpr std::uint32_t pd = 65536;
inline constexpr std::uint32_t rd_atom = 128;
inline constexpr std::uint64_t mr_size = 1ULL << 39; // bytes
inline constexpr std::uint32_t gids = 256;
inline constexpr std::uint32_t ah = 1 << 20;
inline constexpr std::uint32_t groups = 65536;

/// Objects of a kind that there are
class Count {
public:
	/// Takes one of so many places.
	bool up(std::uint32_t most)
	{
		std::uint32_t there = count_.load(std::memory_order_relaxed);

		while (there < most)
			if (count_.compare_exchange_weak(there, there + 1, std::memory_order_relaxed))
				return true;
		return false;
	}
	void down() { count_.fetch_sub(1, std::memory_order_relaxed); }
	void clear() { count_.store(0, std::memory_order_relaxed); }

private:
	std::atomic<std::uint32_t> count_ = 0;
};

} // namespace kiwu::limits
