// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "datagram.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <netinet/udp.h>
#include <sys/random.h>

#include "bind.hpp"
#include "count.hpp"
#include "memory.hpp"
#include "path.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

// Buffers of the socket, bytes, as far as the host's limits allow
constexpr int socket_buffer = 16 * 65536;
// Datagrams that a thread sends before it leaves the rest to the understudy
constexpr int send_budget = 256;
// After which something is tried again that failed for want of memory
constexpr Time memory_pause = 20 * millisecond;
// librdmacm assumes that each queue pair of iWARP has access rights and no Q_Key; then it means this one.
constexpr std::uint32_t rdma_udp_qkey = 0x01234567;

} // namespace

constexpr Qp::Kind DatagramQp::kind_of_datagrams = {
	.ring_send = [](Qp &qp) { return of(qp).ring(true); },
	.ring_recv = [](Qp &qp) { return of(qp).ring(false); },
	.settle = [](Qp &qp, bool receive) { of(qp).settle_datagrams(receive); },
	.release = release,
};

DatagramQp::DatagramQp() noexcept : Qp(kind_of_datagrams) {}

void DatagramQp::release(Watched &watched)
{
	DatagramQp &qp = of(Qp::of(watched));

	std::free(qp.train_.bytes);
	if (qp.records_)
		kiw::destroy(qp.records_);
	qp.free_queues();
	kiw::destroy(&qp);
}

// --- the socket -----------------------------------------------------------------------------------

int DatagramQp::open(const kiw_create_qp_req &request)
{
	constexpr int on = 1;
	std::uint16_t port = request.udp_port;
	int socket = -1;

	if (request.flags & KIW_QP_RECORD) {
		records_ = kiw::make<Records>().release();
		if (!records_)
			return ENOMEM;
		records_->open(core, request.record_timeout);
	}
	if (const int error = bind_any(SOCK_DGRAM, port, socket, six_))
		return error;
	// On that port, one queue pair would exclude all others of the host from groups.
	if (port == group_port) {
		sys::close(socket);
		return EADDRINUSE;
	}
	tell_addresses(socket, six_);
	sys::set(socket, SOL_SOCKET, SO_BROADCAST, on);
	sys::set(socket, SOL_SOCKET, SO_SNDBUF, socket_buffer);
	sys::set(socket, SOL_SOCKET, SO_RCVBUF, socket_buffer);
	sys::set(socket, SOL_UDP, UDP_GRO, on);
	fd = socket;
	core.own.num = port;
	seg_size_ = request.seg_size ? request.seg_size : std::uint32_t{KIW_RECORD_SEG_SIZE};
	// Peers remember messages of a former owner of the port.
	(void)!::getrandom(&write_id_, sizeof(write_id_), 0);
	return 0;
}

int DatagramQp::make(std::uint32_t send_stride, std::uint32_t recv_stride)
{
	int error = Qp::make(send_stride, recv_stride);

	req_.sge = sges_;
	recv_.sge = sges_ ? sges_ + core.sq.max_sge : nullptr;
	if (error)
		return error;
	Turn turn(lock);

	kiw_rq_call(&core.rq); // the doorbell refuses what is posted
	error = understudy::watch(watched, fd, EPOLLIN | EPOLLOUT);
	if (error)
		withdraw();
	return error;
}

void DatagramQp::close()
{
	while (groups_) {
		const ibv_gid gid = groups_->gid;

		leave(gid, groups_->lid);
	}
	Turn turn(lock);

	if (fd < 0)
		return;
	stop_watching();
	sys::close(fd);
	fd = -1;
	unsend();
	if (records_)
		records_->forget();
}

// --- states ---------------------------------------------------------------------------------------

/// Completes what is posted as flushed.
void DatagramQp::flush()
{
	unsend();
	kiw_core_flush_sq(&core);
	kiw_rq_flush(&core.rq, nullptr);
	if (records_)
		records_->flush();
}

