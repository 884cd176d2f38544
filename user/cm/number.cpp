// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// ibv_modify_qp() to RTR names the peer's address and queue pair. One end dials; the other end's process listens
// (port.cpp).
//
// The dialing end tries until it succeeds, or its queue pair is destroyed, reset or in error: the peer's program may
// come much later. The other end has no endpoint until a Request for its queue pair comes from the named address, with
// a PSN that only both programs know. An earlier Request waits for a while, since the programs exchange the numbers in
// either order. The queue pair limits how long requests wait for all this (floor/peer.cpp).
//
// A queue pair connects once. Then it accepts no Request and doesn't dial until it is reset: otherwise data of its
// first connection could be replayed to it.
#include "number.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/random.h>

#include "count.hpp"
#include "endpoint.hpp"
#include "limits.hpp"
#include "lock.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "port.hpp"
#include "sys.hpp"

namespace kiwu::number {

namespace {

// Pause between two attempts, doubles from first to last
constexpr Time first_pause = 4 * millisecond, longest_pause = 4 * second;
// Longest pause after an attempt that sent no packet, as without a route
constexpr Time home_pause = 250 * millisecond;
// A Request without a fitting queue pair waits so long for one. The time is the same whether or not the number exists:
// no stranger learns which numbers are in use.
constexpr Time early_patience = 2 * second;
// The port of all modules
constexpr std::uint16_t module_port = 19287;

std::uint64_t random64()
{
	std::uint64_t value = 0;

	// It fails only before a boot is over; then a guess at an attempt is easier than it should be.
	(void)!::getrandom(&value, sizeof(value), 0);
	return value;
}

Address address_of(const in6_addr &host, std::uint32_t interface, std::uint16_t port)
{
	Address address;

	address.v6.sin6_family = AF_INET6;
	address.v6.sin6_port = htons(port);
	address.v6.sin6_addr = host;
	if (IN6_IS_ADDR_LINKLOCAL(&host))
		address.v6.sin6_scope_id = interface;
	address.unmap();
	return address;
}

/// Whether a connection is between the named addresses
bool same_ends(const Address &local, const Address &remote, const Peer &peer)
{
	return local.same_host(address_of(peer.local, 0, 0)) && remote.same_host(address_of(peer.remote, 0, 0));
}

/// The two bits of ECN stay TCP's.
void set_class(int fd, const Address &remote, std::uint8_t traffic_class)
{
	const int value = traffic_class & ~3;

	if (remote.any.sa_family == AF_INET6)
		sys::set(fd, IPPROTO_IPV6, IPV6_TCLASS, value);
	else
		sys::set(fd, IPPROTO_IP, IP_TOS, value);
}

bool strict()
{
	return options.number == Options::number_strict;
}

// --- the end that dials ---------------------------------------------------------------------------

struct Dialer : Endpoint {
	Dialer() noexcept : Endpoint(role) { initiates = true; }

	/// Changes the queue pair to RTR, and begins. Returns 0 or an errno value.
	static int begin(Qp &qp, const ibv_qp_attr &attr, int mask, const Peer &named);

private:
	static const Role role;

	static Dialer &of(Endpoint &endpoint) { return static_cast<Dialer &>(endpoint); }
	void run(std::uint32_t news);
	void wait(std::uint32_t news);
	int attempt();
	int compose(Peer &peer);
	int compose_and_dial();
	int request_step(kiw_mpa_frame &reply);
	void failed(int error);
	void break_off();
	void pause(Time most);
	void made_ready();
	void answered(const kiw_mpa_frame &reply);
	bool believes(const kiw_mpa_frame &reply, kiw_number_said &said);
	void meet(const kiw_number_said &said);

