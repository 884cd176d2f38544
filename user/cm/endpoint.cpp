// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "count.hpp"
#include "endings.hpp"
#include "limits.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

// An end may go on for so long without the peer acknowledging anything more, then it is reset.
constexpr Time close_for = 10 * second;
// A user gets this long to decide.
constexpr Time decide_for = 600 * second;
// After which something is tried again that failed for want of memory
constexpr Time memory_pause = 20 * millisecond;
// TCP tells of no acknowledgment: it is asked so often.
constexpr Time linger_pause = 20 * millisecond;
// TCP's refusal is believed when it came so often, after pauses from this on, each four times as long: programs that
// exchange something and then connect to a listener that the peer makes meanwhile are used to devices that take their
// time.
constexpr std::uint8_t refusals = 4;
constexpr Time redial_pause = 2 * millisecond;
// Bytes that are dropped before others get their turn
constexpr std::size_t drop_at_once = 1 << 20;

int tcp_state(int fd)
{
	tcp_info info{};

	return sys::get(fd, IPPROTO_TCP, TCP_INFO, info) ? int{TCP_CLOSE} : info.tcpi_state;
}

std::uint8_t at_most_255(std::uint16_t depth)
{
	return static_cast<std::uint8_t>(std::min<std::uint16_t>(depth, UINT8_MAX));
}

} // namespace

Endpoint::Endpoint() noexcept : watched(on_event, on_release), inbox(watched) {}

Endpoint::Endpoint(const Role &role) noexcept : watched(on_event, role.release), inbox(watched), role_(&role)
{
	final_ = true; // nobody hears of it
}

/// What it has goes.
void Endpoint::release()
{
	if (startup_)
		kiw::destroy(startup_);
	std::free(remains_.bytes);
}

void Endpoint::on_release(Watched &watched)
{
	Endpoint &ep = of(watched);

	ep.release();
	kiw::destroy(&ep);
}

// --- time -----------------------------------------------------------------------------------------

void Endpoint::limit(Time time)
{
	deadline_ = time == never ? never : now() + time;
	if (deadline_ != never)
		understudy::at(watched, deadline_);
}

bool Endpoint::expired() const
{
	return deadline_ != never && now() >= deadline_;
}

void Endpoint::again_after(Time time)
{
	understudy::at(watched, now() + time);
}

std::uint32_t Endpoint::unacknowledged() const
{
	int queued = 0;

	sys::ioctl(fd, SIOCOUTQ, &queued);
	return static_cast<std::uint32_t>(queued);
}

/// Begins a time in which the peer has to acknowledge something.
void Endpoint::await_acks()
{
	acked_ = acked();
	limit(close_for);
}

/// How much the peer has acknowledged, from where it was asked first; FIN counts as a byte.
std::int64_t Endpoint::acked() const
{
	return static_cast<std::int64_t>(remains_sent_) - unacknowledged();
}

/// Whether the peer has acknowledged nothing for so long, be it that there is nothing left that it could.
bool Endpoint::stalled()
{
	if (!expired())
		return false;
	if (acked() == acked_)
		return true;
	await_acks();
	return false;
}

// --- start-up frames ------------------------------------------------------------------------------

int Endpoint::push_frame()
{
	Startup &su = *startup_;

	while (su.out_sent < su.out_length) {
		const ssize_t sent =
			sys::send(fd, su.out + su.out_sent, static_cast<std::size_t>(su.out_length - su.out_sent));

		if (sent < 0)
			return static_cast<int>(-sent);
		su.out_sent = static_cast<std::uint16_t>(su.out_sent + sent);
	}
	return 0;
}

/// Receives the peer's frame as far as it is there, and not a byte beyond.
int Endpoint::pull_frame(kiw_mpa_kind kind, kiw_mpa_frame &frame)
{
	Startup &su = *startup_;

	for (;;) {
		switch (kiw_mpa_parse(su.in, su.in_have, kind, &frame)) {
		case KIW_DONE:
			return 0;
		case KIW_MORE:
			break;
		case KIW_BAD:
			count(KIW_STAT_MPA_MALFORMED);
			return EPROTO;
		}
		const std::size_t need = std::min<std::size_t>(frame.need, sizeof(su.in)) - su.in_have;
		const ssize_t got = sys::recv(fd, su.in + su.in_have, need);
		if (got <= 0)
			return got ? static_cast<int>(-got) : ECONNRESET;
		su.in_have = static_cast<std::uint16_t>(su.in_have + got);
	}
}

