// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Two connected ends in one process, on a device without a module.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <rdma/rdma_cma.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace user {

inline constexpr int all_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

/// Waits for a condition, for as long as a slow machine may take.
inline bool eventually(const std::function<bool()> &condition)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);

	while (!condition()) {
		if (std::chrono::steady_clock::now() > end)
			return false;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	return true;
}

/// Whether memory that a peer writes to meanwhile is as it shall be: a race by intention.
bool has_become(const std::vector<std::uint8_t> &bytes, std::size_t offset, const std::vector<std::uint8_t> &wanted);

/// Memory that is registered
struct Memory {
	Memory(ibv_pd *pd, std::size_t length, int access = all_rights) : bytes(length)
	{
		mr = ibv_reg_mr(pd, bytes.data(), length, access);
		if (!mr)
			throw std::runtime_error("ibv_reg_mr");
	}
	~Memory()
	{
		if (mr)
			ibv_dereg_mr(mr);
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	ibv_sge sge(std::size_t offset, std::uint32_t length) const
	{
		return {reinterpret_cast<std::uintptr_t>(bytes.data()) + offset, length, mr->lkey};
	}
	std::uint64_t address(std::size_t offset = 0) const
	{
		return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
	}

	std::vector<std::uint8_t> bytes;
	ibv_mr *mr;
};

/// One end: an identifier with a queue pair
struct End {
	End() = default;
	~End();
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	/// Each returns 0 or an errno value.
	int post(ibv_wr_opcode opcode, std::vector<ibv_sge> sges, std::uint64_t remote = 0, std::uint32_t rkey = 0,
		std::uint64_t id = 1, __be32 imm = 0);
	int receive(std::vector<ibv_sge> sges, std::uint64_t id = 2);
	/// The next completion, of either queue; throws when there is none for too long.
	ibv_wc completion(ibv_cq *cq);
	ibv_wc sent() { return completion(id->send_cq); }
	ibv_wc received() { return completion(id->recv_cq); }

	rdma_cm_id *id = nullptr;
};

struct Pair {
	explicit Pair(std::uint32_t depth = 64, ibv_cq *send_cq = nullptr);
	~Pair();

	End client, server;
	rdma_cm_id *listener = nullptr;
};

/// Whether 64 bytes get from the client to the server
bool sends_and_receives(Pair &pair);
/// The address and port of a listener on 127.0.0.1, as text
std::string port_of(rdma_cm_id *listener);
rdma_addrinfo *resolve(const char *port, int flags);
ibv_qp_init_attr attributes(std::uint32_t depth);

} // namespace user
