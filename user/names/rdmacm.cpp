// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The public names of librdmacm.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <netdb.h>

#include "device.hpp"
#include "id.hpp"
#include "limits.hpp"
#include "memory.hpp"
#include "names.hpp"
#include "sys.hpp"

using namespace kiwu;

namespace {

int result(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

/// An identifier without a channel of the program's waits for what it asked for. Returns 0 or an errno value.
int complete(Id &id)
{
	if (!id.synchronous)
		return 0;
	if (id.ibv.event) {
		rdma_ack_cm_event(id.ibv.event);
		id.ibv.event = nullptr;
	}
	if (rdma_get_cm_event(id.ibv.channel, &id.ibv.event))
		return errno;
	const rdma_cm_event &event = *id.ibv.event;
	// As librdmacm translates it
	if (!event.status)
		return 0;
	return event.event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : -event.status;
}

int adapt_depth(std::uint8_t wanted, std::uint8_t otherwise, std::uint16_t &depth)
{
	if (wanted == UINT8_MAX)
		depth = std::min<std::uint16_t>(otherwise, limits::rd_atom);
	else if (wanted > limits::rd_atom)
		return EINVAL;
	else
		depth = wanted;
	return 0;
}

/// What a program asks for. Those of its depths that it leaves open are as given here.
int want(const Id &id, const rdma_conn_param *param, std::uint8_t initiator_depth, std::uint8_t responder_resources,
	Wanted &wanted)
{
	if (!param) {
		wanted.ord = std::min<std::uint16_t>(initiator_depth, limits::rd_atom);
		wanted.ird = std::min<std::uint16_t>(responder_resources, limits::rd_atom);
		wanted.private_data = id.connect_data;
		wanted.length = id.connect_length;
		return 0;
	}
	if (adapt_depth(param->initiator_depth, initiator_depth, wanted.ord) ||
		adapt_depth(param->responder_resources, responder_resources, wanted.ird))
		return EINVAL;
	wanted.private_data = param->private_data;
	wanted.length = param->private_data ? param->private_data_len : 0;
	return 0;
}

Qp *qp_of(const Id &id, const rdma_conn_param *param)
{
	if (id.ibv.qp)
		return find_qp(id.ibv.qp->handle);
	return param ? find_qp(param->qp_num) : nullptr;
}

void modify_to_error(rdma_cm_id *id)
{
	ibv_qp_attr attr{};

	if (!id->qp)
		return;
	attr.qp_state = IBV_QPS_ERR;
	ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
}

ibv_comp_channel *own_channel(rdma_cm_id *id, ibv_comp_channel *&channel)
{
	if (!channel)
		channel = ibv_create_comp_channel(id->verbs);
	return channel;
}

int create_cq(rdma_cm_id *id, std::uint32_t entries, ibv_comp_channel *&channel, ibv_cq *&cq)
{
	if (!own_channel(id, channel))
		return errno;
	cq = ibv_create_cq(id->verbs, static_cast<int>(std::max(entries, 1U)), id, channel, 0);
	return cq ? 0 : errno;
}

void destroy_cqs(rdma_cm_id *id)
{
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	if (id->recv_cq) {
		ibv_destroy_cq(id->recv_cq);
		if (id->send_cq && id->send_cq != id->recv_cq)
			ibv_destroy_cq(id->send_cq);
	} else if (id->send_cq) {
		ibv_destroy_cq(id->send_cq);
	}
	id->send_cq = id->recv_cq = nullptr;
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->send_cq_channel = id->recv_cq_channel = nullptr;
}

bool make_synchronous(Id &id)
{
	rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		return false;
	id.report_to(EventChannel::from(channel));
	id.synchronous = true;
	return true;
}

/// A socket address of the caller's in memory of its own; nullptr and length 0 if there is none.
int copy_address(const sockaddr *from, socklen_t length, sockaddr *&to, socklen_t &to_length)
{
	to = nullptr;
	to_length = 0;
	if (!from || !length)
		return 0;
	to = static_cast<sockaddr *>(std::malloc(length));
	if (!to)
		return ENOMEM;
	std::memcpy(to, from, length);
	to_length = length;
	return 0;
}

} // namespace

// --- channels and events --------------------------------------------------------------------------

KIW_NAME rdma_event_channel *rdma_create_event_channel()
{
	ibv_context *context = nullptr;
	ibv_pd *pd = nullptr;
	int error = cm_device(context, pd);
	EventChannel *channel = error ? nullptr : EventChannel::make(error);

	if (!channel) {
		errno = error;
		return nullptr;
	}
	return &channel->ibv;
}

KIW_NAME void rdma_destroy_event_channel(rdma_event_channel *channel)
{
	EventChannel &going = EventChannel::from(channel);

	if (going.origin.inherited())
		return;
	going.await_fetcher();
	going.end();
}

/// For a thread that is cancelled in rdma_get_cm_event()
static void leave_channel(void *channel)
{
	static_cast<EventChannel *>(channel)->put();
}

KIW_NAME int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event)
{
	Event *taken = nullptr;
	int error = 0;

	if (!event)
		return result(EINVAL);
	if (EventChannel::from(channel).origin.inherited())
		return result(EPERM);
	EventChannel *from = EventChannel::enter(channel);
	if (!from)
		return result(EBADF);
	const auto count = [](Event &told) {
		CmEvent::from(told).of->events_fetched++;
	};
	from->looking.store(true, std::memory_order_relaxed);
	pthread_cleanup_push(leave_channel, from);
	error = from->queue.take(taken, count);
	pthread_cleanup_pop(0);
	if (!error) {
		from->fetcher.store(sys::gettid(), std::memory_order_relaxed);
		from->looking.store(false, std::memory_order_relaxed);
	}
	from->put();
	if (error)
		return result(error);
	CmEvent &fetched = CmEvent::from(*taken);
	Id &of = *fetched.of;
	*event = &fetched.told;
	if (fetched.told.event == RDMA_CM_EVENT_REJECTED)
		modify_to_error(fetched.told.id);
	else if (fetched.told.event == RDMA_CM_EVENT_CONNECT_REQUEST && of.synchronous &&
		 rdma_migrate_id(fetched.told.id, nullptr))
		fetched.told.status = -ENOMEM;
	return 0;
}