void DatagramQp::enter_error()
{
	const bool news = state_ != IBV_QPS_ERR;

	state_ = IBV_QPS_ERR;
	flush();
	// Of one that goes, the process isn't told any more.
	if (news && srq && !dying)
		raise(*this, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/// The process ruined its rings, or left no room for completions.
void DatagramQp::break_down()
{
	if (state_ == IBV_QPS_ERR)
		return;
	enter_error();
	if (!dying)
		raise(*this, IBV_EVENT_QP_FATAL);
}

namespace {

/// The attributes that a change of state needs, and those that it may have
struct Step {
	ibv_qp_state from, to;
	int needs, may;
};

constexpr std::array steps = {
	Step{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	Step{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	Step{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	Step{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	Step{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

bool is_rdma_cms(ibv_qp_state from, ibv_qp_state to, int mask)
{
	return from == IBV_QPS_RESET && to == IBV_QPS_INIT &&
	       mask == (IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
}

/// Datagrams are unordered, so there is nothing to drain: SQD and SQE aren't supported.
bool may_go(ibv_qp_state from, ibv_qp_state to, int mask)
{
	if (is_rdma_cms(from, to, mask))
		return true;
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return !(mask & ~IBV_QP_STATE);
	return std::any_of(steps.begin(), steps.end(), [&](const Step &step) {
		return step.from == from && step.to == to && (mask & step.needs) == step.needs &&
		       !(mask & ~(step.needs | step.may | IBV_QP_STATE));
	});
}

} // namespace

int DatagramQp::modify(const ibv_qp_attr &attr, int mask)
{
	Turn turn(lock);
	const ibv_qp_state from = state_;
	const ibv_qp_state to = mask & IBV_QP_STATE ? attr.qp_state : from;

	if (((mask & IBV_QP_CUR_STATE) && attr.cur_qp_state != from) || !may_go(from, to, mask))
		return EINVAL;
	if (mask & IBV_QP_SQ_PSN)
		sq_psn_ = attr.sq_psn;
	if (mask & IBV_QP_QKEY)
		qkey_ = attr.qkey;
	else if (is_rdma_cms(from, to, mask))
		qkey_ = rdma_udp_qkey;
	if (to == IBV_QPS_ERR) {
		enter_error();
		return 0;
	}
	if (to == IBV_QPS_RESET) {
		unsend();
		kiw_sq_forget(&core.sq);
		kiw_sq_flag(&core.sq, 0);
		kiw_rq_forget(&core.rq);
		if (records_)
			records_->forget();
		kiw_rq_call(&core.rq); // the doorbell refuses what is posted
	} else if (from == IBV_QPS_RESET) {
		kiw_rq_open(&core.rq);
	}
	state_ = to;
	return 0;
}

void DatagramQp::query(ibv_qp_attr &attr, int mask)
{
	attr.qp_state = attr.cur_qp_state = state_;
	if (mask & IBV_QP_QKEY)
		attr.qkey = qkey_;
	if (mask & IBV_QP_SQ_PSN)
		attr.sq_psn = sq_psn_;
}

// --- what is due ----------------------------------------------------------------------------------

int DatagramQp::ring(bool send)
{
	int error = 0;

	lock.lock();
	if (state_ == IBV_QPS_ERR)
		flush();
	else if (send ? state_ != IBV_QPS_RTS : state_ == IBV_QPS_RESET)
		error = EINVAL;
	unlock(false);
	return error;
}

/// Incomplete messages complete in time.
void DatagramQp::look_at_records()
{
	if (records_->none())
		return;
	const Time time = now();
	const Time next = records_->report_late(time);

	if (next != never && !is_late_by(next))
		late(next - time);
}

void DatagramQp::settle_datagrams(bool receive)
{
	left_over_ = false;
	if (fd < 0)
		return;
	if (receive || more_datagrams_) {
		if (!receive_datagrams())
			break_down();
		left_over_ = more_datagrams_;
	}
	if (records_)
		look_at_records();
	if (state_ != IBV_QPS_RTS)
		return;
	switch (send_datagrams(send_budget)) {
	case Sent::all:
	case Sent::stalled: // UDP tells when there is room
		break;
	case Sent::some:
		left_over_ = true;
		break;
	case Sent::starved:
		late(memory_pause);
		break;
	case Sent::broken:
		break_down();
		break;
	}
}

} // namespace kiwu
