// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Stands in for the kernel module and for libibverbs' command functions, so that the provider's rings
// can be tested without a device, from both sides.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <map>
#include <vector>

#include "context.hpp"
#include "domain.hpp"
#include "kiwarp-abi.h"

/// The kernel's side of a send or receive ring.
struct FakeWorkRing {
	kiw_ring_geometry geometry;
	std::byte *memory;
	std::uint32_t next = 0;

	kiw_wq_ring &header() const { return *reinterpret_cast<kiw_wq_ring *>(memory); }
	std::byte *slot(std::uint32_t index) const;
	std::uint32_t produced() const;
	void set_flags(std::uint32_t flags);

	template <typename Entry>
	const Entry &entry(std::uint32_t index) const
	{
		return *reinterpret_cast<const Entry *>(slot(index));
	}
	const kiw_sge &sge(std::uint32_t index, std::size_t header_octets, int number) const;
};

/// The kernel's side of a completion ring.
struct FakeCompletionRing {
	kiw_ring_geometry geometry;
	std::byte *memory;
	std::uint32_t prod = 0;

	kiw_cq_ring &header() const { return *reinterpret_cast<kiw_cq_ring *>(memory); }
	kiw_cqe &slot(std::uint32_t index) const;
	bool has_room() const;
	void add(const kiw_cqe &cqe);
	/// Returns the request that it answered, KIW_ARM_NONE if there was none.
	std::uint32_t notify();
};

struct FakeQp {
	FakeWorkRing sq;
	FakeWorkRing rq;
	std::uint64_t cookie;
};

/// Alike by write(2) and by ioctl(2)
struct FakeDoorbell {
	bool by_ioctl;
	std::uint32_t command;
	std::size_t in_octets; // behind the header of a write
	std::size_t out_octets;
	std::uint64_t response;
	std::uint32_t qp_handle;
	std::uint32_t wr_count;
	std::uint32_t sge_count;
	std::uint32_t wqe_size;
};

class FakeKernel {
public:
	FakeKernel();
	~FakeKernel();
	FakeKernel(const FakeKernel &) = delete;
	FakeKernel &operator=(const FakeKernel &) = delete;

	ibv_context *context() { return &context_.ibv; }
	ibv_pd *pd() { return &pd_.ibv; }
	/// KIW_FEATURES that the module has, too
	std::uint32_t &features() { return context_.features; }
	FakeQp &qp(const ibv_qp *qp) { return qps.at(qp->handle); }
	FakeCompletionRing &cq(const ibv_cq *cq) { return cqs.at(cq->handle); }
	FakeWorkRing &srq(const ibv_srq *srq) { return srqs.at(srq->handle); }

	/// Adds a completion of a QP's request.
	void complete(const ibv_cq *cq, const ibv_qp *qp, kiw_cqe cqe);

	/// What a doorbell answers: 0 or an errno value. Without one they are only counted.
	std::function<int(const FakeDoorbell &)> on_doorbell;
	std::atomic<int> doorbells = 0;
	/// Write(2) is refused, as after a change of credentials; these aren't counted as doorbells.
	std::atomic<int> refuse_write = 0;
	std::atomic<int> refused_writes = 0;
	std::atomic<int> yields = 0;
	/// Calls of ibv_get_cq_event() that found none: libibverbs would sleep there
	std::atomic<int> vain_reads = 0;
	FakeDoorbell last_doorbell{};

	/// Lets a test falsify what create_cq, create_srq and create_qp answer.
	std::function<void(kiw_ring_geometry &)> distort;
	int refuse_create = 0;
	int refuse_destroy = 0;
	int refuse_modify = 0;
	/// Calls of the fake command functions
	int commands = 0;

	/// What ibv_open_device() says, and how often it was called
	int refuse_open = 0;
	int opened = 0;
	/// The file that a channel is made on, by its number among those that were opened; kept in the channel itself
	void set_file(int channel) const;
	int file_of(int channel) const;

	std::map<std::uint32_t, FakeCompletionRing> cqs;
	std::map<std::uint32_t, FakeWorkRing> srqs;
	std::map<std::uint32_t, FakeQp> qps;

	static FakeKernel *instance;

	// For the fake command functions.
	std::byte *ring(kiw_ring_geometry &geometry, std::uint32_t entries, std::uint32_t stride);
	std::uint32_t new_handle() { return ++last_handle_; }
	/// Returns 0 or an errno value.
	int ring_doorbell(const FakeDoorbell &doorbell);
	int fd() const { return context_.ibv.cmd_fd; }
	/// Another file of the device, in which nothing is
	ibv_context *open();
	void close(ibv_context *context);

private:
	// Memory with rings in it, as large as this or as one ring needs
	static constexpr std::uint64_t arena_octets = 65536;
	struct Arena {
		std::byte *memory;
		std::uint64_t offset;
		std::uint64_t size;
		std::uint64_t used;
	};
	void add_arena(std::uint64_t size);

	kiw::Context context_{};
	kiw::Domain pd_{};
	std::uint32_t last_handle_ = 100;
	std::vector<Arena> arenas_;
};
