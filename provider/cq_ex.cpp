// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion queues of ibv_create_cq_ex(): one completion at a time, read in the ring.
//
// The lock is held from ibv_start_poll() to ibv_end_poll(), unless the program polls with a single thread. In between,
// a program may post and arm, but must not destroy a QP of this CQ: that waits for the lock.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "context.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "opcodes.hpp"
#include "qp.hpp"

namespace kiw {

namespace {

/// Readable parts of a completion. InfiniBand's addresses are all 0, as in ibv_poll_cq(). The time is CLOCK_REALTIME:
/// there is no device clock.
std::uint64_t readable(ibv_context *context)
{
	return IBV_WC_STANDARD_FLAGS | (Context::from(context).features & KIW_FEATURE_CQ_TIME
						       ? std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK}
						       : 0);
}

/// Makes the next completion current. Under the lock. Returns 0, ENOENT, or EIO if the ring is invalid.
int advance(Cq &cq)
{
	const std::uint32_t produced = cq.ring.produced();
	std::uint32_t index = cq.consumed;

	cq.current = nullptr;
	if (produced - index > cq.ring.entries()) [[unlikely]]
		return EIO;
	while (index != produced && (cq.ring.slot(index).flags & KIW_CQE_VOID))
		[[unlikely]] index++;
	if (index != cq.consumed) [[unlikely]] {
		cq.consumed = index;
		cq.ring.consume(index);
	}
	if (index == produced)
		return ENOENT;

	const kiw_cqe &cqe = cq.ring.slot(index);
	Qp::from_cookie(cqe.cookie).complete(cqe);
	cq.current = &cqe;
	cq.ex.wr_id = cqe.wr_id;
	cq.ex.status = wc_status(cqe.status);
	return 0;
}

void leave(Cq &cq)
{
	if (!cq.current)
		return;
	cq.current = nullptr;
	cq.ring.consume(++cq.consumed);
}

int start_poll(ibv_cq_ex *ex, ibv_poll_cq_attr *attr)
{
	Cq &cq = Cq::from(ex);

	if (attr->comp_mask) [[unlikely]]
		return EINVAL;
	if (cq.origin.inherited()) [[unlikely]]
		return EPERM;
	if (!cq.single_threaded)
		cq.lock.lock();
	const int error = advance(cq);
	const std::uint32_t idle = cq.idle = error ? cq.idle + 1 : 0;
	if (!error)
		return 0;
	if (!cq.single_threaded)
		cq.lock.unlock();
	if (error == ENOENT)
		Cq::found_nothing(idle);
	return error;
}

int next_poll(ibv_cq_ex *ex)
{
	Cq &cq = Cq::from(ex);

	leave(cq);
	return advance(cq);
}

void end_poll(ibv_cq_ex *ex)
{
	Cq &cq = Cq::from(ex);

	leave(cq);
	if (!cq.single_threaded)
		cq.lock.unlock();
}

const kiw_cqe &current(ibv_cq_ex *ex)
{
	return *Cq::from(ex).current;
}

/// Reads a value that iWARP's completions lack.
template <typename T>
T read_nothing(ibv_cq_ex *)
{
	return T{};
}

void set_readers(ibv_cq_ex &ex)
{
	ex.read_opcode = [](ibv_cq_ex *cq) {
		return wc_opcode(current(cq).opcode);
	};
	ex.read_vendor_err = read_nothing;
	ex.read_byte_len = [](ibv_cq_ex *cq) {
		return current(cq).byte_len;
	};
	// Also called by ibv_wc_read_invalidated_rkey().
	ex.read_imm_data = [](ibv_cq_ex *cq) -> __be32 {
		const kiw_cqe &cqe = current(cq);

		return cqe.flags & KIW_CQE_WITH_IMM ? cqe.imm : cqe.inv_stag;
	};
	ex.read_qp_num = [](ibv_cq_ex *cq) {
		return current(cq).qp_num;
	};
	ex.read_src_qp = [](ibv_cq_ex *cq) {
		return current(cq).src_qp;
	};
	ex.read_wc_flags = [](ibv_cq_ex *cq) {
		return wc_flags(current(cq));
	};
	ex.read_slid = read_nothing;
	ex.read_sl = read_nothing;
	ex.read_dlid_path_bits = read_nothing;
	ex.read_completion_wallclock_ns = [](ibv_cq_ex *cq) -> std::uint64_t {
		return current(cq).time;
	};
}

constexpr std::uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

/// Whether kiwarp supports all requested attributes.
bool has_all(ibv_context *context, const ibv_cq_init_attr_ex &attr)
{
	return !(attr.wc_flags & ~readable(context)) && !(attr.comp_mask & ~known) &&
	       !((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
		       (attr.flags & ~unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}));
}

/// The requested parent domain, if any. Returns 0 or an errno value.
int find_parent(ibv_context *context, const ibv_cq_init_attr_ex &attr, Domain *&parent)
{
	parent = nullptr;
	if (!(attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
		return 0;
	if (!attr.parent_domain || attr.parent_domain->context != context)
		return EINVAL;
	parent = &Domain::from(attr.parent_domain);
	return parent->protection ? adopt(attr.parent_domain) : EINVAL;
}

} // namespace

ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr)
{
	Domain *parent = nullptr;

	if (!has_all(context, *attr)) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (attr->cqe > INT32_MAX) {
		errno = EINVAL;
		return nullptr;
	}
	if (const int error = find_parent(context, *attr, parent)) {
		errno = error;
		return nullptr;
	}
	Owner<Cq> cq = make_cq(context, static_cast<int>(attr->cqe), attr->channel, static_cast<int>(attr->comp_vector),
		attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK ? KIW_CQ_TIME : 0);
	if (!cq)
		return nullptr;
	cq->single_threaded =
		(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	set_readers(cq->ex);
	cq->parent = parent;
	if (parent)
		parent->users++;
	return &cq.release()->ex;
}

} // namespace kiw