/// Whether the peer has sent more than it may at this point
bool Endpoint::has_excess() const
{
	int queued = 0;

	return sys::ioctl(fd, FIONREAD, &queued) == 0 && queued > 0;
}

void Endpoint::configure()
{
	startup_->cfg = {
		.rev = options.mpa_rev,
		.crc = options.crc,
		.markers = options.markers,
		.p2p = options.p2p && options.mpa_rev >= KIW_MPA_REV_2,
		.large = options.large,
		.ext = true,
		.rtr = options.rtr,
		.ird = limits::rd_atom,
		.ord = limits::rd_atom,
		.ird_max = limits::rd_atom,
	};
}

// --- queue pair and stream ------------------------------------------------------------------------

int Endpoint::bind_qp(Qp &qp, bool by_number)
{
	if (const int error = qp.bind(inbox, by_number))
		return error;
	qp.end_connection = [](Qp &, Inbox &inbox) {
		of(inbox).lose_qp();
	};
	qp.watched.get();
	qp_ = &qp;
	return 0;
}

void Endpoint::drop_qp()
{
	if (!qp_)
		return;
	qp_->unbind(inbox);
	qp_->watched.put();
	qp_ = nullptr;
}

/// Both frames were exchanged: begins full operation.
int Endpoint::open(const kiw_mpa_result &terms)
{
	if (options.keepalive)
		keep_alive(fd, options.keepalive);
	if (watches_)
		understudy::unwatch(watched, fd);
	watches_ = false;
	if (const int error = qp_->start(inbox, fd, terms, initiates))
		return error;
	streams_ = true;
	ird = at_most_255(terms.ird);
	ord = at_most_255(terms.ord);
	return 0;
}

void Endpoint::establish()
{
	count(KIW_STAT_CONNECTS);
	announced_ = true;
	status_ = 0;
	owed_ |= initiates ? owed_connected : owed_established;
	limit(never);
	state = State::open;
}

void Endpoint::begin_closing()
{
	await_acks();
	state = State::closing;
}

// --- what the user hears --------------------------------------------------------------------------

void Endpoint::report()
{
	while (owed_) {
		const auto what = static_cast<std::uint8_t>(owed_ & -owed_);
		bool heard = true;

		if (user) {
			if (what == owed_connected)
				heard = upcalls->connected(user, *this, status_);
			else if (what == owed_established)
				heard = upcalls->established(user, *this);
			else
				heard = upcalls->closed(user, *this);
		}
		if (!heard) {
			again_after(memory_pause);
			return;
		}
		owed_ &= static_cast<std::uint8_t>(~what);
	}
	told = nullptr;
	told_length = 0;
	if (state >= State::rtr_wait && startup_) {
		kiw::destroy(startup_);
		startup_ = nullptr;
	}
}

void Endpoint::owe_end(int status)
{
	if (final_)
		return;
	final_ = true;
	if (initiates && !announced_) {
		count(KIW_STAT_CONNECT_FAILS);
		status_ = status ? status : ECONNABORTED;
		owed_ |= owed_connected;
	} else if (announced_ || state >= State::reply_send) {
		// A user that has accepted hears of both, however far it came.
		if (!announced_)
			owed_ |= owed_established;
		owed_ |= owed_closed;
	}
}

// --- the end --------------------------------------------------------------------------------------

void Endpoint::end(int status, End how)
{
	Remains remains;

	if (!ending_) {
		ending_ = true;
		endings.fetch_add(1, std::memory_order_relaxed);
	}
	if (streams_) {
		streams_ = false;
		remains = qp_->stop(inbox, how == End::done);
		// Without a FIN the peer would take what it gets for cut off.
		how = how != End::reset && (remains.fin_sent || remains.bytes) ? End::fin : End::reset;
	}
	owe_end(status);
	leave_listener();
	drop_qp();
	if (role_)
		role_->leave(*this);
	report();
	if (how == End::fin && fd >= 0)
		begin_linger(remains);
	else
		close(how == End::reset);
	if (state == State::dead)
		std::free(remains.bytes);
}

void Endpoint::begin_linger(Remains &remains)
{
	remains_ = remains;
	remains = {};
	if (!watches_ && understudy::watch(watched, fd, understudy::stream_events)) {
		close(true);
		return;
	}
	watches_ = true;
	if (!remains_.bytes)
		sys::shutdown(fd, SHUT_WR);
	state = State::linger;
	await_acks();
	run_linger();
}

