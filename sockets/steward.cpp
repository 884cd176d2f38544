// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "steward.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "lock.hpp"
#include "octets.hpp"
#include "real.hpp"
#include "rules.hpp"
#include "verbs.hpp"

namespace kiws {

Steward steward;

namespace {

/// A peer that can't be dialed within this time is none, unless octets wait longer for a lane.
constexpr Time dial_time = second;
/// Milliseconds for each of rdma_cm's two steps before
constexpr int resolve_time = 1000;
/// A hello is good for so long.
constexpr Time expect_time = 60 * second;
/// Between two looks at the lanes
constexpr int look_time = 50;

/// What a dialing end says: the nonce that it was told, and its terms
struct Introduction {
	static constexpr std::size_t size = 4 + 16 + Terms::size;
	static constexpr std::uint32_t magic = 0x6b697731;

	Nonce nonce;
	Terms terms;

	void write(std::uint8_t *octets) const
	{
		put(octets, magic);
		std::copy(nonce.begin(), nonce.end(), octets + 4);
		terms.write(octets + 20);
	}
	bool read(const void *data, std::size_t length)
	{
		const auto *octets = static_cast<const std::uint8_t *>(data);

		if (!octets || length < size || get<std::uint32_t>(octets) != magic)
			return false;
		std::copy(octets + 4, octets + 20, nonce.begin());
		return terms.read(octets + 20);
	}
};

// Protects what follows, but for what the thread alone uses. No lock is taken while it is held.
kiw::Lock lock;
bool begun;
int wake_fd = -1;
rdma_event_channel *channel;
std::uint16_t ports[2];
Socket *sockets; // each with a use

/// Those of which the steward has a descriptor
std::atomic<unsigned> kept_ones;

void wake()
{
	const std::uint64_t once = 1;

	(void)!real().write(wake_fd, &once, sizeof(once));
}

/// Adds a socket to the list, with a use.
void add(Socket &socket)
{
	{
		kiw::Guard guard(lock);

		if (!socket.listed) {
			(void)socket.get();
			socket.listed = true;
			socket.next = sockets;
			sockets = &socket;
		}
	}
	wake();
}

std::uint16_t listen(int family)
{
	rdma_cm_id *id = nullptr;
	kiwu::Address any;

	any.any.sa_family = static_cast<sa_family_t>(family);
	if (verbs->rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP))
		return 0;
	if (verbs->rdma_bind_addr(id, &any.any) || verbs->rdma_listen(id, 128)) {
		(void)verbs->rdma_destroy_id(id);
		return 0;
	}
	return ntohs(verbs->rdma_get_src_port(id));
}

// --- events of rdma_cm ---

/// The other end of an identifier
kiwu::Address peer_of(rdma_cm_id *id)
{
	kiwu::Address address;

	(void)address.set(&id->route.addr.dst_addr);
	address.unmap();
	return address;
}

Socket *find_expecting(const Nonce &nonce)
{
	kiw::Guard guard(lock);

	for (Socket *socket = sockets; socket; socket = socket->next)
		if (socket->dial == Socket::Dial::expects && socket->nonce == nonce && socket->get())
			return socket;
	return nullptr;
}

void fail(Socket &socket, const char *why)
{
	if (socket.dial == Socket::Dial::dials || socket.dial == Socket::Dial::expects) {
		socket.dial = Socket::Dial::failed;
		socket.why = why;
	}
	if (socket.link)
		socket.link->gone = true;
	socket.progress();
	socket.wake();
}

void answer(rdma_cm_id *id, const rdma_conn_param &request)
{
	Introduction introduction{};
	Socket *socket = introduction.read(request.private_data, request.private_data_len)
				 ? find_expecting(introduction.nonce)
				 : nullptr;
	bool accepted = false;

	if (socket) {
		Locked locked(socket->stream());

		// The nonce was told on this connection alone, and serves once.
		if (locked && socket->dial == Socket::Dial::expects && !socket->link && socket->descriptors &&
			socket->stream().holders == 1 && socket->peer.same_host(peer_of(id))) {
			socket->link = Link::make(id, socket->stream());
			socket->has_ring();
			if (socket->link) {
				std::uint8_t octets[Terms::size];
				rdma_conn_param reply{};

				socket->link->set_peer(introduction.terms);
				socket->link->terms().write(octets);
				reply.private_data = octets;
				reply.private_data_len = sizeof(octets);
				reply.rnr_retry_count = 7;
				id->context = socket;
				accepted = verbs->rdma_accept(id, &reply) == 0;
				if (!accepted) {
					socket->link->destroy();
					socket->link = nullptr;
				}
			}
			socket->dial = accepted ? Socket::Dial::done : Socket::Dial::failed;
			socket->why = "there is no room for a lane";
			if (accepted)
				socket->id = id;
		}
	}
	if (!accepted) {
		(void)verbs->rdma_reject(id, nullptr, 0);
		id->context = nullptr;
	}
	if (socket)
		socket->put();
}

bool connect(Socket &socket)
{
	std::uint8_t octets[Introduction::size];
	rdma_conn_param request{};

	socket.link = Link::make(socket.id, socket.stream());
	socket.has_ring();
	if (!socket.link)
		return false;
	Introduction{.nonce = socket.nonce, .terms = socket.link->terms()}.write(octets);
	request.private_data = octets;
	request.private_data_len = sizeof(octets);
	request.retry_count = 7;
	request.rnr_retry_count = 7;
	return verbs->rdma_connect(socket.id, &request) == 0;
}

/// Returns false if the identifier has no use any more.
bool advance(Socket &socket, const rdma_cm_event &event)
{
	Terms terms{};

	switch (event.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return verbs->rdma_resolve_route(socket.id, resolve_time) == 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return socket.dial == Socket::Dial::dials && connect(socket);
	case RDMA_CM_EVENT_ESTABLISHED:
		if (!socket.link || socket.link->gone)
			return false;
		if (socket.dial == Socket::Dial::dials) {
			if (event.param.conn.private_data_len < Terms::size ||
				!terms.read(static_cast<const std::uint8_t *>(event.param.conn.private_data)))
				return false;
			socket.link->set_peer(terms);
			socket.dial = Socket::Dial::done;
		}
		socket.link->up = true;
		if (socket.finished)
			socket.link->finish();
		socket.wake();
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (socket.link) {
			socket.progress();
			socket.link->gone = true;
			socket.progress();
			socket.wake();
		}
		return true;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return true;
	default:
		return false; // a failure of a step
	}
}

void handle(rdma_cm_event *event)
{
	rdma_cm_id *id = event->id;
	auto *socket = static_cast<Socket *>(id->context);
	bool useful = true;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		answer(id, event->param.conn);
		useful = id->context;
		socket = nullptr;
	} else if (socket) {
		const Locked locked(socket->stream());

		if (socket->id == id && !advance(*socket, *event))
			fail(*socket, "the peer couldn't be dialed");
	}
	(void)verbs->rdma_ack_cm_event(event);
	if (!useful)
		(void)verbs->rdma_destroy_id(id);
}

