// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.hpp"

#include <algorithm>
#include <cerrno>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "count.hpp"
#include "limits.hpp"
#include "options.hpp"
#include "qp.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

constexpr kiw_manner by_number_manner = {.grace = 2, .outlives = true, .acked = true, .lost = IB_WC_RETRY_EXC_ERR};

// Shortest limit of a peer's silence: by then TCP has resent three times, or a probe got its answer.
constexpr Time least_silence = 2 * second;
// rnr_retry of messages that wait for a receive without limit
constexpr std::uint8_t rnr_endless = 7;
// Time that requests wait for a peer that was never connected
constexpr Time patience = 20 * second;
// After which a connection attempt that outlasts it is looked at again
constexpr Time attempt_pause = second;
// Unanswered keepalive probes after which a connection is lost
constexpr int probes = 3;
// Likewise, where the library itself decides when that is
constexpr int most_probes = 127;

void set_probes(int fd, bool on, int idle, int interval, int count)
{
	const int value = on;

	if (on) {
		sys::set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
		sys::set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
		sys::set(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
	}
	sys::set(fd, SOL_SOCKET, SO_KEEPALIVE, value);
}

/// Time after which a silent peer is lost, or 0: never
Time silence_limit(const Path &path)
{
	const unsigned timeout = path.timeout & 31U;

	if (!timeout)
		return 0;
	return std::max<Time>(least_silence, (Time{4096} << timeout) * ((path.retry_cnt & 7U) + 1));
}

} // namespace

void keep_alive(int fd, int seconds)
{
	set_probes(fd, seconds, seconds, std::max(seconds / probes, 1), probes);
}

// --- the program's attributes ---------------------------------------------------------------------

int Qp::expect(const Peer &named)
{
	if (core.state != KIW_QP_IDLE || core.shown != IBV_QPS_INIT || inbox)
		return EINVAL;
	peer = named;
	peer.ends.limited = peer.path.rnr_retry != rnr_endless;
	// A program that names its peer sets its rights itself.
	set_access(asked);
	by_number = true;
	core.flush = IB_WC_WR_FLUSH_ERR;
	core.manner = &by_number_manner;
	core.shown = IBV_QPS_RTR;
	return 0;
}

int Qp::ready(const ibv_qp_attr &attr, int mask)
{
	const bool first = core.shown == IBV_QPS_RTR;

	if (!by_number || (first && !(mask & IBV_QP_SQ_PSN)) ||
		((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > limits::rd_atom))
		return EINVAL;
	const std::uint32_t psn = mask & IBV_QP_SQ_PSN ? attr.sq_psn & KIW_PSN_MASK : peer.ends.sq_psn;
	if (peer.untold && psn != peer.told_psn)
		return EACCES;
	peer.untold = false;
	peer.ends.sq_psn = psn;
	peer.ends.ready = true;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		peer.ord = attr.max_rd_atomic;
	core.shown = IBV_QPS_RTS;
	if (first && inbox)
		inbox->post(stream_ready);
	return 0;
}

void Qp::keep_path(const ibv_qp_attr &attr, int mask)
{
	if (!by_number)
		return;
	if (mask & IBV_QP_PATH_MTU)
		peer.path.mtu = static_cast<std::uint8_t>(attr.path_mtu);
	if (mask & IBV_QP_TIMEOUT)
		peer.path.timeout = attr.timeout;
	if (mask & IBV_QP_RETRY_CNT)
		peer.path.retry_cnt = attr.retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		peer.path.rnr_retry = attr.rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		peer.path.min_rnr_timer = attr.min_rnr_timer;
	peer.ends.limited = peer.path.rnr_retry != rnr_endless;
	if (!(mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT)))
		return;
	peer.look_at = 0;
	// The time to wait for the peer begins anew, with its new limit.
	if (peer.patient_until != never) {
		peer.patient_until = never;
		await_peer();
	}
	set_peer_time();
}

void Qp::forget_peer()
{
	if (!by_number)
		return;
	by_number = false;
	core.manner = &manner_cm;
	peer.patient_until = peer.look_at = never;
	if (!inbox)
		return;
	// An attempt can't succeed any more: start() compares the inbox.
	inbox->post(stream_aborted);
	// The endpoint of a stream stops that, and lets go.
	if (has_stream())
		return;
	inbox->watched.put();
	inbox = nullptr;
}