void Endpoint::run_linger()
{
	static std::uint8_t nothing[64 << 10];
	std::size_t dropped = 0;
	ssize_t got = 0;

	while (remains_sent_ < remains_.length) {
		const ssize_t sent = sys::send(fd, remains_.bytes + remains_sent_, remains_.length - remains_sent_);

		if (sent < 0)
			break;
		remains_sent_ += static_cast<std::size_t>(sent);
	}
	const bool remains = remains_sent_ < remains_.length;
	if (remains_.bytes && !remains) {
		std::free(remains_.bytes);
		remains_.bytes = nullptr;
		sys::shutdown(fd, SHUT_WR);
	}
	while (dropped < drop_at_once && (got = sys::recv(fd, nothing, sizeof(nothing))) > 0)
		dropped += static_cast<std::size_t>(got);
	if (got < 0 && got != -EAGAIN && got != -EINTR) {
		close(false);
		return;
	}
	const int tcp = tcp_state(fd);
	const bool unacked = tcp == TCP_FIN_WAIT1 || tcp == TCP_CLOSING || tcp == TCP_LAST_ACK;

	if (!remains && !unacked)
		close(false);
	else if (stalled())
		close(true);
	else
		again_after(linger_pause);
}

void Endpoint::close(bool reset)
{
	state = State::dead;
	deadline_ = never;
	if (watches_)
		understudy::unwatch(watched, fd);
	watches_ = false;
	if (fd >= 0) {
		if (reset)
			sys::reset(fd);
		else
			sys::close(fd);
	}
	fd = -1;
	if (ending_)
		endings.fetch_sub(1, std::memory_order_release);
	ending_ = false;
	understudy::queue(watched); // retires
}

// --- the initiator --------------------------------------------------------------------------------

int Endpoint::compose_request()
{
	Startup &su = *startup_;

	kiw_mpa_request(&su.cfg, &su.request);
	if (su.data_length > kiw_mpa_pd_max(&su.request))
		return EINVAL;
	su.request.pd = su.data;
	su.request.pd_len = su.data_length;
	su.out_length = static_cast<std::uint16_t>(kiw_mpa_build(su.out, &su.request));
	su.out_sent = su.in_have = 0;
	return 0;
}

int Endpoint::dial()
{
	state = State::connecting;
	const int error = -sys::connect(fd, &remote.any, remote.length());
	return error == EINPROGRESS ? 0 : error;
}

/// The same, with a socket that was connected, or tried to be.
int Endpoint::redial()
{
	constexpr sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};

	sys::connect(fd, &nobody, sizeof(nobody));
	// An address that bind() was given stays, a port that it chose doesn't.
	sys::bind(fd, &local.any, local.length());
	return dial();
}

/// A peer that knows only revision 1 closes when it sees revision 2 (RFC 6581 section 10): once, and only if it has not
/// answered at all, the same is tried with revision 1.
int Endpoint::dial_again()
{
	Startup &su = *startup_;

	su.retried = true;
	su.cfg.rev = KIW_MPA_REV_1;
	su.cfg.p2p = false;
	const int error = compose_request();
	return error ? error : redial();
}

/// Whether TCP is connected, and the frames' turn has come. Returns 0, EAGAIN: not yet, or another error.
int Endpoint::tcp_connected()
{
	if (state != State::connecting)
		return 0;
	const int tcp = tcp_state(fd);
	if (tcp == TCP_SYN_SENT || tcp == TCP_SYN_RECV)
		return EAGAIN;
	if (tcp == TCP_CLOSE) {
		int error = 0;

		sys::get(fd, SOL_SOCKET, SO_ERROR, error);
		return error ? error : ECONNABORTED;
	}
	state = State::reply_wait;
	return 0;
}

void Endpoint::connect_lost(int error)
{
	const Startup &su = *startup_;
	const bool closed = error == ECONNRESET || error == EPIPE;

	if (closed && !su.in_have && !su.retried && su.cfg.rev == KIW_MPA_REV_2) {
		error = dial_again();
		if (!error)
			return;
	} else if (error == EPIPE || error == EPROTO) {
		error = ECONNRESET;
	}
	end(error, End::fin);
}