KIW_NAME int rdma_ack_cm_event(rdma_cm_event *event)
{
	if (!event)
		return result(EINVAL);
	CmEvent &acked = CmEvent::from(event);
	Id &of = *acked.of;
	if (of.origin.inherited())
		return result(EPERM);
	kiw::destroy(&acked);
	::pthread_mutex_lock(&of.mutex);
	of.events_acked++;
	::pthread_cond_signal(&of.acknowledged);
	::pthread_mutex_unlock(&of.mutex);
	return 0;
}

KIW_NAME int rdma_migrate_id(rdma_cm_id *ibv, rdma_event_channel *channel)
{
	Id &id = Id::from(ibv);
	const bool synchronous = !channel;

	if (id.origin.inherited() || (channel && EventChannel::from(channel).origin.inherited()))
		return result(EPERM);
	if (synchronous && !(channel = rdma_create_event_channel()))
		return -1;
	EventChannel *to = EventChannel::enter(channel);
	if (!to)
		return result(EBADF);
	EventChannel &before = id.channel();
	before.get();
	{
		kiw::Guard guard(id.telling);

		id.report_to(*to);
		// Those that weren't fetched move as well.
		before.queue.drop([&](Event &event) { return CmEvent::from(event).of == &id; },
			[&](Event &event) {
				// A request that wasn't fetched reports where its listener does.
				if (Id &child = Id::from(CmEvent::from(event).told.id); &child != &id) {
					kiw::Guard child_guard(child.telling);

					child.report_to(*to);
				}
				to->queue.add(event);
			});
	}
	to->put();
	if (id.synchronous) {
		if (ibv->event) {
			rdma_ack_cm_event(ibv->event);
			ibv->event = nullptr;
		}
		before.end();
	}
	before.put();
	id.synchronous = synchronous;
	// Nobody reads the old channel for it any more.
	::pthread_mutex_lock(&id.mutex);
	while (id.events_acked != id.events_fetched)
		::pthread_cond_wait(&id.acknowledged, &id.mutex);
	::pthread_mutex_unlock(&id.mutex);
	return 0;
}

