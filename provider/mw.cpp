// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mw.hpp"

#include <cerrno>
#include <cstddef>

#include "context.hpp"
#include "domain.hpp"
#include "memory.hpp"
#include "opcodes.hpp"
#include "origin.hpp"
#include "posting.hpp"
#include "private_abi.hpp"

namespace kiw {

namespace {

struct Window {
	ibv_mw ibv;
	Origin origin;

	static Window &from(ibv_mw *mw) { return *reinterpret_cast<Window *>(mw); }
};

static_assert(offsetof(Window, ibv) == 0);

} // namespace

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type)
{
	pabi::AllocMw request{};
	ib_uverbs_alloc_mw_resp response{};
	const Context &context = Context::from(pd->context);

	if (const int error = adopt(pd)) {
		errno = error;
		return nullptr;
	}
	if (!(context.features & KIW_FEATURE_MW)) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (number_of(type) != IBV_MW_TYPE_1 && number_of(type) != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return nullptr;
	}
	Owner<Window> window = make<Window>();
	if (!window) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int error = ibv_cmd_alloc_mw(
		    pd, type, &window->ibv, &request, sizeof(request), &response, sizeof(response))) {
		errno = error;
		return nullptr;
	}
	window->origin = context.origin;
	return &window.release()->ibv;
}

int dealloc_mw(ibv_mw *mw)
{
	if (Window::from(mw).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_dealloc_mw(mw))
		return error;
	destroy(&Window::from(mw));
	return 0;
}

int bind_mw(ibv_qp *ibv, ibv_mw *mw, ibv_mw_bind *bind)
{
	Qp &qp = Qp::from(ibv);
	const SendOpcode &row = *send_opcode(IBV_WR_BIND_MW);
	const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);

	if (qp.origin.inherited() || Window::from(mw).origin.inherited())
		return EPERM;
	if (qp.is_datagram() || (bind->send_flags & ~row.flags) ||
		!can_bind(qp, *mw, IBV_MW_TYPE_1, rkey, bind->bind_info))
		return EINVAL;
	if (const int error = check_connected(qp))
		return error;

	qp.sq.lock_to_post();
	if (!qp.sq.has_room(qp.sq.next)) {
		qp.sq.lock.unlock();
		return ENOMEM;
	}
	kiw_wqe &wqe = *reinterpret_cast<kiw_wqe *>(qp.sq.ring.slot(qp.sq.next));
	wqe = {};
	wqe.opcode = row.op;
	wqe.flags = slot_flags(bind->send_flags & ~row.ignored, qp.signal_all);
	wqe.wr_id = bind->wr_id;
	write_bind(qp, wqe, rkey, bind->bind_info);
	int refused = 0;
	if (publish_sends(qp, qp.sq.next + 1, refused) != 1)
		return refused;
	mw->rkey = rkey;
	return 0;
}

} // namespace kiw
