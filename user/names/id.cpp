// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "id.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "device.hpp"
#include "domain.hpp"
#include "memory.hpp"
#include "open.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

// --- what endpoints tell --------------------------------------------------------------------------

rdma_conn_param param_of(const Endpoint &ep)
{
	rdma_conn_param param{};

	param.private_data = ep.told;
	param.private_data_len = static_cast<std::uint8_t>(ep.told_length);
	param.responder_resources = ep.ird;
	param.initiator_depth = ep.ord;
	return param;
}

bool on_connected(void *user, Endpoint &ep, int status)
{
	Id &id = *static_cast<Id *>(user);

	// As the kernel's rdma_cm translates what an iWARP device says
	switch (status) {
	case 0:
		id.ibv.route.addr.src_storage = ep.local.storage;
		return id.tell(RDMA_CM_EVENT_ESTABLISHED, 0, param_of(ep));
	case ECONNRESET:
	case ECONNREFUSED:
		return id.tell(RDMA_CM_EVENT_REJECTED, -status, param_of(ep));
	case ETIMEDOUT:
		return id.tell(RDMA_CM_EVENT_UNREACHABLE, -status);
	default:
		return id.tell(RDMA_CM_EVENT_CONNECT_ERROR, -status);
	}
}

bool on_established(void *user, Endpoint &ep)
{
	return static_cast<Id *>(user)->tell(RDMA_CM_EVENT_ESTABLISHED, 0, param_of(ep));
}

bool on_closed(void *user, Endpoint &)
{
	return static_cast<Id *>(user)->tell(RDMA_CM_EVENT_DISCONNECTED, 0);
}

bool on_requested(void *listener, Endpoint &ep)
{
	Id &parent = *static_cast<Id *>(listener);
	rdma_conn_param param = param_of(ep);

	// tell() gives it the listener's channel.
	Id *child = Id::make(parent.ibv.context, parent.ibv.ps, parent.ibv.qp_type);
	if (!child)
		return false;
	ep.asked(child->responder_resources, child->initiator_depth);
	std::swap(child->responder_resources, child->initiator_depth);
	param.responder_resources = child->responder_resources;
	param.initiator_depth = child->initiator_depth;
	child->state = Id::State::connect;
	child->source = ep.local;
	child->ibv.route.addr.src_storage = ep.local.storage;
	child->ibv.route.addr.dst_storage = ep.remote.storage;
	// The program may decide before this returns: its decision waits for the endpoint's lock.
	ep.watched.get();
	ep.user = child;
	child->endpoint = &ep;
	if (!child->attach() && parent.tell(RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, child))
		return true;
	ep.user = nullptr;
	ep.watched.put();
	kiw::destroy(child);
	return false;
}

constexpr Upcalls id_upcalls = {
	.connected = on_connected,
	.established = on_established,
	.closed = on_closed,
	.requested = on_requested,
};

// Protects the process's open device for identifiers.
constinit kiw::Lock device_lock;
constinit ibv_context *device_context = nullptr;
constinit ibv_pd *device_pd = nullptr;

/// Which of the host's addresses TCP would use for a destination. Returns 0 or an errno value.
int choose_source(const Address &destination, Address &source)
{
	socklen_t length = sizeof(source.storage);
	Address to = destination;
	const int probe = sys::socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (probe < 0)
		return -probe;
	// A datagram socket sends nothing when it is connected. The port doesn't count, but can't be 0 everywhere.
	if (!to.port())
		to.set_port(htons(9));
	int error = -sys::connect(probe, &to.any, to.length());
	if (!error)
		error = -sys::getsockname(probe, &source.any, &length);
	source.set_port(0);
	sys::close(probe);
	return error;
}

/// The kernel's rdma_cm takes the wildcard for this host.
void replace_wildcard(Address &destination)
{
	if (!destination.is_wildcard())
		return;
	if (destination.any.sa_family == AF_INET6)
		destination.v6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
	else
		destination.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

} // namespace

CmEvent &CmEvent::from(rdma_cm_event *event)
{
	return *reinterpret_cast<CmEvent *>(reinterpret_cast<std::byte *>(event) - offsetof(CmEvent, told));
}

/// A child of fork() opens the device for itself.
static void begin_anew()
{
	device_lock.~Lock();
	::new (&device_lock) kiw::Lock;
	device_context = nullptr;
	EventChannel::begin_anew();
}

int cm_device(ibv_context *&context, ibv_pd *&pd)
{
	kiw::Guard guard(device_lock);

	if (!show_device())
		return EINVAL;
	if (!device_context) {
		static bool cares_for_children = false;

		if (!cares_for_children)
			if (const int error = ::pthread_atfork(nullptr, nullptr, begin_anew))
				return error;
		cares_for_children = true;
		upcalls = &id_upcalls;
		device_context = open_device();
		if (!device_context)
			return errno;
		device_pd = kiw::alloc_pd(device_context);
		if (!device_pd) {
			const int error = errno;

			close_device(device_context);
			device_context = nullptr;
			return error;
		}
	}
	context = device_context;
	pd = device_pd;
	return 0;
}

int Id::attach()
{
	ibv_pd *pd = nullptr;

	if (ibv.verbs)
		return 0;
	if (const int error = cm_device(ibv.verbs, pd))
		return error;
	if (!ibv.pd)
		ibv.pd = pd;
	ibv.port_num = 1;
	return 0;
}

