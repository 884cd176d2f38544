// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cq.hpp"

#include <cerrno>
#include <cstddef>
#include <sched.h>

#include "context.hpp"
#include "domain.hpp"
#include "inheritance.hpp"
#include "opcodes.hpp"
#include "private_abi.hpp"
#include "qp.hpp"

namespace kiw {

namespace {

static_assert(offsetof(Cq, ibv) == 0 && offsetof(Cq, ex) == 0);

/// Empty polls in a row, 10 to 20 us of them, before yielding the CPU
constexpr std::uint32_t patience = 1024;

ibv_wc translate(const kiw_cqe &cqe)
{
	ibv_wc wc{};

	wc.wr_id = cqe.wr_id;
	wc.status = wc_status(cqe.status);
	wc.opcode = wc_opcode(cqe.opcode);
	wc.byte_len = cqe.byte_len;
	wc.qp_num = cqe.qp_num;
	wc.wc_flags = wc_flags(cqe);
	if ((wc.wc_flags & IBV_WC_GRH) || cqe.opcode == KIW_WR_RECORD)
		wc.src_qp = cqe.src_qp;
	// Both use one place of ibv_wc, and never come together.
	if (wc.wc_flags & IBV_WC_WITH_INV)
		wc.invalidated_rkey = cqe.inv_stag;
	else if (wc.wc_flags & IBV_WC_WITH_IMM)
		wc.imm_data = cqe.imm;
	return wc;
}

/// As poll_cq. Sets idle to the number of empty polls in a row.
int take(Cq &cq, int max, ibv_wc *wc, std::uint32_t &idle)
{
	Guard guard(cq.lock);
	const std::uint32_t produced = cq.ring.produced();
	std::uint32_t index = cq.consumed;
	int found = 0;

	if (produced - index > cq.ring.entries()) [[unlikely]]
		return -EIO;
	for (; index != produced && found < max; index++) {
		const kiw_cqe &cqe = cq.ring.slot(index);

		if (cqe.flags & KIW_CQE_VOID) [[unlikely]]
			continue;
		Qp::from_cookie(cqe.cookie).complete(cqe);
		wc[found++] = translate(cqe);
	}
	if (index != cq.consumed) {
		cq.consumed = index;
		cq.ring.consume(index);
	}
	idle = cq.idle = found ? 0 : cq.idle + 1;
	return found;
}

/// Makes a CQ with a channel by a command. In a child the channel may be of the parent's file: inherited, or made
/// before the context was the child's own. Returns 0 or an errno value.
template <typename Command>
int with_channel(const Context &context, ibv_comp_channel *channel, const Command &create)
{
	int error = create();

	if (error != EBADF || !channel || !context.adopted)
		return error;
	Guard guard(Origin::heirs());
	error = create(); // another thread may have been faster
	if (error != EBADF)
		return error;
	error = adopt(channel);
	return error ? error : create();
}

} // namespace

Owner<Cq> make_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, std::uint32_t flags)
{
	pabi::RequestWith<sizeof(pabi::CreateCq), kiw_create_cq_req> request{};
	pabi::Response<8, kiw_create_cq_resp> response{};
	int error = adopt(Context::from(context));

	if (error) {
		errno = error;
		return {};
	}
	Owner<Cq> cq = make<Cq>();
	if (!cq) {
		errno = ENOMEM;
		return {};
	}
	request.own.flags = flags;
	error = with_channel(Context::from(context), channel, [&] {
		return ibv_cmd_create_cq(context, cqe, channel, comp_vector, &cq->ibv, &request, sizeof(request),
			&response, sizeof(response));
	});
	if (error) {
		errno = error;
		return {};
	}

	cq->origin = Context::from(context).origin;
	error = cq->ring.open(Context::from(context).mappings, context->cmd_fd, response.own.ring,
		static_cast<std::uint32_t>(cq->ibv.cqe), sizeof(kiw_cqe));
	if (error) {
		ibv_cmd_destroy_cq(&cq->ibv);
		errno = error;
		return {};
	}
	return cq;
}

ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector)
{
	Owner<Cq> cq = make_cq(context, cqe, channel, comp_vector);

	return cq ? &cq.release()->ibv : nullptr;
}

