// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Opcodes of work requests and completions. A new one is a row here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <infiniband/verbs.h>
#include <type_traits>

#include "kiwarp-abi.h"

namespace kiw {

/// Number in an enum set by a program: reading an unknown value as the enum is undefined.
template <typename Enum>
std::underlying_type_t<Enum> number_of(const Enum &set)
{
	std::underlying_type_t<Enum> number;

	std::memcpy(&number, &set, sizeof(number));
	return number;
}

/// The peer's object of a send request, and its place in ibv_send_wr
enum class Remote : std::uint8_t {
	nothing,
	region, // invalidate_rkey
	memory, // wr.rdma
	number, // wr.atomic
	window, // bind_mw
};

/// How a send request is written into the ring, and how its completion is reported
struct SendOpcode {
	ibv_wr_opcode verb;
	kiw_wr_op op;
	ibv_wc_opcode completion;
	Remote remote;
	// Allowed flags; others are refused
	unsigned int flags;
	// Allowed flags without effect
	unsigned int ignored;
	// Needed KIW_FEATURE_*
	std::uint32_t feature = 0;

	constexpr bool has_imm() const { return feature == KIW_FEATURE_IMM; }
};

inline constexpr unsigned int any_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

inline constexpr SendOpcode send_opcodes[] = {
	{IBV_WR_SEND, KIW_WR_SEND, IBV_WC_SEND, Remote::nothing, any_flags | IBV_SEND_INLINE, 0},
	{IBV_WR_SEND_WITH_INV, KIW_WR_SEND_INV, IBV_WC_SEND, Remote::region, any_flags | IBV_SEND_INLINE, 0},
	{IBV_WR_RDMA_WRITE, KIW_WR_WRITE, IBV_WC_RDMA_WRITE, Remote::memory, any_flags | IBV_SEND_INLINE,
		IBV_SEND_SOLICITED},
	{IBV_WR_RDMA_READ, KIW_WR_READ, IBV_WC_RDMA_READ, Remote::memory, any_flags, IBV_SEND_SOLICITED},
	{IBV_WR_SEND_WITH_IMM, KIW_WR_SEND_IMM, IBV_WC_SEND, Remote::nothing, any_flags | IBV_SEND_INLINE, 0,
		KIW_FEATURE_IMM},
	{IBV_WR_RDMA_WRITE_WITH_IMM, KIW_WR_WRITE_IMM, IBV_WC_RDMA_WRITE, Remote::memory, any_flags | IBV_SEND_INLINE,
		0, KIW_FEATURE_IMM},
	{IBV_WR_ATOMIC_CMP_AND_SWP, KIW_WR_CMP_SWAP, IBV_WC_COMP_SWAP, Remote::number, any_flags, IBV_SEND_SOLICITED,
		KIW_FEATURE_ATOMIC},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, KIW_WR_FETCH_ADD, IBV_WC_FETCH_ADD, Remote::number, any_flags, IBV_SEND_SOLICITED,
		KIW_FEATURE_ATOMIC},
	{IBV_WR_BIND_MW, KIW_WR_BIND_MW, IBV_WC_BIND_MW, Remote::window, any_flags, IBV_SEND_SOLICITED, KIW_FEATURE_MW},
	{IBV_WR_LOCAL_INV, KIW_WR_LOCAL_INV, IBV_WC_LOCAL_INV, Remote::region, any_flags, IBV_SEND_SOLICITED,
		KIW_FEATURE_MW},
};

/// Whether the kernel stores an answer: no inline data.
constexpr bool brings_data(std::uint8_t op)
{
	return op == KIW_WR_READ || op == KIW_WR_CMP_SWAP || op == KIW_WR_FETCH_ADD;
}

/// Whether only the kernel uses the request: no payload.
constexpr bool is_local(std::uint8_t op)
{
	return op == KIW_WR_BIND_MW || op == KIW_WR_LOCAL_INV;
}

constexpr bool is_atomic(std::uint8_t op)
{
	return op == KIW_WR_CMP_SWAP || op == KIW_WR_FETCH_ADD;
}

struct RecvOpcode {
	kiw_wr_op op;
	ibv_wc_opcode completion;
};

inline constexpr RecvOpcode recv_opcodes[] = {
	{KIW_WR_RECV, IBV_WC_RECV}, {KIW_WR_RECV_IMM, IBV_WC_RECV_RDMA_WITH_IMM},
	{KIW_WR_RECORD, IBV_WC_DRIVER1}, // consumes no request
};

namespace detail {

consteval std::size_t verbs_end()
{
	std::size_t end = 0;

	for (const SendOpcode &row : send_opcodes)
		end = row.verb >= end ? row.verb + 1 : end;
	return end;
}

/// Rows by verbs' opcode; rows without flags are unsupported.
consteval auto by_verb()
{
	std::array<SendOpcode, verbs_end()> table{};

	for (const SendOpcode &row : send_opcodes)
		table[row.verb] = row;
	return table;
}

/// Completion opcodes by the opcode in the ring; unknown ones count as Send.
consteval auto by_op()
{
	std::array<ibv_wc_opcode, 256> table{};

	table.fill(IBV_WC_SEND);
	for (const SendOpcode &row : send_opcodes)
		table[row.op] = row.completion;
	for (const RecvOpcode &row : recv_opcodes)
		table[row.op] = row.completion;
	return table;
}

inline constexpr auto sends = by_verb();
inline constexpr auto completions = by_op();

} // namespace detail

/// The row of a verbs opcode, or nullptr.
constexpr const SendOpcode *send_opcode(std::uint32_t verb)
{
	if (verb >= detail::sends.size() || !detail::sends[verb].flags)
		return nullptr;
	return &detail::sends[verb];
}

constexpr ibv_wc_opcode wc_opcode(std::uint8_t op)
{
	return detail::completions[op];
}

/// Unknown values count as a general error.
constexpr ibv_wc_status wc_status(std::uint8_t status)
{
	return status <= IBV_WC_TM_RNDV_INCOMPLETE ? static_cast<ibv_wc_status>(status) : IBV_WC_GENERAL_ERR;
}

/// Whether a completion belongs to the receive queue: a bit in verbs.
constexpr bool is_receive(std::uint8_t op)
{
	return wc_opcode(op) & IBV_WC_RECV;
}

/// Flags of a completion's valid fields.
constexpr unsigned int wc_flags(const kiw_cqe &cqe)
{
	unsigned int flags = 0;

	if (cqe.flags & KIW_CQE_GRH)
		flags |= IBV_WC_GRH;
	if (cqe.flags & KIW_CQE_WITH_INV)
		flags |= IBV_WC_WITH_INV;
	if (cqe.flags & KIW_CQE_WITH_IMM)
		flags |= IBV_WC_WITH_IMM;
	return flags;
}

static_assert(send_opcode(IBV_WR_RDMA_READ)->op == KIW_WR_READ && !send_opcode(IBV_WR_TSO));
static_assert(is_receive(KIW_WR_RECV_IMM) && is_receive(KIW_WR_RECORD) && !is_receive(KIW_WR_SEND_IMM));

} // namespace kiw