Inbox *Qp::part_from_peer()
{
	Turn turn(lock);
	Inbox *left = by_number ? inbox : nullptr;

	if (left)
		left->watched.get();
	forget_peer();
	return left;
}

bool Qp::named_peer(Peer &named)
{
	Turn turn(lock);

	if (by_number)
		named = peer;
	return by_number;
}

// --- the connection -------------------------------------------------------------------------------

void Qp::meet(bool limited)
{
	Turn turn(lock);

	peer.limited = limited;
}

bool Qp::proved(const Inbox &of, std::uint32_t psn)
{
	Turn turn(lock);

	if (!by_number || inbox != &of)
		return true;
	peer.untold = !peer.ends.ready;
	peer.told_psn = psn;
	return peer.untold || peer.ends.sq_psn == psn;
}

void Qp::await_peer()
{
	const Time silence = silence_limit(peer.path);
	Time time = silence ? patience : 0;

	// A connected peer that left can't return: even without a limit, requests don't wait for ever.
	if (peer.over)
		time = silence ? silence : patience;
	if (peer.patient_until != never || !time)
		return;
	peer.patient_until = now() + time;
	set_peer_time();
}

/// The queue pair fails as for missing acknowledgments. If it has no stream.
void Qp::lose_idle()
{
	if (!by_number || core.state != KIW_QP_IDLE || has_stream() || dying)
		return;
	peer.patient_until = never;
	core.flush = static_cast<u8>(by_number_manner.lost);
	fail_idle();
	count(KIW_STAT_CONNECT_FAILS);
	if (inbox)
		inbox->post(stream_aborted);
	raise(*this, IBV_EVENT_QP_FATAL);
}

void Qp::give_up()
{
	Turn turn(lock);

	lose_idle();
}

// --- is it there? ---------------------------------------------------------------------------------

void Qp::watch_peer()
{
	if (!by_number)
		return;
	peer.silent_since = now();
	peer.probed = false;
	peer.look_at = 0;
	set_peer_time();
}

void Qp::set_peer_time()
{
	const Time time = std::min(peer.patient_until, peer.look_at);

	if (time != never)
		understudy::at(watched, time);
}

/// Once the peer's TCP has a Read's request, TCP has nothing to send that could stay unanswered: it has to probe.
void Qp::probe(bool on)
{
	if (peer.probed == on)
		return;
	peer.probed = on;
	if (on)
		set_probes(fd, true, 1, 1, most_probes);
	else
		keep_alive(fd, options.keepalive);
}

/// Has the peer been silent for too long? While it accepts no more data, TCP probes ever more rarely, so its silence
/// means nothing.
bool Qp::is_silent(Time time, Time limit)
{
	const bool reads = kiw_reads_out_len(&ss.tx.reads_out);
	tcp_info info{};
	int queued = 0;

	probe(reads);
	sys::get(fd, IPPROTO_TCP, TCP_INFO, info);
	sys::ioctl(fd, SIOCOUTQ, &queued);
	if (!info.tcpi_unacked && (!reads || queued)) {
		peer.silent_since = time + limit / 4;
		return false;
	}
	const Time heard = std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv) * millisecond;
	return time >= peer.silent_since + limit && heard >= limit;
}

/// Returns whether something is due.
bool Qp::look_for_peer(Time time)
{
	const Time limit = silence_limit(peer.path);

	peer.look_at = never;
	if (!has_stream())
		return false;
	if (!limit)
		probe(false);
	// In other states the end began, and the endpoint limits it.
	if (!limit || core.state != KIW_QP_RTS || error_)
		return false;
	if (!is_silent(time, limit)) {
		peer.look_at = time + limit / 4;
		return false;
	}
	// As if TCP itself had given up
	error_ = ETIMEDOUT;
	return true;
}

bool Qp::peer_time(Time time)
{
	bool due = false;

	if (!by_number)
		return false;
	if (time >= peer.patient_until) {
		// The stream of a dialed end begins before it is connected; its start-up limits that.
		peer.patient_until = has_stream() && !ss.tx.gate ? time + attempt_pause : never;
		if (!has_stream())
			lose_idle();
	}
	if (time >= peer.look_at)
		due = look_for_peer(time);
	set_peer_time();
	return due;
}

} // namespace kiwu