	kiw_number_said said_{};
	Time pause_ = first_pause;
	Time next_ = 0;
	bool at_module_ = false; // the attempt is at the modules' port
};

constexpr Endpoint::Role Dialer::role = {
	.run = [](Endpoint &endpoint, std::uint32_t news) { of(endpoint).run(news); },
	.leave = [](Endpoint &) {},
	.release =
		[](Watched &watched) {
			Dialer &dialer = of(Endpoint::of(watched));

			dialer.release();
			kiw::destroy(&dialer);
		},
};

/// The peer-to-peer model, since either end may send first
void shape(kiw_mpa_cfg &cfg, const Peer &peer)
{
	cfg.rev = KIW_MPA_REV_2;
	cfg.p2p = true;
	cfg.ird = cfg.ird_max = peer.ird;
	cfg.ord = peer.ord;
}

/// Returns 0, ECONNABORTED without a peer of the queue pair, or EINVAL.
int Dialer::compose(Peer &peer)
{
	Startup &su = *startup_;

	if (!qp_->named_peer(peer))
		return ECONNABORTED;
	configure();
	shape(su.cfg, peer);
	su.data_length = KIW_NUMBER_LEN;
	kiw_number_request(su.data, &peer.ends, random64(), &said_);
	return compose_request();
}

/// A number that tells a port may be a module's as well: after a refusal there, the modules' port is tried at once.
int Dialer::compose_and_dial()
{
	Peer peer;

	if (options.number == Options::number_off)
		return EOPNOTSUPP;
	if (const int error = compose(peer))
		return error;
	at_module_ = at_module_ || peer.ends.to < port::first_telling;
	local = address_of(peer.local, peer.interface, 0);
	remote = address_of(peer.remote, peer.interface, at_module_ ? module_port : port::of(peer.ends.to));
	const int made = sys::socket(local.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (made < 0)
		return -made;
	fd = made;
	set_class(fd, remote, peer.path.traffic_class);
	int error = -sys::bind(fd, &local.any, local.length());
	if (!error)
		error = understudy::watch(watched, fd, understudy::stream_events);
	if (error)
		return error;
	watches_ = true;
	limit(options.connect_timeout * second);
	return dial();
}

void Dialer::break_off()
{
	if (watches_)
		understudy::unwatch(watched, fd);
	watches_ = false;
	if (fd >= 0)
		sys::reset(fd);
	fd = -1;
	limit(never);
	state = State::dial_wait;
}

/// The pause grows up to most. A random part extends each, so that queue pairs which began together diverge.
void Dialer::pause(Time most)
{
	break_off();
	at_module_ = false;
	next_ = now() + pause_ + random64() % (pause_ / 4 + 1);
	pause_ = std::min(2 * pause_, most);
	understudy::at(watched, next_);
}

/// Makes an attempt, and another one at the modules' port where TCP refuses at once. Returns 0 or an errno value.
int Dialer::attempt()
{
	int error = compose_and_dial();

	if (error == ECONNREFUSED && !at_module_) {
		break_off();
		at_module_ = true;
		error = compose_and_dial();
	}
	return error;
}

/// Continues after any failure: an address or a route may come back, and memory too.
void Dialer::wait(std::uint32_t news)
{
	Peer peer;

	if (news & stream_ready) {
		pause_ = first_pause;
		next_ = now();
	}
	if (now() < next_)
		understudy::at(watched, next_);
	// A strict end states its own PSN, so that the peer states the other.
	else if (strict() && qp_->named_peer(peer) && !peer.ends.ready)
		return;
	else if (attempt())
		pause(home_pause);
}

void Dialer::failed(int error)
{
	if (error != ECONNREFUSED || at_module_) {
		pause(longest_pause);
		return;
	}
	break_off();
	at_module_ = true;
	if (compose_and_dial())
		pause(home_pause);
}

/// The program went on to RTS, and the Request of this attempt doesn't say so.
void Dialer::made_ready()
{
	Peer peer;

	// Nothing of it is sent yet: rewrites it.
	if (!startup_->out_sent && !compose(peer))
		return;
	break_off();
	wait(stream_ready);
}

/// Whether the Reply is from the named end
bool Dialer::believes(const kiw_mpa_frame &reply, kiw_number_said &said)
{
	socklen_t length = sizeof(local.storage);
	Peer peer;

	sys::getsockname(fd, &local.any, &length);
	if (has_excess() || !qp_->named_peer(peer) || !same_ends(local, remote, peer) ||
		kiw_number_parse(reply.pd, reply.pd_len, &said) != KIW_NUMBER_GOOD)
		return false;
	switch (kiw_number_proves(&peer.ends, &said_, &said)) {
	case KIW_NUMBER_PROVED:
		return true;
	case KIW_NUMBER_UNPROVED:
	case KIW_NUMBER_LATER:
		return !strict();
	default:
		return false;
	}
}

void Dialer::meet(const kiw_number_said &said)
{
	qp_->meet(said.limited);
	const int error = open(startup_->terms);
	if (error == EISCONN) // in error or being destroyed
		end(error, End::reset);
	else if (error)
		pause(longest_pause);
	else if (!said_.ready && !qp_->proved(inbox, said.psn))
		end(EACCES, End::reset);
	else
		establish();
}

void Dialer::answered(const kiw_mpa_frame &reply)
{
	Startup &su = *startup_;
	kiw_number_said said{};

	if (reply.reject || !believes(reply, said)) {
		pause(longest_pause);
		return;
	}
	const kiw_err why = kiw_mpa_conclude(&su.cfg, &su.request, &reply, &su.terms);
	if (why == KIW_ERR_LLP_RTR) {
		// The right peer, but no common terms: every further attempt would fail alike.
		qp_->give_up();
		end(EPROTO, End::reset);
	} else if (why || !su.terms.p2p) {
		pause(longest_pause);
	} else {
		meet(said);
	}
}

int Dialer::request_step(kiw_mpa_frame &reply)
{
	int error = tcp_connected();

	if (!error)
		error = push_frame();
	if (!error)
		error = pull_frame(KIW_MPA_REPLY, reply);
	return error;
}

void Dialer::run(std::uint32_t news)
{
	kiw_mpa_frame reply{};

	if (state == State::dial_wait) {
		wait(news);
		return;
	}
	if (expired()) {
		pause(longest_pause);
		return;
	}
	const int error = request_step(reply);
	if (!error)
		answered(reply);
	else if (error != EAGAIN && error != EINTR)
		failed(error);
	else if ((news & stream_ready) && !said_.ready)
		made_ready();
}

int Dialer::begin(Qp &qp, const ibv_qp_attr &attr, int mask, const Peer &named)
{
	auto *made = make<Dialer>();
	int error = 0;

	if (!made)
		return ENOMEM;
	{
		Turn turn(made->lock);

		error = qp.modify(attr, mask, &named);
		if (!error)
			error = made->bind_qp(qp, true);
		if (!error) {
			made->state = State::dial_wait;
			// RTS mostly follows at once: then the Request can state it.
			made->next_ = now() + first_pause;
			understudy::at(made->watched, made->next_);
		}
	}
	if (error)
		made->watched.put();
	return error;
}

// --- the end that is dialed -----------------------------------------------------------------------

struct Answerer : Endpoint {
	Answerer() noexcept : Endpoint(role) {}

	/// Whether it is a Request of a queue pair's named peer
	bool meets(const Peer &peer) const
	{
		return kiw_number_answers(&peer.ends, &said_) && same_ends(local, remote, peer);
	}

	Answerer *next_early = nullptr;

private:
	static const Role role;

	static Answerer &of(Endpoint &endpoint) { return static_cast<Answerer &>(endpoint); }
	void run();
	void begin();
	void answer();
	int bind(Peer &peer);
	bool fits(Qp &qp, Peer &peer) const;
	void reject();
	void forget();
	void leave();

	kiw_number_said said_{};
	Time ready_ = 0;
};

// Protects the list. Innermost, but for the understudy's.
constinit kiw::Lock early_lock;
// Requests that wait for their queue pair
constinit Answerer *early = nullptr;

constexpr Endpoint::Role Answerer::role = {
	.run = [](Endpoint &endpoint, std::uint32_t) { of(endpoint).run(); },
	.leave = [](Endpoint &endpoint) { of(endpoint).leave(); },
	.release =
		[](Watched &watched) {
			Answerer &answerer = of(Endpoint::of(watched));

			answerer.release();
			kiw::destroy(&answerer);
		},
};

/// The program named a peer for a dialed queue pair, that became ready, or it lost a connection that was never
/// established. Only the Requests that wait for it are notified, however many others wait.
void tell(Qp &qp)
{
	Peer peer;

	if (!qp.named_peer(peer))
		return;
	kiw::Guard guard(early_lock);

	for (Answerer *each = early; each; each = each->next_early)
		if (each->meets(peer))
			each->inbox.post(stream_ready);
}

void Answerer::forget()
{
	{
		kiw::Guard guard(early_lock);

		for (Answerer **link = &early; *link; link = &(*link)->next_early)
			if (*link == this) {
				*link = next_early;
				break;
			}
	}
	leave_listener();
}

void Answerer::leave()
{
	forget();
	// The peer may have replaced this connection by another.
	Qp *qp = get_qp(said_.to);
	if (!qp)
		return;
	tell(*qp);
	qp->watched.put();
}

bool Answerer::fits(Qp &qp, Peer &peer) const
{
	return qp.named_peer(peer) && meets(peer) && (peer.ends.ready || !strict());
}

int Answerer::bind(Peer &peer)
{
	Qp *qp = get_qp(said_.to);

	if (!qp)
		return ENOENT;
	int error = fits(*qp, peer) ? bind_qp(*qp, true) : EACCES;
	// The program may have named another peer just before. A stranger never keeps the queue pair.
	if (!error && !fits(*qp, peer)) {
		drop_qp();
		error = EACCES;
	}
	qp->watched.put();
	return error;
}

void Answerer::reject()
{
	std::array<std::uint8_t, KIW_NUMBER_REJECT_LEN> data{};

	forget();
	kiw_number_reject(data.data());
	refuse(data.data(), data.size());
}

void Answerer::answer()
{
	std::array<std::uint8_t, KIW_NUMBER_LEN> data{};
	Startup &su = *startup_;
	kiw_mpa_frame reply{};
	Peer peer;

	// A peer that doesn't wait has given up.
	if (!peer_waits()) {
		end(0, End::reset);
		return;
	}
	if (bind(peer)) {
		if (now() < ready_ + early_patience)
			understudy::at(watched, ready_ + early_patience);
		else
			reject();
		return;
	}
	shape(su.cfg, peer);
	if (kiw_mpa_answer(&su.cfg, &su.request, &reply, &su.terms) == KIW_ERR_LLP_FRAME) {
		end(0, End::reset);
		return;
	}
	forget();
	if (su.cfg.rtr & su.request.rtr) {
		qp_->meet(said_.limited);
	} else {
		// The Reply reports it to the peer; no stream follows.
		Qp &qp = *qp_;

		qp.watched.get();
		drop_qp();
		qp.give_up();
		qp.watched.put();
		su.reject = true;
	}
	set_class(fd, remote, peer.path.traffic_class);
	kiw_number_reply(data.data(), &peer.ends, &said_);
	compose_reply(reply, data.data(), data.size());
	if (send_reply())
		end(0, End::reset);
}

/// The Request is complete.
void Answerer::begin()
{
	const Startup &su = *startup_;

	if (kiw_number_parse(su.request.pd, su.request.pd_len, &said_) != KIW_NUMBER_GOOD || !su.request.p2p) {
		said_.to = 0;
		reject();
		return;
	}
	ready_ = now();
	limit(never);
	state = State::request_ready;
	{
		kiw::Guard guard(early_lock);

		next_early = early;
		early = this;
	}
	// This order: a queue pair that changes after bind() has read it then notifies the endpoint.
	answer();
}

void Answerer::run()
{
	int error = 0;

	if (expired()) {
		count(KIW_STAT_MPA_TIMEOUTS);
		end(0, End::reset);
		return;
	}
	switch (state) {
	case State::reply_send:
		if (send_reply())
			end(0, End::reset);
		break;
	case State::request_ready:
		answer();
		break;
	default:
		error = pull_frame(KIW_MPA_REQUEST, startup_->request);
		if (!error)
			begin();
		else if (error != EAGAIN && error != EINTR)
			end(0, End::fin);
	}
}

} // namespace

// --- verbs ----------------------------------------------------------------------------------------

int take(std::uint32_t &number)
{
	return port::take_number(number, Endpoint::serve<Answerer>);
}

void give_back(std::uint32_t number)
{
	port::give_back(number);
}

void forget()
{
	early_lock.~Lock();
	::new (&early_lock) kiw::Lock;
	early = nullptr;
	port::forget();
}

static int connect(Qp &qp, const ibv_qp_attr &attr, int mask, const Peer &named)
{
	if (options.number == Options::number_off)
		return EOPNOTSUPP;
	if (kiw_number_dials(named.local.s6_addr, named.ends.from, named.remote.s6_addr, named.ends.to))
		return Dialer::begin(qp, attr, mask, named);
	const int error = qp.modify(attr, mask, &named);
	if (!error)
		tell(qp);
	return error;
}

int modify(Qp &qp, const ibv_qp_attr &attr, int mask, const Peer *named)
{
	if (named)
		return connect(qp, attr, mask, *named);
	// The endpoint of a queue pair that is reset gives up, connected or not, and lets go of it.
	if ((mask & IBV_QP_STATE) && attr.qp_state == IBV_QPS_RESET)
		if (Inbox *left = qp.part_from_peer()) {
			Endpoint::of(*left).lose_qp();
			left->watched.put();
		}
	const int error = qp.modify(attr, mask);
	if (!error && (mask & IBV_QP_STATE) && attr.qp_state == IBV_QPS_RTS)
		tell(qp);
	return error;
}

} // namespace kiwu::number