void Endpoint::reply_received(const kiw_mpa_frame &reply)
{
	Startup &su = *startup_;

	if (reply.reject) {
		ird = at_most_255(reply.ird);
		ord = at_most_255(reply.ord);
		if (reply.pd_len <= UINT8_MAX) {
			told = reply.pd;
			told_length = reply.pd_len;
		}
		end(ECONNREFUSED, End::fin);
		return;
	}
	const kiw_err why = kiw_mpa_conclude(&su.cfg, &su.request, &reply, &su.terms);
	// The responder has to wait for our first message.
	if (why == KIW_ERR_LLP_FRAME || has_excess()) {
		count(KIW_STAT_MPA_MALFORMED);
		end(ECONNRESET, End::fin);
		return;
	}
	if (reply.pd_len > UINT8_MAX) {
		end(EMSGSIZE, End::fin);
		return;
	}
	// The peer learns by a Terminate why nothing comes of it (RFC 6581 sections 9.1 and 9.2), and for that there
	// has to be a stream. The user is told at once.
	if (why) {
		kiw_mpa_result terms = su.terms;

		terms.p2p = false;
		terms.rtr = 0;
		if (open(terms)) {
			end(EPROTO, End::fin);
			return;
		}
		qp_->fail(why);
		owe_end(EPROTO);
		report();
		begin_closing();
		return;
	}
	socklen_t length = sizeof(local.storage);
	sys::getsockname(fd, &local.any, &length);
	local.unmap();
	if (const int error = open(su.terms)) {
		end(error, End::reset);
		return;
	}
	told = reply.pd;
	told_length = reply.pd_len;
	establish();
	report();
}

void Endpoint::run_connect()
{
	kiw_mpa_frame reply{};

	if (expired()) {
		if (state == State::reply_wait)
			count(KIW_STAT_MPA_TIMEOUTS);
		end(ETIMEDOUT, End::reset);
		return;
	}
	if (redial_at_ != never) {
		if (now() < redial_at_) {
			understudy::at(watched, redial_at_);
			return;
		}
		redial_at_ = never;
		if (const int error = redial())
			end(error, End::reset);
		return;
	}
	int error = tcp_connected();
	if (error == EAGAIN)
		return;
	if (error == ECONNREFUSED && ++refused_ < refusals) {
		redial_at_ = now() + (redial_pause << (2 * (refused_ - 1)));
		understudy::at(watched, redial_at_);
		return;
	}
	if (error) {
		end(error, End::reset);
		return;
	}
	error = push_frame();
	if (!error)
		error = pull_frame(KIW_MPA_REPLY, reply);
	if (!error)
		reply_received(reply);
	else if (error != EAGAIN && error != EINTR)
		connect_lost(error);
}

int Endpoint::connect(void *user, Qp &qp, int socket, const Address &local, const Address &remote, const Wanted &wanted,
	Endpoint *&endpoint)
{
	if (wanted.ird > limits::rd_atom || wanted.ord > limits::rd_atom || wanted.length > KIW_MPA_PD_MAX ||
		local.any.sa_family != remote.any.sa_family)
		return EINVAL;
	auto *made = make<Endpoint>();
	if (!made)
		return ENOMEM;
	Endpoint &ep = *made;
	ep.initiates = true;
	int error = 0;
	{
		Turn turn(ep.lock);
		Startup &su = *ep.startup_;

		ep.local = local;
		ep.remote = remote;
		ep.configure();
		su.cfg.ird = wanted.ird;
		su.cfg.ord = wanted.ord;
		su.data_length = wanted.length;
		if (wanted.length)
			std::memcpy(su.data, wanted.private_data, wanted.length);
		error = ep.compose_request();
		if (!error)
			error = ep.bind_qp(qp);
		if (!error)
			error = understudy::watch(ep.watched, socket, understudy::stream_events);
		if (!error) {
			ep.watches_ = true;
			ep.fd = socket;
			ep.user = user;
			ep.watched.get(); // the user's
			ep.limit(options.connect_timeout * second);
			// What TCP says at once is told like what it says later.
			if (const int refused = ep.dial())
				ep.end(refused, End::reset);
		} else {
			ep.drop_qp();
			ep.state = State::dead;
			ep.alive_ = false;
		}
	}
	if (error)
		ep.watched.put();
	else
		endpoint = made;
	return error;
}

// --- the responder --------------------------------------------------------------------------------

