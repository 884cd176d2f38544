// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What carries a session in the library: a TCP socket of the process. These are the functions of session/port.h. The
// lock of a session is that of its queue pair.
#include <cassert>
#include <cerrno>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "batch.hpp"
#include "count.hpp"
#include "options.hpp"
#include "qp.hpp"
#include "sys.hpp"

using kiwu::Qp;

namespace {

// Payload from which on an iovec is cheaper than a copy
constexpr u32 lend_from = 8192;
// Runs of the sender, or KB, after which TCP is asked again how long its segments are
constexpr u32 mss_for = 64;
// What any path carries, should TCP not tell
constexpr u32 usual_mss = 536;

void renew_mss(Qp &qp)
{
	int mss = 0;

	if (qp.mss && qp.mss_age < mss_for)
		return;
	qp.mss_age = 0;
	qp.mss = kiwu::sys::get(qp.fd, IPPROTO_TCP, TCP_MAXSEG, mss) || mss <= 0 ? usual_mss : static_cast<u32>(mss);
}

} // namespace

void kiw_carrier_assert_held(const kiw_session *s)
{
	assert(Qp::of(s).lock.is_held());
	(void)s;
}

unsigned long kiw_carrier_now(void)
{
	return kiwu::now() / kiwu::millisecond;
}

/// The lock's holder does it before letting go.
void kiw_carrier_kick(kiw_session *s)
{
	Qp::of(s).due = true;
}

void kiw_carrier_late(kiw_session *s, unsigned long delay)
{
	Qp::of(s).late(delay * kiwu::millisecond);
}

void kiw_carrier_established(kiw_session *s)
{
	if (Qp::of(s).inbox)
		Qp::of(s).inbox->post(kiwu::stream_established);
}

void kiw_carrier_closing(kiw_session *s)
{
	if (Qp::of(s).inbox)
		Qp::of(s).inbox->post(kiwu::stream_closing);
}

/// A program in RTR may wait for its peer's first message before it changes to RTS.
void kiw_carrier_begun(kiw_session *s)
{
	Qp &qp = Qp::of(s);

	if (qp.peer.begun)
		return;
	qp.peer.begun = true;
	qp.raise(qp, IBV_EVENT_COMM_EST);
}

// --- receive requests -----------------------------------------------------------------------------

void kiw_carrier_starve(kiw_session *s)
{
	Qp::of(s).starve_end = kiwu::now() + kiwu::options.receive_wait * kiwu::second;
}

bool kiw_carrier_waits(kiw_session *s)
{
	Qp &qp = Qp::of(s);
	const kiwu::Time time = kiwu::now();

	if (qp.by_number && !qp.peer.limited)
		return true;
	if (time >= qp.starve_end)
		return false;
	qp.late(qp.starve_end - time);
	return true;
}

bool kiw_carrier_shares(const kiw_session *s)
{
	return Qp::of(s).srq;
}

kiw_take kiw_carrier_take_shared(kiw_session *s, kiw_recv_req *req)
{
	return Qp::of(s).srq->take(Qp::of(s).srq_wait, *req);
}

void kiw_carrier_leave_shared(kiw_session *s)
{
	if (Qp::of(s).srq)
		Qp::of(s).srq->leave(Qp::of(s).srq_wait);
}

// --- TCP ------------------------------------------------------------------------------------------

gfp_t kiw_carrier_gfp(const kiw_session *)
{
	return 0;
}

u32 kiw_carrier_mss(const kiw_session *s)
{
	return Qp::of(s).mss;
}

u32 kiw_carrier_sent(const kiw_session *s)
{
	return static_cast<u32>(Qp::of(s).sent);
}

u32 kiw_carrier_acked(const kiw_session *s)
{
	const Qp &qp = Qp::of(s);
	int queued = 0;

	// Nobody waits for it otherwise.
	if (!s->tx.acks.num || kiwu::sys::ioctl(qp.fd, SIOCOUTQ, &queued))
		return static_cast<u32>(qp.sent);
	return static_cast<u32>(qp.sent) - static_cast<u32>(queued);
}

bool kiw_carrier_begin(kiw_session *s)
{
	Qp &qp = Qp::of(s);

	if (!s->neg.large) {
		qp.mss_age++;
		renew_mss(qp);
	}
	return kiwu::take_memory(s->tx.batch);
}

/// The understudy and polls look for acknowledgments: TCP tells of none.
void kiw_carrier_end(kiw_session *s, bool)
{
	kiwu::leave_memory(s->tx.batch);
}

bool kiw_carrier_takes(kiw_session *)
{
	return true;
}

int kiw_carrier_push(kiw_session *s, bool more)
{
	Qp &qp = Qp::of(s);
	if (qp.keeps())
		return qp.keep(s->tx.batch);
	const u32 before = s->tx.batch.sent;
	const int result = kiwu::push(s->tx.batch, qp.fd, (more ? MSG_MORE : 0) | (s->neg.large ? 0 : MSG_EOR));
	const u32 taken = s->tx.batch.sent - before;

	qp.sent += taken;
	if (!s->neg.large) {
		qp.mss_age += taken >> 10;
		renew_mss(qp);
	}
	return result;
}

/// A doorbell is a call: nothing is gained.
std::uint32_t kiw_carrier_gathers(kiw_session *)
{
	return 0;
}

void kiw_carrier_drop(kiw_session *s)
{
	kiw_batch_clear(&s->tx.batch);
}

// --- loans ----------------------------------------------------------------------------------------

/// TCP copies: a loan is over when TCP has taken its batch, and a mark is all that is needed. What a later request of
/// the peer changes must not be changed before.
kiw_loan *kiw_carrier_lend(kiw_session *s, u32 len)
{
	static constinit char mark = 0;

	if (s->neg.crc || s->neg.markers_tx || len < lend_from || (!s->neg.large && Qp::of(s).mss < lend_from))
		return nullptr;
	Qp::of(s).will_lend();
	return reinterpret_cast<kiw_loan *>(&mark);
}

bool kiw_carrier_lends(const kiw_session *s)
{
	return s->tx.batch.lent;
}

void kiw_carrier_hold(kiw_session *, u32) {}
void kiw_carrier_take_back(kiw_session *, u32 *) {}

// --- counters -------------------------------------------------------------------------------------

void kiw_carrier_count(kiw_session *, kiw_stat which)
{
	kiwu::count(which);
}

void kiw_carrier_count_sent(kiw_session *, u32, u32, u32) {}
