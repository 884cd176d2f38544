// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The process's side of the rings in kiwarp-abi.h, which pairs the barriers.
#pragma once

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kiwarp-abi.h"
#include "mapping.hpp"

namespace kiw {

/// Header and slots of a ring; Header is struct kiw_wq_ring or struct kiw_cq_ring.
template <typename Header>
class Ring {
	static_assert(sizeof(Header) == KIW_RING_HEADER);

public:
	Ring() = default;
	Ring(const Ring &) = delete;
	Ring &operator=(const Ring &) = delete;
	~Ring()
	{
		if (mapping_)
			mapping_->release();
	}

	/// Maps a ring by the kernel's description. Returns 0, an errno value, or EPROTO if the description is invalid
	/// or the ring too small.
	int open(Mappings &mappings, int fd, const kiw_ring_geometry &geometry, std::uint32_t wanted_entries,
		std::uint32_t wanted_stride)
	{
		const std::uint64_t end =
			geometry.offset + std::uint64_t{geometry.entries} * geometry.stride + KIW_RING_HEADER;

		if (!std::has_single_bit(geometry.entries) || geometry.entries < wanted_entries ||
			geometry.stride < wanted_stride || geometry.stride % alignof(std::uint64_t) != 0 ||
			geometry.offset % KIW_RING_ALIGN != 0 || geometry.mmap_size < end ||
			geometry.mmap_size > PTRDIFF_MAX)
			return EPROTO;
		if (const int error = mappings.acquire(fd, geometry, mapping_))
			return error;
		base_ = mapping_->base() + geometry.offset;
		entries_ = geometry.entries;
		stride_ = geometry.stride;
		return 0;
	}

	std::uint32_t entries() const { return entries_; }

	void swap(Ring &other)
	{
		std::swap(mapping_, other.mapping_);
		std::swap(base_, other.base_);
		std::swap(entries_, other.entries_);
		std::swap(stride_, other.stride_);
	}

protected:
	/// Uses memory outside of a mapping.
	void attach(std::byte *base, std::uint32_t entries)
	{
		base_ = base;
		entries_ = entries;
	}

	Header &header() const { return *reinterpret_cast<Header *>(base_); }

	std::byte *slot_at(std::uint32_t index) const
	{
		return base_ + KIW_RING_HEADER + std::size_t{index & (entries_ - 1)} * stride_;
	}

private:
	Mapping *mapping_ = nullptr;
	std::byte *base_ = nullptr;
	std::uint32_t entries_ = 0;
	std::uint32_t stride_ = 0;
};

/// Send or receive ring: this process produces, the kernel consumes.
class WorkRing : public Ring<kiw_wq_ring> {
public:
	std::byte *slot(std::uint32_t index) const { return slot_at(index); }

	/// Hands the slots below prod to the kernel. Then flags() says whether it needs a doorbell.
	void publish(std::uint32_t prod)
	{
		std::atomic_ref(header().prod).store(prod, std::memory_order_release);
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}

	std::uint32_t flags() const { return std::atomic_ref(header().flags).load(std::memory_order_relaxed); }
	std::uint32_t consumed() const { return std::atomic_ref(header().cons).load(std::memory_order_acquire); }

	/// Becomes a private ring, of which nothing is consumed.
	void become_useless()
	{
		alignas(kiw_wq_ring) static std::byte header[KIW_RING_HEADER];

		attach(header, 1);
	}
};

/// Completion ring: the kernel produces, this process consumes.
class CompletionRing : public Ring<kiw_cq_ring> {
public:
	kiw_cqe &slot(std::uint32_t index) const { return *reinterpret_cast<kiw_cqe *>(slot_at(index)); }

	std::uint32_t produced() const { return std::atomic_ref(header().prod).load(std::memory_order_acquire); }

	/// Returns the slots below cons to the kernel.
	void consume(std::uint32_t cons) { std::atomic_ref(header().cons).store(cons, std::memory_order_release); }

	/// Becomes a private ring. Returns an index as far from produced() as possible.
	std::uint32_t become_useless()
	{
		alignas(kiw_cq_ring) static std::byte header[KIW_RING_HEADER];

		attach(header, 1);
		return produced() + 0x80000000U;
	}

	/// Asks for a notification. The caller must poll for earlier completions.
	void arm(bool solicited_only)
	{
		std::atomic_ref armed(header().arm);

		if (solicited_only) {
			// A demand for any completion stays in force.
			std::uint32_t expected = KIW_ARM_NONE;
			armed.compare_exchange_strong(expected, KIW_ARM_SOLICITED, std::memory_order_relaxed);
		} else {
			armed.store(KIW_ARM_NEXT, std::memory_order_relaxed);
		}
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}
};

} // namespace kiw