// --- lanes ---

/// Whether nothing is to be done for a socket any more, and its lane can be ended. What has come stays in the ring.
bool is_over(Socket &socket)
{
	const Link *link = socket.link;

	if (!link)
		return socket.dial == Socket::Dial::none || socket.dial == Socket::Dial::failed || !socket.descriptors;
	if (link->gone)
		return true;
	if (socket.stream().out.has_left() && socket.stream().out.answered() && socket.stream().in.has_left())
		return link->told_all();
	if (!socket.descriptors) // octets that the program didn't ask for, or nothing on the way
		return socket.waiting() || link->finished() || !link->up;
	return false;
}

void tend(Socket &socket)
{
	const Time time = now();

	socket.progress();
	if ((socket.dial == Socket::Dial::dials || socket.dial == Socket::Dial::expects) && time >= socket.dial_end)
		fail(socket,
			socket.dial == Socket::Dial::dials ? "the peer couldn't be dialed" : "the peer didn't dial");
	if (socket.link && socket.link->asked_to_leave) {
		socket.link->asked_to_leave = false;
		(void)socket.leave();
	}
	if (socket.dial == Socket::Dial::dials && !socket.id) {
		kiwu::Address from = socket.own, to = socket.peer;

		from.set_port(0);
		to.set_port(htons(socket.port));
		if (verbs->rdma_create_id(channel, &socket.id, &socket, RDMA_PS_TCP) ||
			verbs->rdma_resolve_addr(socket.id, &from.any, &to.any, resolve_time))
			fail(socket, "no RDMA device reaches the peer");
	}
}

