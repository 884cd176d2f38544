// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "operations.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <pthread.h>

#include "device.hpp"
#include "objects.hpp"
#include "provider/cq.hpp"
#include "provider/domain.hpp"
#include "provider/mw.hpp"
#include "provider/qp.hpp"
#include "provider/srq.hpp"

namespace kiwu {

namespace {

template <typename Object>
Object *fail(int error)
{
	errno = error;
	return nullptr;
}

/// A poll in vain looks after the queue pairs first.
int poll_cq(ibv_cq *cq, int most, ibv_wc *wc)
{
	const int found = kiw::poll_cq(cq, most, wc);

	if (found != 0 || !progress(of(cq)))
		return found;
	return kiw::poll_cq(cq, most, wc);
}

int req_notify_cq(ibv_cq *cq, int solicited_only)
{
	const int error = kiw::req_notify_cq(cq, solicited_only);

	if (!error)
		armed(of(cq));
	return error;
}

/// As poll_cq() for the polls of ibv_cq_ex: the provider's function is kept beside the queue.
int start_poll(ibv_cq_ex *ex, ibv_poll_cq_attr *attr)
{
	if (kiw::Cq::from(ex).origin.inherited())
		return EPERM;
	kiw_cq &cq = of(ibv_cq_ex_to_cq(ex));
	const int error = cq.start_poll(ex, attr);

	if (error != ENOENT || !progress(cq))
		return error;
	return cq.start_poll(ex, attr);
}

ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr)
{
	if ((attr->channel && attr->channel->context != context) ||
		((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && attr->parent_domain &&
			attr->parent_domain->context != context))
		return fail<ibv_cq_ex>(EINVAL);
	ibv_cq_ex *ex = kiw::create_cq_ex(context, attr);
	if (!ex)
		return nullptr;
	ibv_cq &cq = *ibv_cq_ex_to_cq(ex);
	init_cq(cq, context, attr->channel, attr->cq_context);
	of(&cq).start_poll = ex->start_poll;
	ex->start_poll = start_poll;
	return ex;
}

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *input, ibv_device_attr_ex *attr, std::size_t size)
{
	if (input && input->comp_mask)
		return EINVAL;
	std::memset(static_cast<void *>(attr), 0, size);
	query_device(*attr, size);
	return 0;
}

int query_port_ex(ibv_context *, std::uint8_t port, ibv_port_attr *attr, std::size_t size)
{
	if (port != 1)
		return EINVAL;
	query_port(*attr, size);
	return 0;
}

ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr)
{
	ibv_srq_init_attr plain{};

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context)
		return fail<ibv_srq>(EINVAL);
	if ((attr->comp_mask & ~std::uint32_t{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE}) ||
		((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC))
		return fail<ibv_srq>(EOPNOTSUPP);
	plain.srq_context = attr->srq_context;
	plain.attr = attr->attr;
	ibv_srq *srq = kiw::create_srq(attr->pd, &plain);
	if (srq)
		attr->attr = plain.attr;
	return srq;
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context ||
		(attr->send_cq && attr->send_cq->context != context) ||
		(attr->recv_cq && attr->recv_cq->context != context) || (attr->srq && attr->srq->context != context))
		return fail<ibv_qp>(EINVAL);
	return kiw::create_qp_ex(context, attr);
}

ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr)
{
	if ((attr->pd && attr->pd->context != context) || (attr->td && attr->td->context != context))
		return fail<ibv_pd>(EINVAL);
	return kiw::alloc_parent_domain(context, attr);
}

} // namespace

void init_cq(ibv_cq &cq, ibv_context *context, ibv_comp_channel *channel, void *cq_context)
{
	cq.context = context;
	cq.channel = channel;
	cq.cq_context = cq_context;
	cq.comp_events_completed = 0;
	cq.async_events_completed = 0;
	::pthread_mutex_init(&cq.mutex, nullptr);
	::pthread_cond_init(&cq.cond, nullptr);
	if (channel) {
		::pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		::pthread_mutex_unlock(&context->mutex);
	}
}

/// libibverbs' part of a context, in the place that the provider keeps for it
void set_operations(ibv_context *context)
{
	static_assert(offsetof(verbs_context, context) <= kiw::pabi::context_front);
	auto *extended = reinterpret_cast<verbs_context *>(
		reinterpret_cast<std::byte *>(context) - offsetof(verbs_context, context));

	extended->sz = sizeof(verbs_context);
	extended->query_port = query_port_ex;
	extended->query_device_ex = query_device_ex;
	extended->create_cq_ex = create_cq_ex;
	extended->create_qp_ex = create_qp_ex;
	extended->create_srq_ex = create_srq_ex;
	extended->modify_cq = kiw::modify_cq;
	extended->alloc_parent_domain = kiwu::alloc_parent_domain;
	extended->alloc_td = kiw::alloc_td;
	extended->dealloc_td = kiw::dealloc_td;
	context->ops.alloc_mw = kiw::alloc_mw;
	context->ops.bind_mw = kiw::bind_mw;
	context->ops.dealloc_mw = kiw::dealloc_mw;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_send = kiw::post_send;
	context->ops.post_recv = kiw::post_recv;
	context->ops.post_srq_recv = kiw::post_srq_recv;
}

} // namespace kiwu