// --- identifiers ----------------------------------------------------------------------------------

static int create_id(
	rdma_event_channel *channel, rdma_cm_id **id, void *context, rdma_port_space space, ibv_qp_type type)
{
	ibv_context *device_context = nullptr;
	ibv_pd *pd = nullptr;

	if (const int error = cm_device(device_context, pd))
		return result(error);
	// Datagrams aren't this device's yet.
	if (space != RDMA_PS_TCP)
		return result(EOPNOTSUPP);
	if (channel && EventChannel::from(channel).origin.inherited())
		return result(EPERM);
	EventChannel *entered = channel ? EventChannel::enter(channel) : nullptr;
	if (channel && !entered)
		return result(EBADF);
	Id *made = Id::make(context, space, type);
	int error = made ? 0 : ENOMEM;
	if (made && entered)
		made->report_to(*entered);
	else if (made && !make_synchronous(*made))
		error = errno;
	if (entered)
		entered->put();
	if (!error) {
		*id = &made->ibv;
		return 0;
	}
	if (made)
		kiw::destroy(made);
	return result(error);
}

KIW_NAME int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *context, rdma_port_space space)
{
	return create_id(channel, id, context, space, IBV_QPT_RC);
}

KIW_NAME int rdma_destroy_id(rdma_cm_id *ibv)
{
	Id &id = Id::from(ibv);

	if (id.origin.inherited())
		return result(EPERM);
	if (ibv->event) {
		rdma_ack_cm_event(ibv->event);
		ibv->event = nullptr;
	}
	// A channel of its own goes with it.
	if (id.synchronous)
		id.channel().end();
	id.end();
	return 0;
}

KIW_NAME int rdma_bind_addr(rdma_cm_id *ibv, sockaddr *address)
{
	Id &id = Id::from(ibv);

	if (id.origin.inherited())
		return result(EPERM);
	Turn turn(id.lock);
	return result(id.bind(address));
}

KIW_NAME int rdma_resolve_addr(rdma_cm_id *ibv, sockaddr *source, sockaddr *destination, int)
{
	Id &id = Id::from(ibv);
	int error = 0;

	if (id.origin.inherited())
		return result(EPERM);
	{
		Turn turn(id.lock);

		error = id.resolve(source, destination);
	}
	return result(error ? error : complete(id));
}

KIW_NAME int rdma_resolve_route(rdma_cm_id *ibv, int)
{
	Id &id = Id::from(ibv);
	int error = 0;

	if (id.origin.inherited())
		return result(EPERM);
	{
		Turn turn(id.lock);

		if (id.state != Id::State::addr_resolved)
			error = EINVAL;
		else if (!id.tell(RDMA_CM_EVENT_ROUTE_RESOLVED, 0))
			error = ENOMEM;
		else
			id.state = Id::State::route_resolved;
	}
	return result(error ? error : complete(id));
}

KIW_NAME int rdma_connect(rdma_cm_id *ibv, rdma_conn_param *param)
{
	Id &id = Id::from(ibv);
	Wanted wanted;

	if (id.origin.inherited())
		return result(EPERM);
	int error = !ibv->qp && !param ? EINVAL : want(id, param, limits::rd_atom, limits::rd_atom, wanted);
	if (!error) {
		Turn turn(id.lock);
		Address remote;
		Qp *qp = qp_of(id, param);

		if (id.state != Id::State::route_resolved || !qp || !remote.set(&ibv->route.addr.dst_addr))
			error = EINVAL;
		else
			error = Endpoint::connect(&id, *qp, id.socket, id.source, remote, wanted, id.endpoint);
		if (!error) {
			id.socket = -1;
			id.state = Id::State::connect;
		}
	}
	return result(error ? error : complete(id));
}

