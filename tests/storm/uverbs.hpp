// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A device without its provider: the kernel's commands as they are, so that nothing stands between what the storm wants
// to do wrong and the module. All calls return 0 or errno, and may be made by several threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <infiniband/verbs.h>
#include <optional>
#include <rdma/ib_user_verbs.h>
#include <span>
#include <string>
#include <vector>

#include "kiwarp-abi.h"
#include "random.hpp"

namespace storm {

/// Offset and size are those of the mapping, place is that of the ring in it.
struct Ring {
	std::uint64_t offset = 0;
	std::uint64_t size = 0;
	std::uint32_t place = 0;
	std::uint32_t entries = 0;
	std::uint32_t stride = 0;
};

struct CqMade {
	std::uint32_t handle = 0;
	Ring ring;
};

struct SrqMade {
	std::uint32_t handle = 0;
	Ring ring;
};

struct QpWish {
	std::uint32_t pd = 0;
	std::uint32_t send_cq = 0;
	std::uint32_t recv_cq = 0;
	ibv_qp_cap cap{};
	std::optional<std::uint32_t> srq{};
};

struct QpMade {
	std::uint32_t handle = 0;
	std::uint32_t number = 0;
	ibv_qp_cap cap{};
	Ring sq;
	Ring rq;
};

/// A region, or a window
struct MrMade {
	std::uint32_t handle = 0;
	std::uint32_t key = 0;
};

/// Its own bytes, for commands that are built by hand.
template <typename T>
std::span<const std::uint8_t> bytes_of(const T &object)
{
	return {reinterpret_cast<const std::uint8_t *>(&object), sizeof(T)};
}

class Uverbs {
public:
	/// device: the name of the node in /dev/infiniband. Throws where it can't be opened.
	explicit Uverbs(const std::string &device);
	~Uverbs();
	Uverbs(const Uverbs &) = delete;
	Uverbs &operator=(const Uverbs &) = delete;

	int fd() const { return fd_; }
	/// Closes the device, also under calls of other threads; calls fail from then on.
	void close() const;

	/// Request is the command's own struct, which begins with the address of the response where it has one.
	int call(std::uint32_t command, std::span<const std::uint8_t> request,
		std::span<const std::uint8_t> driver = {}, std::span<std::uint8_t> response = {}) const;

	int alloc_pd(std::uint32_t &handle) const;
	int dealloc_pd(std::uint32_t handle) const;
	int reg_mr(
		std::uint32_t pd, std::uint64_t start, std::uint64_t length, std::uint32_t access, MrMade &made) const;
	int dereg_mr(std::uint32_t handle) const;
	int alloc_mw(std::uint32_t pd, std::uint32_t type, MrMade &made) const;
	int dealloc_mw(std::uint32_t handle) const;
	int create_cq(std::uint32_t entries, int channel, CqMade &made) const;
	int destroy_cq(std::uint32_t handle) const;
	int create_srq(std::uint32_t pd, std::uint32_t requests, std::uint32_t sges, SrqMade &made) const;
	/// ring: the new one, where it was resized
	int modify_srq(std::uint32_t handle, std::uint32_t mask, std::uint32_t requests, std::uint32_t limit,
		Ring &ring) const;
	int destroy_srq(std::uint32_t handle) const;
	int create_qp(const QpWish &wish, QpMade &made) const;
	int modify_qp(std::uint32_t handle, std::uint32_t mask, std::uint32_t state, std::uint32_t current,
		std::uint32_t access) const;
	int query_state(std::uint32_t handle, std::uint32_t &state) const;
	int destroy_qp(std::uint32_t handle) const;
	int create_channel(int &fd) const;
	int doorbell(std::uint32_t qp, bool send) const;
	int srq_doorbell(std::uint32_t srq) const;

private:
	int fd_;
	int async_fd_ = -1;
};

/// Where the devices of both ends are, such as "uverbs0".
struct Devices {
	std::string client;
	std::string server;
};
Devices find_devices();

/// A ring in this process's memory.
class Mapping {
public:
	Mapping() = default;
	/// Throws where it can't be mapped.
	Mapping(int fd, const Ring &ring);
	~Mapping();
	Mapping(Mapping &&other) noexcept;
	Mapping &operator=(Mapping &&other) noexcept;

	std::uint8_t *data() const { return data_; }
	std::span<std::uint8_t> octets() const
	{
		return {data_, KIW_RING_HEADER + static_cast<std::size_t>(ring_.entries) * ring_.stride};
	}
	const Ring &ring() const { return ring_; }
	std::uint32_t *words() const { return reinterpret_cast<std::uint32_t *>(data_); }
	std::uint8_t *slot(std::uint32_t index) const
	{
		return data_ + KIW_RING_HEADER + static_cast<std::size_t>(index & (ring_.entries - 1)) * ring_.stride;
	}
	explicit operator bool() const { return data_; }

private:
	std::uint8_t *data_ = nullptr;
	Ring ring_;
};

/// Pages of this process, zeroed.
class Pages {
public:
	explicit Pages(std::size_t octets);
	~Pages();
	Pages(const Pages &) = delete;
	Pages &operator=(const Pages &) = delete;

	std::uint8_t *data() const { return data_; }
	std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
	std::size_t size() const { return size_; }

private:
	std::uint8_t *data_;
	std::size_t size_;
};

} // namespace storm