void Endpoint::begin_serving(Listener &listener, int socket)
{
	Turn turn(lock);
	socklen_t length = sizeof(local.storage);

	fd = socket;
	configure();
	startup_->accepted = now();
	state = State::request_wait;
	sys::getsockname(socket, &local.any, &length);
	length = sizeof(remote.storage);
	sys::getpeername(socket, &remote.any, &length);
	local.unmap();
	remote.unmap();
	if (!listener.add(*this)) {
		count(KIW_STAT_MPA_REJECTS);
		end(0, End::reset);
		return;
	}
	listener.watched.get();
	listener_ = &listener;
	if (understudy::watch(watched, socket, understudy::stream_events)) {
		end(0, End::reset);
		return;
	}
	watches_ = true;
	limit(options.mpa_timeout * second);
}

/// The endpoint is none of those any more that wait for a decision.
void Endpoint::leave_listener()
{
	if (!listener_)
		return;
	listener_->remove(*this);
	listener_->watched.put();
	listener_ = nullptr;
}

void Endpoint::asked(std::uint8_t &their_ird, std::uint8_t &their_ord) const
{
	const kiw_mpa_frame &request = startup_->request;
	const auto depth = [&](std::uint16_t value) {
		return !request.enhanced || value == KIW_DEPTH_UNSET ? static_cast<std::uint8_t>(limits::rd_atom)
								     : at_most_255(value);
	};

	their_ird = depth(request.ird);
	their_ord = depth(request.ord);
}

void Endpoint::request_received()
{
	Startup &su = *startup_;
	kiw_mpa_frame reply{};

	// The initiator has to wait for our Reply.
	if (has_excess() || kiw_mpa_answer(&su.cfg, &su.request, &reply, &su.terms) == KIW_ERR_LLP_FRAME) {
		count(KIW_STAT_MPA_MALFORMED);
		end(0, End::fin);
		return;
	}
	if (su.request.pd_len > UINT8_MAX) {
		refuse(nullptr, 0);
		return;
	}
	state = State::request_ready;
	tell_request();
}

void Endpoint::tell_request()
{
	Time again = never;

	if (!listener_->may_tell(*this, again)) {
		if (again != never)
			understudy::at(watched, again);
		return;
	}
	told = startup_->request.pd;
	told_length = startup_->request.pd_len;
	if (!listener_->tell(*this)) {
		again_after(memory_pause);
	} else if (!user) {
		end(0, End::fin);
	} else {
		state = State::requested;
		limit(decide_for);
	}
	told = nullptr;
	told_length = 0;
}

/// A peer that sends or closes while it should wait for the Reply has given up, or knows no MPA.
bool Endpoint::peer_waits() const
{
	return tcp_state(fd) == TCP_ESTABLISHED && !has_excess();
}

void Endpoint::run_accept()
{
	if (expired()) {
		if (state == State::request_ready || state == State::requested) {
			refuse(nullptr, 0);
			return;
		}
		count(KIW_STAT_MPA_TIMEOUTS);
		end(0, End::reset);
		return;
	}
	int error = 0;
	switch (state) {
	case State::request_wait:
		error = pull_frame(KIW_MPA_REQUEST, startup_->request);
		if (!error)
			request_received();
		else if (error != EAGAIN && error != EINTR)
			end(0, End::fin);
		break;
	case State::request_ready:
		if (peer_waits())
			tell_request();
		else
			end(0, End::fin);
		break;
	case State::requested:
		if (!peer_waits())
			end(0, End::fin);
		break;
	default:
		if (send_reply())
			end(0, End::reset);
	}
}

void Endpoint::compose_reply(kiw_mpa_frame &reply, const void *data, std::uint16_t length)
{
	Startup &su = *startup_;

	reply.pd = static_cast<const std::uint8_t *>(data);
	reply.pd_len = length;
	su.out_length = static_cast<std::uint16_t>(kiw_mpa_build(su.out, &reply));
	su.out_sent = 0;
	limit(options.mpa_timeout * second);
	state = State::reply_send;
}

/// Sends what can be sent of the Reply, and goes on when that was all.
int Endpoint::send_reply()
{
	const int error = push_frame();

	if (error)
		return error == EAGAIN ? 0 : error;
	if (startup_->reject) {
		end(0, End::fin);
		return 0;
	}
	if (const int failed = open(startup_->terms))
		return failed;
	if (startup_->terms.p2p) {
		limit(options.mpa_timeout * second);
		state = State::rtr_wait;
	} else {
		establish();
	}
	report();
	return 0;
}

