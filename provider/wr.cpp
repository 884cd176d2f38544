// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Posting by ibv_wr_start(), builders and setters, and ibv_wr_complete(). Requests are written into the ring, behind
// the published ones, and published together. The send queue's lock is held in between.
//
// An error stays until ibv_wr_complete(), which returns it and posts nothing.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "context.hpp"
#include "opcodes.hpp"
#include "posting.hpp"
#include "qp.hpp"

namespace kiw {

namespace {

void fail(Qp &qp, int error)
{
	if (!qp.draft.error)
		qp.draft.error = error;
	qp.draft.wqe = nullptr;
}

void finish_request(Qp &qp)
{
	if (qp.draft.nowhere)
		fail(qp, EINVAL);
}

/// Begins a request without payload. Returns its slot, or nullptr after an error.
kiw_wqe *begin_request(ibv_qp_ex *ex, const SendOpcode &row)
{
	Qp &qp = Qp::from(ex);
	Draft &draft = qp.draft;

	finish_request(qp);
	if (draft.error) [[unlikely]]
		return nullptr;
	// The setters decide on inline payload.
	const unsigned int flags = ex->wr_flags & ~unsigned{IBV_SEND_INLINE};
	if (flags & ~row.flags) [[unlikely]] {
		fail(qp, EINVAL);
		return nullptr;
	}
	if (!qp.sq.has_room(draft.end)) [[unlikely]] {
		fail(qp, ENOMEM);
		return nullptr;
	}
	kiw_wqe &wqe = *reinterpret_cast<kiw_wqe *>(qp.sq.ring.slot(draft.end++));
	wqe = {};
	wqe.opcode = row.op;
	wqe.flags = slot_flags(flags & ~row.ignored, qp.signal_all);
	wqe.wr_id = ex->wr_id;
	draft.wqe = &wqe;
	draft.nowhere = qp.is_datagram();
	return &wqe;
}

template <ibv_wr_opcode verb>
kiw_wqe *begin(ibv_qp_ex *ex)
{
	static constexpr SendOpcode row = *send_opcode(verb);

	return begin_request(ex, row);
}

// --- builders -----------------------------------------------------------------------------------

void wr_send(ibv_qp_ex *ex)
{
	begin<IBV_WR_SEND>(ex);
}

void wr_send_inv(ibv_qp_ex *ex, std::uint32_t rkey)
{
	if (kiw_wqe *wqe = begin<IBV_WR_SEND_WITH_INV>(ex))
		wqe->rkey = rkey;
}

void wr_send_imm(ibv_qp_ex *ex, __be32 imm)
{
	if (kiw_wqe *wqe = begin<IBV_WR_SEND_WITH_IMM>(ex))
		wqe->imm = imm;
}

void wr_rdma_write_imm(ibv_qp_ex *ex, std::uint32_t rkey, std::uint64_t address, __be32 imm)
{
	if (kiw_wqe *wqe = begin<IBV_WR_RDMA_WRITE_WITH_IMM>(ex)) {
		wqe->rkey = rkey;
		wqe->remote_addr = address;
		wqe->imm = imm;
	}
}

template <ibv_wr_opcode verb>
void begin_atomic(ibv_qp_ex *ex, std::uint32_t rkey, std::uint64_t address, const kiw_atomic_args &args)
{
	if (kiw_wqe *wqe = begin<verb>(ex)) {
		wqe->rkey = rkey;
		wqe->remote_addr = address;
		atomic_args(Qp::from(ex), *wqe) = args;
	}
}

void wr_cmp_swp(ibv_qp_ex *ex, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare, std::uint64_t swap)
{
	begin_atomic<IBV_WR_ATOMIC_CMP_AND_SWP>(ex, rkey, address, {.compare_add = compare, .swap = swap});
}

void wr_fetch_add(ibv_qp_ex *ex, std::uint32_t rkey, std::uint64_t address, std::uint64_t add)
{
	begin_atomic<IBV_WR_ATOMIC_FETCH_AND_ADD>(ex, rkey, address, {.compare_add = add, .swap = 0});
}

void wr_bind_mw(ibv_qp_ex *ex, ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info *info)
{
	Qp &qp = Qp::from(ex);

	if (!can_bind(qp, *mw, IBV_MW_TYPE_2, rkey, *info)) [[unlikely]]
		return fail(qp, EINVAL);
	if (kiw_wqe *wqe = begin<IBV_WR_BIND_MW>(ex))
		write_bind(qp, *wqe, rkey, *info);
}

void wr_local_inv(ibv_qp_ex *ex, std::uint32_t rkey)
{
	if (kiw_wqe *wqe = begin<IBV_WR_LOCAL_INV>(ex))
		wqe->rkey = rkey;
}

template <ibv_wr_opcode verb>
void wr_memory(ibv_qp_ex *ex, std::uint32_t rkey, std::uint64_t address)
{
	if (kiw_wqe *wqe = begin<verb>(ex)) {
		wqe->rkey = rkey;
		wqe->remote_addr = address;
	}
}

/// A builder or setter that the queue pair was not created for
template <typename... Arguments>
void wr_refuse(ibv_qp_ex *ex, Arguments...)
{
	fail(Qp::from(ex), EOPNOTSUPP);
}

// --- setters ------------------------------------------------------------------------------------

/// Room for the current request's payload, or nullptr after an error. The last setter counts.
std::byte *begin_payload(Qp &qp, std::uint64_t length)
{
	kiw_wqe *wqe = qp.draft.wqe;

	if (!wqe) [[unlikely]] {
		fail(qp, EINVAL);
		return nullptr;
	}
	if (is_local(wqe->opcode) || length > longest_message(qp.is_datagram(), wqe->opcode) ||
		(is_atomic(wqe->opcode) && length != atomic_octets)) [[unlikely]] {
		fail(qp, EINVAL);
		return nullptr;
	}
	wqe->flags &= static_cast<std::uint8_t>(~KIW_WQE_INLINE);
	wqe->inline_len = 0;
	wqe->num_sge = 0;
	return reinterpret_cast<std::byte *>(wqe) + qp.head;
}

void wr_set_sge(ibv_qp_ex *ex, std::uint32_t lkey, std::uint64_t address, std::uint32_t length)
{
	Qp &qp = Qp::from(ex);

	if (std::byte *payload = begin_payload(qp, length)) {
		*reinterpret_cast<kiw_sge *>(payload) = {.addr = address, .length = length, .lkey = lkey};
		qp.draft.wqe->num_sge = 1;
	}
}

void wr_set_sge_list(ibv_qp_ex *ex, std::size_t count, const ibv_sge *list)
{
	Qp &qp = Qp::from(ex);
	std::uint64_t length = 0;

	if (count > qp.sq.max_sge) [[unlikely]]
		return fail(qp, EINVAL);
	for (std::size_t i = 0; i < count; i++)
		length += list[i].length;
	if (std::byte *payload = begin_payload(qp, length)) {
		if (is_atomic(qp.draft.wqe->opcode) && count != 1) [[unlikely]]
			return fail(qp, EINVAL);
		if (count)
			std::memcpy(payload, list, count * sizeof(*list));
		qp.draft.wqe->num_sge = static_cast<std::uint8_t>(count);
	}
}

void wr_set_inline_data_list(ibv_qp_ex *ex, std::size_t count, const ibv_data_buf *list)
{
	Qp &qp = Qp::from(ex);
	std::size_t length = 0;

	for (std::size_t i = 0; i < count; i++) {
		if (list[i].length > qp.max_inline - length) [[unlikely]]
			return fail(qp, EINVAL);
		length += list[i].length;
	}
	std::byte *payload = begin_payload(qp, length);
	if (!payload)
		return;
	kiw_wqe &wqe = *qp.draft.wqe;
	if (brings_data(wqe.opcode)) [[unlikely]]
		return fail(qp, EINVAL);
	for (std::size_t i = 0; i < count; i++)
		payload = std::copy_n(static_cast<const std::byte *>(list[i].addr), list[i].length, payload);
	wqe.flags |= KIW_WQE_INLINE;
	wqe.inline_len = static_cast<std::uint32_t>(length);
}

void wr_set_inline_data(ibv_qp_ex *ex, void *address, std::size_t length)
{
	const ibv_data_buf buffer = {.addr = address, .length = length};

	wr_set_inline_data_list(ex, 1, &buffer);
}

void wr_set_ud_addr(ibv_qp_ex *ex, ibv_ah *ah, std::uint32_t number, std::uint32_t key)
{
	Qp &qp = Qp::from(ex);

	if (!qp.draft.wqe) [[unlikely]]
		return fail(qp, EINVAL);
	write_dest(ah, number, key, *reinterpret_cast<kiw_ud_dest *>(qp.draft.wqe + 1));
	qp.draft.nowhere = false;
}

// --- the critical section -----------------------------------------------------------------------

// A child of fork(2) lacks the rings, and a thread of the parent may hold the lock: the child takes none.

void wr_start(ibv_qp_ex *ex)
{
	Qp &qp = Qp::from(ex);

	if (qp.origin.inherited()) [[unlikely]] {
		qp.draft.error = EPERM;
		return;
	}
	const int error = check_connected(qp);
	qp.sq.lock_to_post();
	qp.draft = {.end = qp.sq.next, .error = error};
}

int wr_complete(ibv_qp_ex *ex)
{
	Qp &qp = Qp::from(ex);
	int error = 0;

	if (qp.origin.inherited()) [[unlikely]]
		return EPERM;
	finish_request(qp);
	qp.draft.wqe = nullptr;
	if (qp.draft.error) [[unlikely]] {
		error = qp.draft.error;
		qp.sq.lock.unlock();
		return error;
	}
	const std::uint32_t count = qp.draft.end - qp.sq.next;
	// If the connection ends now, the kernel may have the first requests: they are flushed.
	return publish_sends(qp, qp.draft.end, error) == count ? 0 : error;
}

void wr_abort(ibv_qp_ex *ex)
{
	Qp &qp = Qp::from(ex);

	if (qp.origin.inherited()) [[unlikely]]
		return;
	qp.draft.wqe = nullptr;
	qp.sq.lock.unlock();
}

// --- creation -----------------------------------------------------------------------------------

std::uint64_t ops_of_connections(ibv_context *context)
{
	constexpr std::uint64_t always = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
					 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
	constexpr std::uint64_t with_imm = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	constexpr std::uint64_t atomics = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	constexpr std::uint64_t windows = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	const std::uint32_t features = Context::from(context).features;

	return always | (features & KIW_FEATURE_MW ? windows : 0) | (features & KIW_FEATURE_IMM ? with_imm : 0) |
	       (features & KIW_FEATURE_ATOMIC ? atomics : 0);
}

/// Those of datagram queue pairs, which write by Write-Record
std::uint64_t ops_of_datagrams(ibv_context *context)
{
	const std::uint32_t features = Context::from(context).features;

	return IBV_QP_EX_WITH_SEND | (features & KIW_FEATURE_RECORD ? std::uint64_t{IBV_QP_EX_WITH_RDMA_WRITE} : 0) |
	       (features & KIW_FEATURE_UD_IMM ? std::uint64_t{IBV_QP_EX_WITH_SEND_WITH_IMM} : 0);
}

/// Builders of newer libibverbs, all unsupported. Null pointers show that, as with other drivers: librpma then flushes
/// by a Read instead of wr_flush().
void lack_newer(pabi::QueuePair &base)
{
	std::fill(base.octets + pabi::qp_ex_min, base.octets + pabi::qp_ex_size, std::byte{});
}

void refuse_all(ibv_qp_ex &ex)
{
	ex.wr_atomic_cmp_swp = wr_refuse;
	ex.wr_atomic_fetch_add = wr_refuse;
	ex.wr_bind_mw = wr_refuse;
	ex.wr_local_inv = wr_refuse;
	ex.wr_rdma_read = wr_refuse;
	ex.wr_rdma_write = wr_refuse;
	ex.wr_rdma_write_imm = wr_refuse;
	ex.wr_send = wr_refuse;
	ex.wr_send_imm = wr_refuse;
	ex.wr_send_inv = wr_refuse;
	ex.wr_send_tso = wr_refuse;
	ex.wr_set_ud_addr = wr_refuse;
	ex.wr_set_xrc_srqn = wr_refuse;
}

void set_ops(ibv_qp_ex &ex, std::uint64_t ops, bool datagram)
{
	refuse_all(ex);
	if (ops & IBV_QP_EX_WITH_SEND)
		ex.wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex.wr_send_inv = wr_send_inv;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex.wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex.wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex.wr_atomic_cmp_swp = wr_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex.wr_atomic_fetch_add = wr_fetch_add;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex.wr_bind_mw = wr_bind_mw;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex.wr_local_inv = wr_local_inv;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex.wr_rdma_write = wr_memory<IBV_WR_RDMA_WRITE>;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex.wr_rdma_read = wr_memory<IBV_WR_RDMA_READ>;
	if (datagram)
		ex.wr_set_ud_addr = wr_set_ud_addr;
	ex.wr_set_sge = wr_set_sge;
	ex.wr_set_sge_list = wr_set_sge_list;
	ex.wr_set_inline_data = wr_set_inline_data;
	ex.wr_set_inline_data_list = wr_set_inline_data_list;
	ex.wr_start = wr_start;
	ex.wr_complete = wr_complete;
	ex.wr_abort = wr_abort;
}

constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

int check(ibv_context *context, const ibv_qp_init_attr_ex &attr)
{
	const std::uint64_t ops =
		number_of(attr.qp_type) == IBV_QPT_UD ? ops_of_datagrams(context) : ops_of_connections(context);

	if (!(attr.comp_mask & IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	if ((attr.comp_mask & ~known) || ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags) ||
		((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (attr.send_ops_flags & ~ops)))
		return EOPNOTSUPP;
	return 0;
}

} // namespace

ibv_qp *create_qp_with(ibv_context *context, ibv_qp_init_attr_ex *attr, const kiw_create_qp_req &own)
{
	if (const int error = check(context, *attr)) {
		errno = error;
		return nullptr;
	}
	// Starts with the members of ibv_qp_init_attr, so it can be passed for one.
	Owner<Qp> qp = make_qp(attr->pd, reinterpret_cast<ibv_qp_init_attr *>(attr), own);
	if (!qp)
		return nullptr;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		set_ops(qp->base.qp_ex, attr->send_ops_flags, qp->is_datagram());
		lack_newer(qp->base);
		qp->base.comp_mask() = pabi::qp_is_extended;
	}
	return &qp.release()->base.qp;
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr)
{
	return create_qp_with(context, attr, {});
}

} // namespace kiw