KIW_NAME int rdma_listen(rdma_cm_id *ibv, int backlog)
{
	constexpr int most = 1024, on = 1;
	Id &id = Id::from(ibv);

	if (id.origin.inherited())
		return result(EPERM);
	Turn turn(id.lock);
	int error = 0;
	if (id.state == Id::State::idle) {
		Address any;

		any.v4.sin_family = AF_INET;
		error = id.bind(&any.any);
	}
	if (!error && id.state != Id::State::bound)
		error = EINVAL;
	if (!error) {
		// Those that it accepts are no obstacle for the next listener.
		sys::set(id.socket, SOL_SOCKET, SO_REUSEADDR, on);
		error = Listener::open(&id, id.socket, backlog <= 0 || backlog > most ? most : backlog,
			Endpoint::serve<>, id.listener);
	}
	if (!error) {
		id.socket = -1;
		id.state = Id::State::listen;
	}
	return result(error);
}

KIW_NAME int rdma_accept(rdma_cm_id *ibv, rdma_conn_param *param)
{
	Id &id = Id::from(ibv);
	Wanted wanted;

	if (id.origin.inherited())
		return result(EPERM);
	int error = want(id, param, id.initiator_depth, id.responder_resources, wanted);

	if (!error) {
		Turn turn(id.lock);
		Qp *qp = qp_of(id, param);

		error = id.endpoint && qp ? id.endpoint->accept(*qp, wanted) : EINVAL;
	}
	return result(error ? error : complete(id));
}

KIW_NAME int rdma_reject(rdma_cm_id *ibv, const void *private_data, std::uint8_t length)
{
	Id &id = Id::from(ibv);

	if (id.origin.inherited())
		return result(EPERM);
	Turn turn(id.lock);
	if (!id.endpoint)
		return result(EINVAL);
	return result(id.endpoint->reject(private_data, private_data ? length : 0));
}

KIW_NAME int rdma_reject_ece(rdma_cm_id *, const void *, std::uint8_t)
{
	return result(EOPNOTSUPP);
}

KIW_NAME int rdma_disconnect(rdma_cm_id *ibv)
{
	Id &id = Id::from(ibv);
	Endpoint *endpoint = nullptr;

	if (id.origin.inherited())
		return result(EPERM);
	{
		Turn turn(id.lock);

		endpoint = id.endpoint;
	}
	if (!endpoint)
		return result(EINVAL);
	endpoint->disconnect();
	return result(complete(id));
}

KIW_NAME int rdma_notify(rdma_cm_id *, ibv_event_type)
{
	return 0;
}

KIW_NAME int rdma_establish(rdma_cm_id *)
{
	return result(EINVAL);
}

KIW_NAME int rdma_set_option(rdma_cm_id *ibv, int level, int option, void *value, std::size_t length)
{
	Id &id = Id::from(ibv);

	if (id.origin.inherited())
		return result(EPERM);
	Turn turn(id.lock);
	int number = 0;
	if (level != RDMA_OPTION_ID)
		return result(ENOSYS);
	if (!value)
		return result(EFAULT);
	switch (option) {
	case RDMA_OPTION_ID_TOS:
		if (length != sizeof(std::uint8_t))
			return result(EINVAL);
		std::memcpy(&id.tos, value, sizeof(id.tos));
		id.tos_set = true;
		if (id.socket >= 0) {
			const int tos = id.tos;

			sys::set(id.socket, IPPROTO_IP, IP_TOS, tos);
			if (id.source.any.sa_family == AF_INET6)
				sys::set(id.socket, IPPROTO_IPV6, IPV6_TCLASS, tos);
		}
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (length != sizeof(number))
			return result(EINVAL);
		if (id.state != Id::State::idle && option == RDMA_OPTION_ID_AFONLY)
			return result(EINVAL);
		std::memcpy(&number, value, sizeof(number));
		(option == RDMA_OPTION_ID_AFONLY ? id.af_only : id.reuse) = number;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		// TCP has its own.
		return length == sizeof(std::uint8_t) ? 0 : result(EINVAL);
	default:
		return result(ENOSYS);
	}
}

