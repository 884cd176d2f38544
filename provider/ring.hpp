// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The process's side of the rings in kiwarp-abi.h, which states what pairs with what.
#pragma once

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <sys/mman.h>

#include "kiwarp-abi.h"

namespace kiw {

/// Shared memory of one ring. A child process doesn't get it: two producers would ruin the ring.
class Mapping {
public:
	Mapping() = default;
	Mapping(const Mapping &) = delete;
	Mapping &operator=(const Mapping &) = delete;
	~Mapping()
	{
		if (base_)
			::munmap(base_, size_);
	}

	/// Returns 0 or an errno value.
	int map(int fd, std::uint64_t offset, std::uint64_t size)
	{
		void *base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));

		if (base == MAP_FAILED)
			return errno;
		base_ = static_cast<std::byte *>(base);
		size_ = size;
		return ::madvise(base_, size_, MADV_DONTFORK) ? errno : 0;
	}

	std::byte *base() const { return base_; }

private:
	std::byte *base_ = nullptr;
	std::size_t size_ = 0;
};

/// Header and slots of one ring; Header is struct kiw_wq_ring or struct kiw_cq_ring.
template <typename Header>
class Ring {
	static_assert(sizeof(Header) == KIW_RING_HEADER);

public:
	/// Maps a ring as the kernel described it. Returns 0, an errno value, or EPROTO if the description
	/// can't be right or is of a ring smaller than wanted.
	int open(int fd, const kiw_ring_geometry &geometry, std::uint32_t wanted_entries, std::uint32_t wanted_stride)
	{
		const std::uint64_t octets = std::uint64_t{geometry.entries} * geometry.stride + KIW_RING_HEADER;

		if (!std::has_single_bit(geometry.entries) || geometry.entries < wanted_entries ||
			geometry.stride < wanted_stride || geometry.stride % alignof(std::uint64_t) != 0 ||
			geometry.mmap_size < octets || geometry.mmap_size > PTRDIFF_MAX)
			return EPROTO;
		if (const int error = mapping_.map(fd, geometry.mmap_offset, geometry.mmap_size))
			return error;
		entries_ = geometry.entries;
		stride_ = geometry.stride;
		return 0;
	}

	std::uint32_t entries() const { return entries_; }

protected:
	Header &header() const { return *reinterpret_cast<Header *>(mapping_.base()); }

	std::byte *slot_at(std::uint32_t index) const
	{
		return mapping_.base() + KIW_RING_HEADER + std::size_t{index & (entries_ - 1)} * stride_;
	}

private:
	Mapping mapping_;
	std::uint32_t entries_ = 0;
	std::uint32_t stride_ = 0;
};

/// Send or receive ring: this process produces, the kernel consumes.
class WorkRing : public Ring<kiw_wq_ring> {
public:
	std::byte *slot(std::uint32_t index) const { return slot_at(index); }

	/// Hands the slots below prod to the kernel. flags() afterwards tells whether it has to be told.
	void publish(std::uint32_t prod)
	{
		std::atomic_ref(header().prod).store(prod, std::memory_order_release);
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}

	std::uint32_t flags() const { return std::atomic_ref(header().flags).load(std::memory_order_relaxed); }
	std::uint32_t consumed() const { return std::atomic_ref(header().cons).load(std::memory_order_acquire); }
};

/// Completion ring: the kernel produces, this process consumes.
class CompletionRing : public Ring<kiw_cq_ring> {
public:
	kiw_cqe &slot(std::uint32_t index) const { return *reinterpret_cast<kiw_cqe *>(slot_at(index)); }

	std::uint32_t produced() const { return std::atomic_ref(header().prod).load(std::memory_order_acquire); }

	/// Gives the slots below cons back to the kernel.
	void consume(std::uint32_t cons) { std::atomic_ref(header().cons).store(cons, std::memory_order_release); }

	/// Asks for a notification. Completions published before are for the caller to poll.
	void arm(bool solicited_only)
	{
		std::atomic_ref armed(header().arm);

		if (solicited_only) {
			// Doesn't weaken what was asked for before.
			std::uint32_t expected = KIW_ARM_NONE;
			armed.compare_exchange_strong(expected, KIW_ARM_SOLICITED, std::memory_order_relaxed);
		} else {
			armed.store(KIW_ARM_NEXT, std::memory_order_relaxed);
		}
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}
};

} // namespace kiw