int resize_cq(ibv_cq *ibv, int cqe)
{
	pabi::ResizeCq request{};
	pabi::Response<8, kiw_resize_cq_resp> response{};
	Cq &cq = Cq::from(ibv);
	Context &context = Context::from(ibv->context);

	if (cq.origin.inherited())
		return EPERM;
	// Excludes polling and arming by other threads.
	Guard guard(cq.lock);
	Guard arming(cq.arming);
	if (const int error = ibv_cmd_resize_cq(ibv, cqe, &request, sizeof(request), &response, sizeof(response)))
		return error;
	CompletionRing ring;
	const int error = ring.open(context.mappings, ibv->context->cmd_fd, response.own.ring,
		static_cast<std::uint32_t>(cqe), sizeof(kiw_cqe));
	// The kernel dropped the old ring.
	if (error)
		cq.consumed = ring.become_useless();
	cq.ring.swap(ring);
	return error;
}

int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr)
{
	pabi::ModifyCq request{};

	if (Cq::from(cq).origin.inherited())
		return EPERM;
	return ibv_cmd_modify_cq(cq, attr, &request, sizeof(request));
}

int destroy_cq(ibv_cq *cq)
{
	if (Cq::from(cq).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_destroy_cq(cq))
		return error;
	if (Cq::from(cq).parent)
		Cq::from(cq).parent->users--;
	destroy(&Cq::from(cq));
	return 0;
}

int poll_cq(ibv_cq *cq, int max, ibv_wc *wc)
{
	if (Cq::from(cq).origin.inherited()) [[unlikely]]
		return -EPERM;
	std::uint32_t idle = 0;
	const int found = take(Cq::from(cq), max, wc, idle);

	if (found == 0)
		Cq::found_nothing(idle);
	return found;
}

int req_notify_cq(ibv_cq *cq, int solicited_only)
{
	if (Cq::from(cq).origin.inherited()) [[unlikely]]
		return EPERM;
	Guard guard(Cq::from(cq).arming);
	Cq::from(cq).ring.arm(solicited_only);
	return 0;
}

void Cq::found_nothing(std::uint32_t idle)
{
	if (idle % patience == 0)
		sched_yield();
}

void Cq::forget(const Qp &qp)
{
	Guard guard(lock);
	const std::uint32_t produced = ring.produced();

	if (produced - consumed > ring.entries())
		return;
	for (std::uint32_t index = consumed; index != produced; index++) {
		kiw_cqe &cqe = ring.slot(index);

		if (cqe.cookie == qp.cookie())
			cqe.flags |= KIW_CQE_VOID;
	}
	// Without a lock, the slot between ibv_start_poll() and ibv_end_poll() must stay. The poll skips marked slots
	// later.
	if (!current)
		compact(produced);
}

bool Cq::is_wanted(std::uint32_t index) const
{
	if (!(ring.slot(index).flags & KIW_CQE_VOID))
		return true;
	// Second slot of a record
	if (index == consumed)
		return false;
	const kiw_cqe &before = ring.slot(index - 1);
	return before.opcode == KIW_WR_RECORD && !(before.flags & KIW_CQE_VOID);
}

void Cq::compact(std::uint32_t produced)
{
	std::uint32_t to = produced;

	// Backwards: is_wanted() needs earlier slots in place.
	for (std::uint32_t index = produced; index-- != consumed;)
		if (is_wanted(index) && --to != index)
			ring.slot(to) = ring.slot(index);
	if (to == consumed)
		return;
	consumed = to;
	ring.consume(to);
}

} // namespace kiw