/// Tells the peer that nothing comes of it, as far as it can still be told, and ends.
void Endpoint::refuse(const void *data, std::uint16_t length)
{
	Startup &su = *startup_;
	kiw_mpa_frame reply{};

	count(KIW_STAT_MPA_REJECTS);
	leave_listener();
	drop_qp();
	final_ = true;
	kiw_mpa_answer(&su.cfg, &su.request, &reply, &su.terms);
	reply.reject = true;
	su.reject = true;
	compose_reply(reply, data, length);
	if (send_reply())
		end(0, End::reset);
}

int Endpoint::accept(Qp &qp, const Wanted &wanted)
{
	Turn turn(lock);

	if (state != State::requested)
		return ECONNRESET;
	Startup &su = *startup_;
	kiw_mpa_frame reply{};
	leave_listener();
	int error = peer_waits() ? 0 : ECONNRESET;
	if (!error && (wanted.ird > limits::rd_atom || wanted.ord > limits::rd_atom))
		error = EINVAL;
	if (!error) {
		configure(); // options may have changed
		su.cfg.ird = wanted.ird;
		su.cfg.ord = wanted.ord;
		// Where the peer's ORD is beyond us it has to lower it: that it is told is enough.
		kiw_mpa_answer(&su.cfg, &su.request, &reply, &su.terms);
		error = wanted.length > kiw_mpa_pd_max(&reply) ? EINVAL : bind_qp(qp);
	}
	if (!error) {
		compose_reply(reply, wanted.private_data, wanted.length);
		error = send_reply();
	}
	if (!error)
		return 0;
	// It never was a connection.
	final_ = true;
	if (su.out_sent)
		end(0, End::reset);
	else
		refuse(nullptr, 0);
	return error;
}

int Endpoint::reject(const void *data, std::uint16_t length)
{
	Turn turn(lock);

	if (state == State::requested)
		refuse(data, length);
	return 0;
}

// --- events ---------------------------------------------------------------------------------------

void Endpoint::run_open(std::uint32_t news)
{
	if (state == State::rtr_wait && (news & stream_established))
		establish();
	report();
	if (news & stream_ended) {
		end(0, End::done);
		return;
	}
	if ((news & stream_closing) && state != State::closing)
		begin_closing();
	if (state == State::closing) {
		if (stalled())
			end(0, End::reset);
	} else if (expired()) { // no RTR message came
		count(KIW_STAT_MPA_TIMEOUTS);
		end(0, End::reset);
	}
}

void Endpoint::run(std::uint32_t news)
{
	if ((news & stream_aborted) && state < State::linger) {
		end(ECONNABORTED, End::fin);
		return;
	}
	if (role_ && state < State::rtr_wait) {
		role_->run(*this, news);
		if (deadline_ != never && state != State::dead)
			understudy::at(watched, deadline_);
		return;
	}
	switch (state) {
	case State::fresh:
	case State::dial_wait:
	case State::dead:
		break;
	case State::connecting:
	case State::reply_wait:
		run_connect();
		break;
	case State::request_wait:
	case State::request_ready:
	case State::requested:
	case State::reply_send:
		run_accept();
		break;
	case State::rtr_wait:
	case State::open:
	case State::closing:
		run_open(news);
		break;
	case State::linger:
		run_linger();
		break;
	}
	if (deadline_ != never && state != State::dead)
		understudy::at(watched, deadline_);
}

void Endpoint::on_event(Watched &watched, std::uint32_t)
{
	Endpoint &ep = of(watched);
	bool retires = false;
	{
		Turn turn(ep.lock);
		const bool was_dead = ep.state == State::dead;

		ep.run(ep.inbox.take());
		ep.report();
		// Once, when there is nothing left to do or to tell.
		if (ep.state == State::dead && was_dead && !ep.owed_ && ep.alive_) {
			ep.alive_ = false;
			retires = true;
		}
	}
	if (retires) {
		understudy::forget(watched);
		watched.put();
	}
}

void Endpoint::leave()
{
	{
		Turn turn(lock);

		user = nullptr;
		if (state == State::requested)
			refuse(nullptr, 0);
		else if (state < State::rtr_wait)
			end(ECONNABORTED, initiates ? End::fin : End::reset);
		else if (state < State::closing && qp_)
			qp_->modify_state(IBV_QPS_ERR);
	}
	watched.put();
}

void Endpoint::disconnect()
{
	Turn turn(lock);

	if (qp_ && state >= State::rtr_wait && state <= State::closing)
		qp_->modify_state(IBV_QPS_SQD);
}

void Endpoint::lose_qp()
{
	Turn turn(lock);

	if (qp_ && state < State::linger)
		end(ECONNABORTED, End::fin);
}

} // namespace kiwu