KIW_NAME __be16 rdma_get_src_port(rdma_cm_id *id)
{
	return id->route.addr.src_addr.sa_family == AF_INET6 ? id->route.addr.src_sin6.sin6_port
							     : id->route.addr.src_sin.sin_port;
}

KIW_NAME __be16 rdma_get_dst_port(rdma_cm_id *id)
{
	return id->route.addr.dst_addr.sa_family == AF_INET6 ? id->route.addr.dst_sin6.sin6_port
							     : id->route.addr.dst_sin.sin_port;
}

// --- queue pairs ----------------------------------------------------------------------------------

KIW_NAME int rdma_create_qp_ex(rdma_cm_id *id, ibv_qp_init_attr_ex *attr)
{
	ibv_qp_attr to_init{};
	int error = 0;

	if (Id::from(id).origin.inherited())
		return result(EPERM);
	if (!id->verbs || id->qp)
		return result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (!attr->pd || attr->pd->context != id->verbs) {
		return result(EINVAL);
	}
	if (!attr->recv_cq)
		error = create_cq(id, attr->cap.max_recv_wr, id->recv_cq_channel, id->recv_cq);
	if (!error && !attr->send_cq)
		error = create_cq(id, attr->cap.max_send_wr, id->send_cq_channel, id->send_cq);
	if (!error) {
		if (!attr->send_cq)
			attr->send_cq = id->send_cq;
		if (!attr->recv_cq)
			attr->recv_cq = id->recv_cq;
		if (id->srq && !attr->srq)
			attr->srq = id->srq;
		id->qp = ibv_create_qp_ex(id->verbs, attr);
		error = id->qp ? 0 : errno;
	}
	if (!error) {
		to_init.qp_state = IBV_QPS_INIT;
		error = ibv_modify_qp(id->qp, &to_init, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
		if (error) {
			ibv_destroy_qp(id->qp);
			id->qp = nullptr;
		}
	}
	if (!error) {
		id->pd = attr->pd;
		return 0;
	}
	destroy_cqs(id);
	return result(error);
}

KIW_NAME int rdma_create_qp(rdma_cm_id *id, ibv_pd *pd, ibv_qp_init_attr *attr)
{
	ibv_qp_init_attr_ex extended{};

	std::memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_QP_INIT_ATTR_PD;
	extended.pd = pd ? pd : id->pd;
	const int failed = rdma_create_qp_ex(id, &extended);
	std::memcpy(attr, &extended, sizeof(*attr));
	return failed;
}

KIW_NAME void rdma_destroy_qp(rdma_cm_id *id)
{
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = nullptr;
	destroy_cqs(id);
}

KIW_NAME int rdma_create_srq_ex(rdma_cm_id *id, ibv_srq_init_attr_ex *attr)
{
	ibv_srq_init_attr plain{};

	if (!id->verbs || id->srq)
		return result(EINVAL);
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)
		return result(EOPNOTSUPP);
	plain.srq_context = attr->srq_context;
	plain.attr = attr->attr;
	ibv_pd *pd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) && attr->pd ? attr->pd : id->pd;
	if (pd->context != id->verbs)
		return result(EINVAL);
	id->srq = ibv_create_srq(pd, &plain);
	if (!id->srq)
		return -1;
	attr->attr = plain.attr;
	if (!id->pd)
		id->pd = pd;
	return 0;
}

KIW_NAME int rdma_create_srq(rdma_cm_id *id, ibv_pd *pd, ibv_srq_init_attr *attr)
{
	ibv_srq_init_attr_ex extended{};

	std::memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	extended.srq_type = IBV_SRQT_BASIC;
	extended.pd = pd;
	const int failed = rdma_create_srq_ex(id, &extended);
	std::memcpy(attr, &extended, sizeof(*attr));
	return failed;
}