/// Ends the lane of a socket, and lets go of it.
void release(Socket &socket)
{
	Link *link = nullptr;
	rdma_cm_id *id = nullptr;
	int kept = -1;
	{
		const Locked locked(socket.stream());

		socket.progress();
		std::swap(link, socket.link);
		std::swap(id, socket.id);
		std::swap(kept, socket.kept);
		// Octets that the program has not asked for: its peer learns that they are lost, as TCP's does.
		if (kept >= 0 && socket.waiting()) {
			const linger abort = {.l_onoff = 1, .l_linger = 0};

			(void)::setsockopt(kept, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
		}
		socket.wake();
	}
	if (link)
		link->destroy();
	if (id)
		(void)verbs->rdma_destroy_id(id);
	if (kept >= 0) {
		(void)real().close(kept);
		kept_ones--;
	}
	socket.put();
}

/// Looks at all sockets.
void look()
{
	Socket *all = nullptr, *stays = nullptr, **end = &stays;
	{
		kiw::Guard guard(lock);

		std::swap(all, sockets);
	}
	while (all) {
		Socket *socket = all;
		bool over = false;

		all = socket->next;
		{
			const Locked locked(socket->stream());

			tend(*socket);
			over = is_over(*socket);
			if (over)
				socket->listed = false;
		}
		if (over) {
			release(*socket);
			continue;
		}
		*end = socket;
		end = &socket->next;
	}
	kiw::Guard guard(lock);
	*end = sockets;
	sockets = stays;
}

void *run(void *)
{
	for (;;) {
		pollfd fds[] = {{.fd = wake_fd, .events = POLLIN, .revents = 0},
			{.fd = channel->fd, .events = POLLIN, .revents = 0}};
		std::uint64_t rings = 0;
		rdma_cm_event *event = nullptr;

		(void)real().poll(fds, std::size(fds), __atomic_load_n(&sockets, __ATOMIC_ACQUIRE) ? look_time : -1);
		(void)!real().read(wake_fd, &rings, sizeof(rings));
		while (verbs->rdma_get_cm_event(channel, &event) == 0)
			handle(event);
		look();
	}
	return nullptr;
}

/// Begins the thread. Returns whether it runs.
bool begin()
{
	kiw::Guard guard(lock);
	pthread_t thread{};
	sigset_t all, before;

	if (begun)
		return channel;
	begun = true;
	if (!load_verbs() || (wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		return false;
	channel = verbs->rdma_create_event_channel();
	if (!channel)
		return false;
	(void)real().fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	// The program's handlers run in its own threads.
	::sigfillset(&all);
	(void)::pthread_sigmask(SIG_SETMASK, &all, &before);
	const int error = ::pthread_create(&thread, nullptr, run, nullptr);
	(void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
	if (error) {
		verbs->rdma_destroy_event_channel(channel);
		channel = nullptr;
		return false;
	}
	(void)::pthread_detach(thread);
	return true;
}

} // namespace

std::uint16_t Steward::port(int family)
{
	if (!begin())
		return 0;
	kiw::Guard guard(lock);
	std::uint16_t &own = ports[family == AF_INET6];

	if (!own)
		own = listen(family);
	return own;
}

void Steward::expect(Socket &socket)
{
	socket.dial = Socket::Dial::expects;
	socket.dial_end = now() + expect_time;
	add(socket);
}

void Steward::dial(Socket &socket)
{
	socket.why = "there is no RDMA device";
	if (!begin())
		return;
	socket.why = "the peer couldn't be dialed";
	socket.dial = Socket::Dial::dials;
	socket.dial_end = now() + std::max(dial_time, rules().wait * millisecond);
	add(socket);
}

void Steward::forget(Socket &socket, const char *why)
{
	fail(socket, why);
	wake();
}

void Steward::keep()
{
	kept_ones++;
	wake();
}

void Steward::wait(Time end)
{
	const timespec nap = {.tv_sec = 0, .tv_nsec = 1000000};

	while (kept_ones && now() < end)
		(void)::nanosleep(&nap, nullptr);
}

void Steward::hold()
{
	lock.lock();
}

void Steward::release()
{
	lock.unlock();
}

void Steward::forget_all()
{
	lock.~Lock();
	::new (&lock) kiw::Lock;
	begun = false;
	wake_fd = -1;
	channel = nullptr;
	ports[0] = ports[1] = 0;
	sockets = nullptr;
	kept_ones = 0;
}

} // namespace kiws
