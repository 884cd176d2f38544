// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "qp.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <new>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "batch.hpp"
#include "count.hpp"
#include "endings.hpp"
#include "memory.hpp"
#include "proto/term.h"
#include "region.hpp"
#include "rings.hpp"
#include "stats.hpp"
#include "sys.hpp"
#include "table.hpp"

namespace kiwu {

namespace {

// Rounds that a thread makes before it leaves the rest to the understudy, and batches in each
constexpr int rounds = 8;
constexpr int batches = 32;
// Bytes that a session takes in one go
constexpr std::uint32_t feed_budget = 1 << 20;
// From so many bytes on that TCP has of a segment's payload, they go to their place at once and not by the stage.
// Behind a segment of that length, the stage gets no more than that segment's rest and the next one's headers, since
// the next one is likely to be as long.
constexpr std::uint32_t direct_from = 16 << 10;
constexpr std::uint32_t headers = 256;
// How long the understudy leaves a stream to a thread that polls for it, before it looks whether that still does. It
// looks less often, the longer it has been so.
constexpr Time first_pause = 50 * microsecond, longest_pause = millisecond;
// After which something is tried again that failed for want of memory
constexpr Time memory_pause = millisecond;

// Protects which queue pairs exist; outside of their locks.
constinit kiw::Lock existence;
constinit Table<Qp> numbers;
// Queue pairs with memory of the process in an unsent batch
constinit std::atomic<std::uint32_t> lending = 0;

// How long a program's requests have waited for an acknowledgment before the understudy looks for it, and looks less
// often. TCP tells of none.
constexpr Time first_ack_pause = 50 * microsecond, longest_ack_pause = millisecond;

constexpr unsigned remote_rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

constexpr MemberCalls member_calls = {
	.poll = [](Qp &qp) { return qp.poll(); },
	.unmute = [](Qp &qp) { qp.unmute(); },
};

} // namespace

// --- life -----------------------------------------------------------------------------------------

Qp::Qp() noexcept : watched(on_event, on_release)
{
	init();
}

Qp::Qp(const Kind &kind) noexcept : watched(on_event, kind.release), kind(&kind)
{
	init();
}

void Qp::init()
{
	seat.qp = this;
	core.manner = &manner_cm;
	core.state = KIW_QP_IDLE;
	core.shown = IB_QPS_INIT;
	core.flush = IB_WC_WR_FLUSH_ERR;
	core.own.access = remote_rights;
	srq_wait.stream = this;
	srq_wait.wake = [](SrqWait &wait) {
		understudy::queue(static_cast<Qp *>(wait.stream)->watched);
	};
}

void Qp::use(kiw_cq &send, kiw_cq &recv)
{
	send.watched.get();
	recv.watched.get();
	send_cq = &send;
	recv_cq = &recv;
}

int Qp::make(std::uint32_t send_stride, std::uint32_t recv_stride)
{
	const std::uint32_t sges = core.sq.max_sge + std::uint32_t{core.rq.max_sge};

	core.sq.owner = core.rq.owner = &core.own;
	core.sq.cq = send_cq;
	core.rq.cq = recv_cq;
	core.sq.swr = static_cast<struct kiw_swr *>(std::calloc(core.sq.entries, sizeof(*core.sq.swr)));
	sges_ = static_cast<kiw_sge *>(std::calloc(sges, sizeof(*sges_)));
	if (!core.sq.swr || !sges_ || !make_ring(core.sq.map, core.sq.entries, send_stride) ||
		(core.rq.entries && !make_ring(core.rq.map, core.rq.entries, recv_stride)))
		return ENOMEM;
	if (const int error = numbers.insert(core.own.num, this))
		return error;
	int error = join(*send_cq, *this, member_calls);
	if (!error && recv_cq != send_cq)
		error = join(*recv_cq, *this, member_calls);
	if (error)
		withdraw();
	return error;
}

/// Nobody finds it any more.
void Qp::withdraw()
{
	{
		kiw::Guard guard(existence);

		numbers.remove(core.own.num);
	}
	leave(*send_cq, *this);
	leave(*recv_cq, *this);
}

void Qp::end()
{
	withdraw();
	understudy::forget(watched);
	unbind_all(core.own);
	watched.put();
}

void Qp::on_release(Watched &watched)
{
	Qp &qp = of(watched);

	qp.free_queues();
	kiw::destroy(&qp);
}

void Qp::free_queues()
{
	free_ring(core.sq.map);
	free_ring(core.rq.map);
	std::free(core.sq.swr);
	std::free(sges_);
	send_cq->watched.put();
	recv_cq->watched.put();
}

Qp *find_qp(std::uint32_t number)
{
	return number < Table<Qp>::size ? numbers.find(number) : nullptr;
}

Qp *get_qp(std::uint32_t number)
{
	kiw::Guard guard(existence);
	Qp *qp = find_qp(number);

	if (qp)
		qp->watched.get();
	return qp;
}

void copy_all_lent()
{
	if (!lending.load(std::memory_order_acquire))
		return;
	kiw::Guard guard(existence);

	numbers.for_each([](Qp &qp) {
		qp.copy_lent();
		return lending.load(std::memory_order_relaxed) != 0;
	});
}

void forget_qps()
{
	numbers.begin_anew();
	existence.~Lock();
	::new (&existence) kiw::Lock;
	lending.store(0, std::memory_order_relaxed);
	endings.store(0, std::memory_order_relaxed);
	forget_counters();
}

bool end_all()
{
	bool any = false;
	kiw::Guard guard(existence);

	numbers.for_each([&](Qp &qp) {
		Turn turn(qp.lock);

		if (qp.inbox) {
			qp.inbox->post(stream_aborted);
			any = true;
		}
		return true;
	});
	return any;
}

/// Called before the use of the region ends: a thread that removes the region then finds either the use or this count.
void Qp::will_lend()
{
	if (lends_)
		return;
	lends_ = true;
	lending.fetch_add(1, std::memory_order_relaxed);
}

/// Lends it still? Afterwards, under the lock.
void Qp::count_lending()
{
	const bool lends = ss.tx.batch.lent != 0;

	if (lends == lends_)
		return;
	lends_ = lends;
	if (lends)
		lending.fetch_add(1, std::memory_order_release);
	else
		lending.fetch_sub(1, std::memory_order_release);
}

void Qp::copy_lent()
{
	Turn turn(lock);
	kiw_batch &batch = ss.tx.batch;

	if (!batch.lent) {
		count_lending();
		return;
	}
	kiw_tx_count(&ss, batch.sent, std::min(batch.lent, batch.sent), 0);
	// Without memory the connection has to go, since the region does.
	if (!kiwu::copy_lent(batch)) {
		kiw_session_event(&ss, KIW_EV_LLP_LOST);
		kiw_tx_drop(&ss);
		due = true;
		understudy::queue(watched);
	}
	count_lending();
}

int Qp::bind(Inbox &wanted, bool numbered)
{
	Turn turn(lock);

	if (inbox || dying || core.state != KIW_QP_IDLE || by_number != numbered || (numbered && peer.over))
		return EISCONN;
	inbox = &wanted;
	wanted.watched.get();
	return 0;
}

void Qp::unbind(Inbox &former)
{
	bool ours = false;
	{
		Turn turn(lock);

		ours = inbox == &former;
		if (ours)
			inbox = nullptr;
	}
	if (ours)
		former.watched.put();
}

// --- sending --------------------------------------------------------------------------------------

/// As kiw_tx_run()
bool Qp::send_some(int most)
{
	if (broken_)
		return false;
	const bool more = kiw_tx_run(&ss, most);

	if (ss.tx.lost) {
		// What the peer sent before is taken first: a peer that exits with bytes unread has its TCP reset.
		ss.tx.lost = false;
		broken_ = more_ = due = true;
	}
	count_lending();
	if (ss.tx.starved)
		late(memory_pause);
	return more && !ss.tx.starved;
}

// --- receiving ------------------------------------------------------------------------------------

/// Whether the last segment is a long one, and the payload of such goes to its place at once
bool Qp::is_long() const
{
	return ss.rx.seg.payload_len >= direct_from && ss.rx.seg.op != KIW_OP_TERMINATE && !ss.rx.use_crc &&
	       !ss.rx.use_markers;
}

/// Bytes behind the stage's that TCP has and that belong to a long payload, if they are many
std::uint32_t Qp::find_direct()
{
	const kiw_receive &rx = ss.rx;

	if (rx.stopped || !is_long() || rx.stage != KIW_RECEIVE_PAYLOAD || rx.left < stage_used_ + direct_from)
		return 0;
	const int queued = bytes_in_socket();
	return queued < static_cast<int>(direct_from)
		       ? 0
		       : std::min(rx.left - stage_used_, static_cast<std::uint32_t>(queued));
}

/// Or fewer, if the last call has told
int Qp::bytes_in_socket()
{
	constexpr int one = 1;
	int queued = 0;

	if (left_ > 0)
		return left_;
	// A kernel without that option is asked each time.
	if (!tells_left_)
		tells_left_ = sys::set(fd, IPPROTO_TCP, TCP_INQ, one) == 0;
	return sys::ioctl(fd, FIONREAD, &queued) ? 0 : queued;
}

/// How much the stage may take
std::uint32_t Qp::stage_room() const
{
	const std::uint32_t room = static_cast<std::uint32_t>(stage_size) - stage_used_;

	return is_long() ? std::min(room, (ss.rx.stage == KIW_RECEIVE_PAYLOAD ? ss.rx.left : 0) + headers) : room;
}

/// Gets what the socket has into the stage.
void Qp::fill_stage()
{
	const std::uint32_t room = stage_room();
	iovec part = {.iov_base = stage_ + stage_used_, .iov_len = room};

	left_ = -1;
	const ssize_t got = tells_left_ && is_long() ? sys::recvmsg(fd, &part, 1, left_)
						     : sys::recv(fd, part.iov_base, part.iov_len);

	if (got > 0)
		stage_used_ += static_cast<std::uint32_t>(got);
	else if (got == 0)
		eof_ = true;
	else if (got != -EAGAIN && got != -EINTR)
		error_ = static_cast<int>(-got);
	// The call that failed to send has had the socket's error.
	if (eof_ && broken_)
		error_ = ECONNRESET;
	// What comes behind less than was asked for wakes the understudy. An end or urgent data may be there already; a
	// thread that polls comes again.
	more_ = got > 0 && may_have_more(static_cast<std::uint32_t>(got) == room);
}

/// full: The last call got all that it asked for.
bool Qp::may_have_more(bool full) const
{
	return (told_ && !polled_) || (left_ < 0 ? full : left_ > 0);
}

/// Takes what the socket has, and gives it to the session.
void Qp::take()
{
	const bool waited = kiw_receive_waits(&ss.rx);
	std::uint32_t direct = 0;

	more_ = false;
	// A segment that waits for its receive request has its header: nothing behind it can be looked at.
	if (!waited && !eof_ && !error_) {
		if (!stage_ && !(stage_ = take_stage())) {
			late(memory_pause);
			return;
		}
		if (stage_first_) {
			std::memmove(stage_, stage_ + stage_first_, stage_used_);
			stage_first_ = 0;
		}
		direct = find_direct();
		if (!direct)
			fill_stage();
	}
	const bool full = direct && direct == ss.rx.left - stage_used_;
	feed(direct);
	if (direct)
		more_ = may_have_more(full);
	if (waited && !kiw_receive_waits(&ss.rx))
		more_ = true;
	if ((eof_ || error_) && !fin_received && !kiw_receive_waits(&ss.rx))
		take_end(error_);
	else if (eof_ && !error_ && kiw_tx_awaits(&ss))
		look_for_reset();
}

/// The peer has closed its direction, and may have reset the connection since: what it hasn't acknowledged it won't.
void Qp::look_for_reset()
{
	tcp_info info{};

	if (sys::get(fd, IPPROTO_TCP, TCP_INFO, info) || info.tcpi_state != TCP_CLOSE)
		return;
	kiw_tx_take_back(&ss);
	if (!kiw_tx_awaits(&ss))
		return;
	error_ = ECONNRESET;
	if (core.state != KIW_QP_RTS)
		lost();
}

/// The peer's request waits for the acknowledgment of a message that has ended. TCP alone would delay it up to 40 ms.
void Qp::acknowledge()
{
	constexpr int one = 1;

	if (ss.tx.acked && ss.rx_ended)
		sys::set(fd, IPPROTO_TCP, TCP_QUICKACK, one);
	ss.rx_ended = false;
}

/// Has the session take apart what is in the stage, and so much of a payload behind it as the socket has.
void Qp::feed(std::uint32_t direct)
{
	kiw_cursor ahead{}, cursor{};

	if (stage_used_ || direct || ss.rx.held) {
		cursor.n = stage_used_ + direct;
		cursor.source = {.seq = taken_, .end = taken_ + cursor.n};
		cursor.p = stage_ + stage_first_;
		cursor.staged = stage_used_;
		cursor.fd = fd;
		cursor.stage = stage_;
		cursor.room = headers;
		cursor.left = -1;
		cursor.ahead = &ahead;
		kiw_session_feed(&ss, &cursor.source, feed_budget);
		if (direct)
			left_ = cursor.left;
		if (ss.rx.stopped)
			kiw_cursor_skip(&cursor, cursor.staged);
		taken_ = cursor.source.seq;
		stage_first_ = static_cast<std::uint32_t>(cursor.p - stage_);
		stage_used_ = cursor.staged;
	}
	if (stage_used_ || !stage_)
		return;
	leave_stage(stage_);
	stage_ = nullptr;
	stage_first_ = 0;
}

/// The connection broke, or the peer closed it, behind what was taken.
void Qp::take_end(int error)
{
	if (error && !(kiw_core_manner(&core)->outlives && core.state == KIW_QP_RTS))
		lost();
	else
		peer_gone();
}

/// Whether anything is under way that the end of the connection breaks off
bool Qp::unfinished() const
{
	if (!ss.rx.between)
		return true;
	if (!kiw_core_manner(&core)->outlives)
		return kiw_tx_unfinished(&ss);
	return ss.recv.taken || kiw_tx_begun(&ss) || (error_ && kiw_tx_awaits(&ss));
}

void Qp::lost()
{
	fin_received = true;
	kiw_tx_take_back(&ss);
	if (core.state == KIW_QP_CLOSING && kiw_core_manner(&core)->outlives && !kiw_tx_awaits(&ss))
		kiw_session_event(&ss, KIW_EV_CLOSE_DONE);
	else
		kiw_session_broken_off(&ss, KIW_EV_LLP_LOST);
	due = true;
}

/// The peer has closed its direction, or, by number, has reset the connection.
void Qp::peer_gone()
{
	fin_received = true;
	if (core.state == KIW_QP_RTS)
		kiw_sq_rest(&core.sq, 0);
	if (unfinished())
		kiw_session_broken_off(&ss, KIW_EV_PEER_FIN_BUSY);
	else
		kiw_session_event(&ss, KIW_EV_PEER_FIN);
	due = true;
}

/// What is under way when a connection by number ends has had its time, or none is any more.
void Qp::look_again()
{
	const unsigned long time = kiw_carrier_now();

	if (!error_ && !unfinished())
		kiw_session_event(&ss, KIW_EV_PEER_FIN);
	else if (static_cast<long>(time - ss.gone_end) < 0)
		late((ss.gone_end - time) * millisecond);
	else
		kiw_session_broken_off(&ss, KIW_EV_LLP_LOST);
}

// --- what is due ----------------------------------------------------------------------------------

/// Both directions may be closed by now.
void Qp::check_closed()
{
	if (fin_sent && fin_received && !ss.gone && !kiw_tx_awaits(&ss) &&
		(core.state == KIW_QP_CLOSING || core.state == KIW_QP_TERMINATE))
		kiw_session_event(&ss, KIW_EV_CLOSE_DONE);
}

void Qp::send_fin()
{
	fin_sent = true;
	sys::shutdown(fd, SHUT_WR);
	if (inbox)
		inbox->post(stream_closing);
}

/// What is left of the batch, and the Terminate, go to TCP, and what TCP has no room for to the endpoint. Without
/// memory they stay.
void Qp::push_all()
{
	do {
		send_some(1);
		keeps_ = keeps_ || ss.tx.stuck;
	} while (kiw_tx_pending(&ss) && core.state != KIW_QP_IDLE && !error_ && !broken_ && !ss.tx.starved);
}

int Qp::keep(kiw_batch &batch)
{
	std::array<iovec, batch_pieces> rest;
	const std::uint32_t parts = rest_of(batch, rest.data());
	void *more = std::realloc(remains_.bytes, remains_.length + (batch.len - batch.sent));

	if (!more)
		return -ENOMEM;
	remains_.bytes = static_cast<std::uint8_t *>(more);
	for (std::uint32_t i = 0; i < parts; i++) {
		std::memcpy(remains_.bytes + remains_.length, rest[i].iov_base, rest[i].iov_len);
		remains_.length += rest[i].iov_len;
	}
	batch.sent = batch.len;
	return 0;
}

/// The connection is broken off from this side, which the peer learns by a FIN, and by a Terminate where anything is
/// left undone.
void Qp::break_off()
{
	ss.todo &= ~(KIW_ACT_ABORT | KIW_ACT_SEND_FIN);
	if (fin_sent || !ss.tx.gate || error_ || broken_)
		return;
	push_all();
	if (!ss.terminated && !kiw_tx_pending(&ss) && kiw_tx_unfinished(&ss)) {
		kiw_session_terminate(&ss, KIW_ERR_LOCAL_CATASTROPHE, nullptr, 0, 0);
		push_all();
	}
	if (!kiw_tx_pending(&ss) && !keeps_)
		send_fin();
}

void Qp::act()
{
	if ((ss.todo & KIW_ACT_SEND_FIN) && !kiw_tx_pending(&ss)) {
		ss.todo &= ~KIW_ACT_SEND_FIN;
		send_fin();
		check_closed();
	}
	if (ss.todo & KIW_ACT_ABORT)
		break_off();
	if ((ss.todo & KIW_ACT_FLUSH_RQ) &&
		!(kiw_core_manner(&core)->outlives && (core.state == KIW_QP_CLOSING || core.state == KIW_QP_IDLE)))
		kiw_rq_flush(&core.rq, &ss.recv);
	if (ss.todo & KIW_ACT_ASYNC)
		raise(*this, ss.async);
	if ((ss.todo & KIW_ACT_LAST_WQE) && srq)
		raise(*this, IBV_EVENT_QP_LAST_WQE_REACHED);
	if (ss.todo & KIW_ACT_FLUSH_SQ) {
		// The process gets its buffers back.
		if (lends_ && !kiwu::copy_lent(ss.tx.batch))
			kiw_tx_drop(&ss);
		count_lending();
		kiw_core_flush_sq(&core);
	}
	if ((ss.todo & KIW_ACT_CLOSED) && inbox && !ended_) {
		inbox->post(stream_ended);
		ended_ = true;
	}
	ss.todo &= KIW_ACT_SEND_FIN;
}

/// Does once all that is due. Returns whether there is more.
bool Qp::round(bool receive)
{
	bool more = false;

	due = false;
	if (kiw_tx_awaits(&ss))
		kiw_tx_take_back(&ss);
	if (ss.gone)
		look_again();
	else if (receive || more_ || kiw_receive_waits(&ss.rx))
		take();
	if (broken_ && !more_ && !ss.gone && !kiw_receive_waits(&ss.rx) && core.state != KIW_QP_ERROR &&
		core.state != KIW_QP_IDLE)
		kiw_session_broken_off(&ss, KIW_EV_LLP_LOST);
	if (core.state == KIW_QP_RTS || core.state == KIW_QP_TERMINATE)
		more = send_some(batches);
	acknowledge();
	check_closed();
	act();
	return more || more_;
}

void Qp::settle(bool receive)
{
	if (kind) [[unlikely]] {
		kind->settle(*this, receive);
		return;
	}
	left_over_ = false;
	for (int i = 0; has_stream(); i++, receive = false) {
		if (i == rounds) {
			left_over_ = true;
			return;
		}
		if (!round(receive) && !due)
			return;
	}
}

/// Does what is due, and lets go of the lock. Returns whether anything has come in.
bool Qp::unlock(bool receive)
{
	const std::uint32_t before = taken_;

	settle(receive);
	await_acks();
	const bool any = before != taken_;
	// A thread that polls comes again. The understudy looks whether it does, as long as the stream is left to it.
	const bool left_over = left_over_ && has_stream() && !(polled_ && muted_.load(std::memory_order_relaxed));
	polled_ = false;
	if (left_over)
		watched.get();
	lock.unlock();
	if (left_over) {
		understudy::queue(watched);
		watched.put();
	}
	return any;
}

/// A thread that polls looks for acknowledgments itself; else the understudy does.
void Qp::await_acks()
{
	if (!has_stream() || !kiw_tx_awaits(&ss)) {
		acks_pause_ = first_ack_pause;
	} else if (acks_at_ == never && !muted_.load(std::memory_order_relaxed)) {
		acks_at_ = now() + acks_pause_;
		acks_pause_ = std::min(2 * acks_pause_, longest_ack_pause);
		understudy::at(watched, acks_at_);
	}
}

void Qp::late(Time delay)
{
	const Time time = now() + delay;

	late_at_ = std::min(late_at_, time);
	understudy::at(watched, time);
}

// --- threads --------------------------------------------------------------------------------------

bool Qp::poll()
{
	if (lock.wanted() || !lock.try_lock())
		return false;
	if (!has_stream()) {
		lock.unlock();
		return false;
	}
	polled_ = true;
	return unlock(true);
}

/// Whether a thread of the program polls for it. What told of something else in between sees that it did.
bool Qp::attended()
{
	if (send_cq->armed() || recv_cq->armed())
		return false;
	const std::uint32_t looks = send_cq->looks.load(std::memory_order_relaxed) +
				    (recv_cq != send_cq ? recv_cq->looks.load(std::memory_order_relaxed) : 0);
	const bool looked = looks != seen_;
	seen_ = looks;
	return looked;
}

void Qp::mute()
{
	pause_ = first_pause;
	{
		kiw::Guard guard(watch_lock_);

		if (watched.slot)
			understudy::rewatch(watched, fd, 0);
		muted_.store(true, std::memory_order_relaxed);
	}
	sample_at_ = now() + pause_;
	understudy::at(watched, sample_at_);
}

void Qp::unmute()
{
	if (!muted_.load(std::memory_order_relaxed))
		return;
	kiw::Guard guard(watch_lock_);

	muted_.store(false, std::memory_order_relaxed);
	understudy::rewatch(watched, fd, understudy::stream_events);
}

/// Time has passed: the thread that polled for it may have ceased to.
void Qp::sample()
{
	if (!muted_.load(std::memory_order_relaxed)) {
		sample_at_ = never;
	} else if (attended()) {
		pause_ = std::min(2 * pause_, longest_pause);
		sample_at_ = now() + pause_;
		understudy::at(watched, sample_at_);
	} else {
		sample_at_ = never;
		unmute();
	}
}

/// The understudy does what is due.
void Qp::play(std::uint32_t what)
{
	lock.lock();
	const bool more = has_stream();
	told_ |= (what & ~(understudy::data_events | watched_queued)) != 0;
	unlock(more);
	if (more)
		understudy::stay_awake();
	// Threads of the program go first.
	if (lock.wanted())
		sys::yield();
}

void Qp::on_event(Watched &watched, std::uint32_t what)
{
	Qp &qp = of(watched);

	if (what & watched_time) {
		const Time time = now();

		if (time >= qp.sample_at_)
			qp.sample();
		else if (qp.sample_at_ != never)
			understudy::at(watched, qp.sample_at_);
		qp.lock.lock();
		bool due = time >= qp.late_at_ || time >= qp.acks_at_;
		if (time >= qp.late_at_)
			qp.late_at_ = never;
		if (time >= qp.acks_at_)
			qp.acks_at_ = never;
		if (const Time next = std::min(qp.late_at_, qp.acks_at_); next != never)
			understudy::at(watched, next);
		due |= qp.peer_time(time);
		qp.lock.unlock();
		if (due)
			qp.play();
		return;
	}
	if (!(what & watched_queued) && qp.attended())
		qp.mute();
	else
		qp.play(what);
}

// --- doorbells ------------------------------------------------------------------------------------

int Qp::ring_send()
{
	int error = 0;

	if (kind) [[unlikely]]
		return kind->ring_send(*this);
	lock.lock();
	if (has_stream()) {
		if (core.state == KIW_QP_CLOSING && !kiw_core_manner(&core)->outlives)
			kiw_session_event(&ss, KIW_EV_ACTIVITY);
		else if (core.state == KIW_QP_ERROR)
			ss.todo |= KIW_ACT_FLUSH_SQ;
	} else if (is_over()) {
		kiw_core_flush_sq(&core);
	} else if (by_number && core.state == KIW_QP_IDLE && core.shown == IBV_QPS_RTS) {
		await_peer();
	} else {
		error = EINVAL;
	}
	// By number nothing is sent behind the peer's FIN: its TCP acknowledges such bytes and drops them.
	unlock(ss.tx.acked);
	return error;
}

int Qp::ring_recv()
{
	int error = 0;

	if (kind) [[unlikely]]
		return kind->ring_recv(*this);
	lock.lock();
	if (has_stream()) {
		if (core.state == KIW_QP_ERROR || core.state == KIW_QP_CLOSING)
			ss.todo |= KIW_ACT_FLUSH_RQ;
	} else if (is_over()) {
		kiw_rq_flush(&core.rq, nullptr);
	} else if (core.shown == IB_QPS_RESET) {
		error = EINVAL;
	}
	unlock(false);
	return error;
}

// --- the beginning and the end of a stream --------------------------------------------------------

int Qp::start(Inbox &wanted, int socket, const kiw_mpa_result &terms, bool first)
{
	Turn turn(lock);
	constexpr int one = 1;

	if (!kiw_qp_next(static_cast<kiw_qp_state>(core.state), KIW_EV_CONNECTED).valid || dying || inbox != &wanted)
		return EISCONN;
	std::memset(static_cast<void *>(&ss), 0, sizeof(ss));
	ss.tx.req.sge = sges_;
	ss.recv.sge = sges_ + core.sq.max_sge;
	// Each Read under way has its place in the send queue, but for an RTR message.
	const std::uint32_t ord = std::min<std::uint32_t>(terms.ord, core.sq.entries + 1);
	ss.tx.acks.mark = static_cast<kiw_acks_mark *>(
		kiw_reads_init(&ss.tx.reads_out, &ss.tx.reads_in, ord, terms.ird, core.sq.max_sge, KIW_ACKS_LEN));
	if (!ss.tx.acks.mark)
		return ENOMEM;
	sys::set(socket, IPPROTO_TCP, TCP_NODELAY, one);
	// Out-of-band bytes are bytes like all others.
	sys::set(socket, SOL_SOCKET, SO_OOBINLINE, one);
	fin_sent = fin_received = eof_ = ended_ = more_ = broken_ = told_ = tells_left_ = false;
	left_ = -1;
	error_ = 0;
	taken_ = 0;
	sent = 0;
	mss = 0;
	late_at_ = acks_at_ = never;
	acks_pause_ = first_ack_pause;
	fd = socket;
	ss.neg = terms;
	ss.core = &core;
	closed = false;
	core.caps = caps;
	kiw_session_start(&ss, 0, first);
	int error = 0;
	{
		kiw::Guard guard(watch_lock_);

		muted_.store(false, std::memory_order_relaxed);
		error = understudy::watch(watched, fd, understudy::stream_events);
	}
	if (error) {
		// Nothing has been sent or taken.
		core.state = KIW_QP_IDLE;
		ss.core = nullptr;
		fd = -1;
		kiw_reads_free(&ss.tx.reads_out, &ss.tx.reads_in);
		return error;
	}
	// A responder's peer is connected once it sends.
	if (first)
		peer.patient_until = never;
	watch_peer();
	settle(true);
	if (left_over_)
		understudy::queue(watched);
	return 0;
}

void Qp::fail(kiw_err error)
{
	lock.lock();
	if (has_stream())
		kiw_session_fail(&ss, error, nullptr, 0, 0);
	unlock(false);
}

void Qp::stop_watching()
{
	kiw::Guard guard(watch_lock_);

	muted_.store(false, std::memory_order_relaxed);
	understudy::unwatch(watched, fd);
}

Remains Qp::stop(const Inbox &former, bool orderly)
{
	Remains remains;
	Inbox *dropped = nullptr;
	{
		Turn turn(lock);

		if (has_stream() && inbox == &former) {
			stop_watching();
			detach(orderly, remains);
		}
		if (inbox == &former) {
			dropped = inbox;
			inbox = nullptr;
		}
	}
	if (dropped)
		dropped->watched.put();
	return remains;
}

/// The queue pair leaves the stream, in the state that it keeps.
void Qp::detach(bool orderly, Remains &remains)
{
	const bool loses = !orderly && ss.tx.acked && kiw_tx_awaits(&ss);

	if (!orderly || core.state == KIW_QP_TERMINATE)
		kiw_session_event(&ss, loses ? KIW_EV_LLP_LOST : KIW_EV_MODIFY_ERR);
	else
		kiw_session_event(&ss, KIW_EV_CLOSE_DONE);
	act();
	if (!fin_sent && !error_ && !broken_ && kiw_tx_pending(&ss))
		push_all();
	// Something that is cut off in the midst of an FPDU is no end: then TCP resets the connection.
	if (kiw_tx_pending(&ss) || broken_) {
		std::free(remains_.bytes);
		remains_ = {};
	}
	remains = remains_;
	remains.fin_sent = fin_sent;
	remains_ = {};
	keeps_ = false;
	kiw_tx_drop(&ss);
	count_lending();
	leave_memory(ss.tx.batch);
	sent_fpdus.fetch_add(ss.tx.sent_fpdus, std::memory_order_relaxed);
	sent_bytes.fetch_add(ss.tx.sent_bytes, std::memory_order_relaxed);
	lent_bytes.fetch_add(ss.tx.lent_bytes, std::memory_order_relaxed);
	ss.todo = 0;
	if (stage_)
		leave_stage(stage_);
	stage_ = nullptr;
	stage_first_ = stage_used_ = 0;
	peer.untold = false;
	// One that was never established does not count.
	if (ss.tx.gate) {
		peer.over = true;
		peer.patient_until = never;
	}
	kiw_reads_free(&ss.tx.reads_out, &ss.tx.reads_in);
	ss.core = nullptr;
	fd = -1;
	if (core.state != KIW_QP_IDLE)
		return;
	closed = true;
	if (is_over()) {
		// What is posted from now on is flushed by the doorbell.
		kiw_core_flush_sq(&core);
		kiw_rq_flush(&core.rq, nullptr);
		if (srq)
			raise(*this, IBV_EVENT_QP_LAST_WQE_REACHED);
	} else {
		kiw_core_open_rings(&core);
		if (kiw_sq_posted(&core.sq))
			await_peer();
	}
}

// --- states ---------------------------------------------------------------------------------------

ibv_qp_state Qp::shown_state() const
{
	switch (core.state) {
	case KIW_QP_IDLE:
		return static_cast<ibv_qp_state>(core.shown);
	case KIW_QP_RTS:
		return core.shown == IB_QPS_RTR ? IBV_QPS_RTR : IBV_QPS_RTS;
	case KIW_QP_CLOSING:
		return IBV_QPS_SQD;
	case KIW_QP_TERMINATE:
		return IBV_QPS_SQE;
	default:
		return IBV_QPS_ERR;
	}
}

int Qp::modify_idle(const ibv_qp_attr &attr, int mask, const Peer *named)
{
	const ibv_qp_state to = attr.qp_state;
	kiw_qp_step step{};

	switch (to) {
	case IBV_QPS_RTR:
		if (named)
			return expect(*named);
		// A program that uses rdma_cm may ask for it before it accepts: nothing is to do.
		return core.state == KIW_QP_IDLE ? 0 : EINVAL;
	case IBV_QPS_RTS:
		return core.state == KIW_QP_IDLE ? ready(attr, mask) : EINVAL;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
		step = kiw_qp_next(static_cast<kiw_qp_state>(core.state), KIW_EV_MODIFY_RESET);
		if (!step.valid || (core.state == KIW_QP_ERROR && to == IBV_QPS_INIT))
			return EINVAL;
		// An error state that is left leaves empty rings behind.
		if (core.state == KIW_QP_ERROR)
			flush_idle();
		if (to == IBV_QPS_RESET) {
			kiw_sq_forget(&core.sq);
			kiw_rq_forget(&core.rq);
			unbind_all(core.own);
		}
		kiw_core_open_rings(&core);
		if (to == IBV_QPS_RESET)
			kiw_rq_call(&core.rq); // the doorbell refuses what is posted
		closed = false;
		forget_peer();
		core.shown = static_cast<u8>(to);
		core.state = step.next;
		return 0;
	case IBV_QPS_ERR:
		fail_idle();
		return 0;
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		// Both sides may close, each any number of times.
		return core.state == KIW_QP_ERROR || closed ? 0 : EINVAL;
	default:
		return EINVAL;
	}
}

int Qp::modify_connected(const ibv_qp_attr &attr, int mask, bool names)
{
	int error = 0;

	switch (attr.qp_state) {
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		// A program that uses rdma_cm and changes states by itself does so after the connection was made.
		// Nothing is to do.
		return !by_number && !names && (core.state == KIW_QP_RTS || core.state == KIW_QP_CLOSING) ? 0 : EINVAL;
	case IBV_QPS_RTS:
		if (!by_number)
			return core.state == KIW_QP_RTS ? 0 : EINVAL;
		// The peer may be closing or gone: the program can't know.
		if (core.state != KIW_QP_RTS && core.state != KIW_QP_CLOSING && core.state != KIW_QP_IDLE)
			return EINVAL;
		error = ready(attr, mask);
		if (!error && (mask & IBV_QP_MAX_QP_RD_ATOMIC))
			core.ord = std::min<u16>(core.ord, attr.max_rd_atomic);
		// It is another program's peer.
		if (error == EACCES)
			kiw_session_event(&ss, KIW_EV_MODIFY_ERR);
		return error;
	case IBV_QPS_SQD:
		// What was posted before is to be sent before, even if no doorbell rang.
		settle(false);
		if (core.state == KIW_QP_RTS)
			kiw_sq_rest(&core.sq, 0);
		kiw_session_event(&ss, kiw_tx_unfinished(&ss) ? KIW_EV_CLOSE_BUSY : KIW_EV_CLOSE);
		return 0;
	case IBV_QPS_SQE:
		kiw_session_event(&ss, KIW_EV_MODIFY_TERM);
		return 0;
	case IBV_QPS_ERR:
		kiw_session_event(&ss, KIW_EV_MODIFY_ERR);
		return 0;
	default:
		return EINVAL;
	}
}

/// rdma_cm takes a client's queue pair to INIT without any right, and a server's with Writes and Reads. Either means,
/// with a change of state, that the rights of the regions decide alone. By number, the program's count as they are.
void Qp::keep(const ibv_qp_attr &attr, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS) {
		unsigned access = attr.qp_access_flags;

		asked = static_cast<std::uint8_t>(access);
		if ((mask & IBV_QP_STATE) && !by_number &&
			(!access || access == (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)))
			access = remote_rights;
		set_access(access);
	}
	keep_path(attr, mask);
}

int Qp::modify(const ibv_qp_attr &attr, int mask, const Peer *named)
{
	const ibv_qp_state to = attr.qp_state;
	int error = 0;

	lock.lock();
	const bool connected = has_stream();
	if (!(mask & IBV_QP_STATE))
		error = 0;
	else if (by_number && (to == IBV_QPS_SQD || to == IBV_QPS_SQE))
		error = EINVAL; // a connection can't reopen a closed direction
	else
		error = connected ? modify_connected(attr, mask, named) : modify_idle(attr, mask, named);
	if (!error)
		keep(attr, mask);
	// A connection attempt of a queue pair in error is over.
	if (!error && !connected && (mask & IBV_QP_STATE) && to == IBV_QPS_ERR && inbox)
		inbox->post(stream_aborted);
	unlock(false);
	return error;
}

int Qp::modify_state(ibv_qp_state to)
{
	ibv_qp_attr attr{};

	attr.qp_state = to;
	return modify(attr, IBV_QP_STATE);
}

} // namespace kiwu