KIW_NAME void rdma_destroy_srq(rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = nullptr;
}

KIW_NAME int rdma_init_qp_attr(rdma_cm_id *ibv, ibv_qp_attr *attr, int *mask)
{
	const ibv_qp_state state = attr->qp_state;

	if (!ibv->verbs)
		return result(EINVAL);
	*attr = {};
	attr->qp_state = state;
	*mask = 0;
	if (state != IBV_QPS_INIT && state != IBV_QPS_RTR)
		return state == IBV_QPS_RTS ? 0 : result(EINVAL);
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
	// As iw_cm says it of a connection, and rdma_cm before there is one
	if (Id::from(ibv).endpoint)
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	if (state == IBV_QPS_INIT) {
		attr->port_num = ibv->port_num;
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	}
	return 0;
}

// --- for synchronous programs ---------------------------------------------------------------------

KIW_NAME int rdma_create_ep(rdma_cm_id **id, rdma_addrinfo *res, ibv_pd *pd, ibv_qp_init_attr *qp_init_attr)
{
	rdma_cm_id *ibv = nullptr;

	if (create_id(nullptr, &ibv, nullptr, static_cast<rdma_port_space>(res->ai_port_space),
		    static_cast<ibv_qp_type>(res->ai_qp_type)))
		return -1;
	Id &made = Id::from(ibv);
	int failed = 0;
	if (res->ai_flags & RAI_PASSIVE) {
		failed = rdma_bind_addr(ibv, res->ai_src_addr);
		if (!failed && qp_init_attr) {
			made.qp_init_attr = static_cast<ibv_qp_init_attr *>(std::malloc(sizeof(*qp_init_attr)));
			if (made.qp_init_attr) {
				*made.qp_init_attr = *qp_init_attr;
				made.qp_init_attr->qp_type = static_cast<ibv_qp_type>(res->ai_qp_type);
			} else {
				failed = result(ENOMEM);
			}
			if (pd)
				ibv->pd = pd;
		}
	} else {
		failed = rdma_resolve_addr(ibv, res->ai_src_addr, res->ai_dst_addr, 2000) ||
			 rdma_resolve_route(ibv, 2000);
		if (!failed && qp_init_attr) {
			qp_init_attr->qp_type = static_cast<ibv_qp_type>(res->ai_qp_type);
			failed = rdma_create_qp(ibv, pd, qp_init_attr);
		}
		if (!failed && res->ai_connect_len && res->ai_connect_len <= UINT8_MAX) {
			made.connect_data = std::malloc(res->ai_connect_len);
			if (made.connect_data) {
				std::memcpy(made.connect_data, res->ai_connect, res->ai_connect_len);
				made.connect_length = static_cast<std::uint8_t>(res->ai_connect_len);
			} else {
				failed = result(ENOMEM);
			}
		}
	}
	if (failed) {
		const int error = errno;

		rdma_destroy_ep(ibv);
		errno = error;
		return -1;
	}
	*id = ibv;
	return 0;
}