// --- life -----------------------------------------------------------------------------------------

Id *Id::make(void *context, rdma_port_space space, ibv_qp_type type)
{
	auto id = kiw::make<Id>();

	if (!id || id->origin.open())
		return nullptr;
	id->ibv.context = context;
	id->ibv.ps = space;
	id->ibv.qp_type = type;
	return id.release();
}

void Id::end()
{
	if (listener)
		listener->leave();
	if (endpoint)
		endpoint->leave();
	if (socket >= 0)
		sys::close(socket);
	// Nothing is told of it any more.
	forget_events();
	::pthread_mutex_lock(&mutex);
	while (events_acked != events_fetched)
		::pthread_cond_wait(&acknowledged, &mutex);
	::pthread_mutex_unlock(&mutex);
	std::free(qp_init_attr);
	std::free(connect_data);
	channel().put();
	kiw::destroy(this);
}

// --- events ---------------------------------------------------------------------------------------

void Id::report_to(EventChannel &channel)
{
	rdma_event_channel *before = ibv.channel;

	channel.get();
	ibv.channel = &channel.ibv;
	if (before)
		EventChannel::from(before).put();
}

bool Id::tell(rdma_cm_event_type type, int status, const rdma_conn_param &param, Id *child)
{
	auto event = kiw::make<CmEvent>();

	if (!event)
		return false;
	rdma_cm_event &told = event->told;
	told.id = child ? &child->ibv : &ibv;
	told.listen_id = child ? &ibv : nullptr;
	told.event = type;
	told.status = status;
	told.param.conn = param;
	told.param.conn.private_data = nullptr;
	if (param.private_data_len) {
		std::memcpy(event->data, param.private_data, param.private_data_len);
		told.param.conn.private_data = event->data;
	}
	event->of = this;
	kiw::Guard guard(telling);
	if (child)
		child->report_to(channel());
	channel().queue.add(event.release()->event);
	return true;
}

void Id::forget_events()
{
	const auto is_its = [this](Event &event) {
		return CmEvent::from(event).of == this;
	};

	channel().await_fetch([&] { return !channel().queue.has(is_its); });
	channel().queue.drop(is_its, [](Event &event) {
		CmEvent &dropped = CmEvent::from(event);

		// A request that nobody has heard of
		if (dropped.told.listen_id)
			from(dropped.told.id).end();
		kiw::destroy(&dropped);
	});
}

// --- addresses ------------------------------------------------------------------------------------

int Id::bind(const sockaddr *address)
{
	constexpr int on = 1;
	socklen_t length = sizeof(source.storage);

	if (state != State::idle || !address || !source.set(address))
		return EINVAL;
	const int made = sys::socket(source.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (made < 0)
		return -made;
	const int v6_only = af_only;
	if (source.any.sa_family == AF_INET6)
		sys::set(made, IPPROTO_IPV6, IPV6_V6ONLY, v6_only);
	if (tos_set) {
		const int value = tos;

		sys::set(made, IPPROTO_IP, IP_TOS, value);
		if (source.any.sa_family == AF_INET6)
			sys::set(made, IPPROTO_IPV6, IPV6_TCLASS, value);
	}
	if (reuse)
		sys::set(made, SOL_SOCKET, SO_REUSEADDR, on);
	int error = -sys::bind(made, &source.any, source.length());
	// Connections in TIME_WAIT are no obstacle; another socket still is.
	if (error == EADDRINUSE && !reuse) {
		sys::set(made, SOL_SOCKET, SO_REUSEADDR, on);
		error = -sys::bind(made, &source.any, source.length());
	}
	if (!error)
		error = -sys::getsockname(made, &source.any, &length);
	if (!error && !source.is_wildcard())
		error = attach();
	if (error) {
		sys::close(made);
		return error;
	}
	socket = made;
	state = State::bound;
	ibv.route.addr.src_storage = source.storage;
	return 0;
}

int Id::resolve(const sockaddr *wanted, const sockaddr *to)
{
	Address destination, chosen;

	if (!to || !destination.set(to) || (state != State::idle && state != State::bound))
		return EINVAL;
	destination.unmap();
	replace_wildcard(destination);
	if (wanted && state == State::idle) {
		if (wanted->sa_family != AF_UNSPEC)
			if (const int error = bind(wanted))
				return error;
	}
	ibv.route.addr.dst_storage = destination.storage;
	if (const int error = choose_source(destination, chosen)) {
		return tell(RDMA_CM_EVENT_ADDR_ERROR, -error) ? 0 : ENOMEM;
	}
	if (state == State::bound && source.any.sa_family != destination.any.sa_family)
		return EINVAL;
	// One that is bound to a port only, or to nothing
	if (state == State::idle) {
		if (const int error = bind(&chosen.any))
			return error;
	} else if (source.is_wildcard()) {
		chosen.set_port(source.port());
		ibv.route.addr.src_storage = chosen.storage;
	}
	if (const int error = attach())
		return error;
	state = State::addr_resolved;
	return tell(RDMA_CM_EVENT_ADDR_RESOLVED, 0) ? 0 : ENOMEM;
}

} // namespace kiwu