KIW_NAME void rdma_destroy_ep(rdma_cm_id *id)
{
	if (Id::from(id).origin.inherited())
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

KIW_NAME int rdma_get_request(rdma_cm_id *listen, rdma_cm_id **id)
{
	Id &parent = Id::from(listen);
	rdma_cm_event *event = nullptr;
	int error = 0;

	if (!parent.synchronous)
		return result(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = nullptr;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->status)
		error = -event->status;
	else if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		error = EINVAL;
	if (!error && parent.qp_init_attr) {
		ibv_qp_init_attr attr = *parent.qp_init_attr;

		if (rdma_create_qp(event->id, listen->pd, &attr))
			error = errno;
	}
	if (error) {
		listen->event = event;
		return result(error);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}

KIW_NAME ibv_context **rdma_get_devices(int *count)
{
	ibv_context *context = nullptr;
	ibv_pd *pd = nullptr;

	if (const int error = cm_device(context, pd)) {
		errno = error;
		return nullptr;
	}
	auto **list = static_cast<ibv_context **>(std::calloc(2, sizeof(ibv_context *)));
	if (!list)
		return nullptr;
	list[0] = context;
	if (count)
		*count = 1;
	return list;
}

KIW_NAME void rdma_free_devices(ibv_context **list)
{
	std::free(list);
}

// --- addresses ------------------------------------------------------------------------------------

KIW_NAME int rdma_getaddrinfo(
	const char *node, const char *service, const rdma_addrinfo *hints, rdma_addrinfo **result_list)
{
	addrinfo wanted{}, *found = nullptr;
	auto *rai = static_cast<rdma_addrinfo *>(std::calloc(1, sizeof(rdma_addrinfo)));
	int error = 0;

	if (!node && !service && !hints) {
		std::free(rai);
		return result(EINVAL);
	}
	if (!rai)
		return result(ENOMEM);
	rai->ai_flags = hints ? hints->ai_flags : 0;
	rai->ai_family = hints ? hints->ai_family : 0;
	rai->ai_qp_type = hints && hints->ai_qp_type ? hints->ai_qp_type : IBV_QPT_RC;
	rai->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
	if (hints) {
		error = copy_address(hints->ai_src_addr, hints->ai_src_len, rai->ai_src_addr, rai->ai_src_len);
		if (!error)
			error = copy_address(hints->ai_dst_addr, hints->ai_dst_len, rai->ai_dst_addr, rai->ai_dst_len);
	}
	if (!error && (node || service)) {
		wanted.ai_socktype = SOCK_STREAM;
		wanted.ai_family = rai->ai_flags & RAI_FAMILY ? rai->ai_family : AF_UNSPEC;
		wanted.ai_flags = (rai->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
				  (rai->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
		if (const int failed = ::getaddrinfo(node, service, &wanted, &found)) {
			rdma_freeaddrinfo(rai);
			return failed;
		}
		rai->ai_family = found->ai_family;
		if (rai->ai_flags & RAI_PASSIVE) {
			std::free(rai->ai_src_addr);
			error = copy_address(found->ai_addr, found->ai_addrlen, rai->ai_src_addr, rai->ai_src_len);
		} else {
			std::free(rai->ai_dst_addr);
			error = copy_address(found->ai_addr, found->ai_addrlen, rai->ai_dst_addr, rai->ai_dst_len);
		}
		::freeaddrinfo(found);
	}
	if (error) {
		rdma_freeaddrinfo(rai);
		return result(error);
	}
	*result_list = rai;
	return 0;
}

KIW_NAME void rdma_freeaddrinfo(rdma_addrinfo *list)
{
	while (rdma_addrinfo *rai = list) {
		list = rai->ai_next;
		std::free(rai->ai_src_addr);
		std::free(rai->ai_dst_addr);
		std::free(rai->ai_src_canonname);
		std::free(rai->ai_dst_canonname);
		std::free(rai->ai_route);
		std::free(rai->ai_connect);
		std::free(rai);
	}
}

// --- what there isn't -----------------------------------------------------------------------------

KIW_NAME int rdma_join_multicast(rdma_cm_id *, sockaddr *, void *)
{
	return result(EOPNOTSUPP);
}

KIW_NAME int rdma_join_multicast_ex(rdma_cm_id *, rdma_cm_join_mc_attr_ex *, void *)
{
	return result(EOPNOTSUPP);
}

KIW_NAME int rdma_leave_multicast(rdma_cm_id *, sockaddr *)
{
	return result(EOPNOTSUPP);
}

KIW_NAME int rdma_set_local_ece(rdma_cm_id *, ibv_ece *)
{
	return result(EOPNOTSUPP);
}

KIW_NAME int rdma_get_remote_ece(rdma_cm_id *, ibv_ece *)
{
	return result(EOPNOTSUPP);
}
