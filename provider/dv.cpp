// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Direct verbs of devices, queue pairs and completions.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <poll.h>
#include <pthread.h>

#pragma GCC visibility push(default)
#include "kiwarpdv.h"
#pragma GCC visibility pop

#include "context.hpp"
#include "cq.hpp"
#include "opcodes.hpp"
#include "private_abi.hpp"
#include "qp.hpp"

namespace kiw {

namespace {

bool is_ours(const ibv_context *context)
{
	const auto *device = reinterpret_cast<const pabi::Device *>(context->device);

	return std::strcmp(device->ops->name, "kiwarp") == 0;
}

bool has_records(ibv_context *context)
{
	return Context::from(context).features & KIW_FEATURE_RECORD;
}

/// Copies the part of a structure that the caller's version knows.
template <typename T>
void give(T *to, const T &from, std::size_t size)
{
	std::memset(to, 0, size);
	std::memcpy(to, &from, std::min(size, sizeof(from)));
}

/// Copies a structure of any version from the caller; false if it sets unknown members.
template <typename T>
bool take(T &to, const T *from, std::size_t size)
{
	const auto *octets = reinterpret_cast<const std::byte *>(from);

	std::memcpy(&to, from, std::min(size, sizeof(to)));
	return std::all_of(octets + std::min(size, sizeof(to)), octets + size,
		[](std::byte octet) { return octet == std::byte{0}; });
}

/// A point in time, or none
class Deadline {
public:
	explicit Deadline(std::int64_t microseconds) : endless_(microseconds < 0)
	{
		::clock_gettime(CLOCK_MONOTONIC, &at_);
		if (endless_) {
			at_.tv_sec = std::numeric_limits<std::time_t>::max();
			return;
		}
		at_.tv_sec += microseconds / 1000000;
		at_.tv_nsec += microseconds % 1000000 * 1000;
		if (at_.tv_nsec >= 1000000000) {
			at_.tv_nsec -= 1000000000;
			at_.tv_sec++;
		}
	}

	/// CLOCK_MONOTONIC
	const timespec &at() const { return at_; }

	/// Waits until a descriptor is readable; 0, ETIMEDOUT or another errno value.
	int await(int fd) const
	{
		pollfd descriptor = {.fd = fd, .events = POLLIN, .revents = 0};
		timespec left{};

		if (!endless_ && !remaining(left))
			return ETIMEDOUT;
		const int ready = ::ppoll(&descriptor, 1, endless_ ? nullptr : &left, nullptr);
		if (ready < 0)
			return errno;
		return ready ? 0 : ETIMEDOUT;
	}

private:
	bool remaining(timespec &left) const
	{
		timespec now{};

		::clock_gettime(CLOCK_MONOTONIC, &now);
		left.tv_sec = at_.tv_sec - now.tv_sec;
		left.tv_nsec = at_.tv_nsec - now.tv_nsec;
		if (left.tv_nsec < 0) {
			left.tv_nsec += 1000000000;
			left.tv_sec--;
		}
		return left.tv_sec >= 0;
	}

	timespec at_{};
	bool endless_;
};

/// Waits for an event of an armed CQ and takes it; 0 or an errno value. Under the lock for sleeping: no other thread
/// may take the event.
int take_event(ibv_cq *cq, const Deadline &deadline)
{
	ibv_cq *of = nullptr;
	void *context = nullptr;

	if (const int error = deadline.await(cq->channel->fd))
		return error;
	if (ibv_get_cq_event(cq->channel, &of, &context))
		// A program that reads it without blocking may have been faster.
		return errno == EAGAIN ? 0 : errno;
	ibv_ack_cq_events(of, 1);
	return 0;
}

/// As poll_for(). Under the lock for sleeping.
template <typename Poll>
int sleep_for(ibv_cq *cq, const Deadline &deadline, const Poll &poll)
{
	for (;;) {
		if (const int error = req_notify_cq(cq, 0))
			return -error;
		// Completions before arming cause no event.
		if (const int found = poll())
			return found;
		const int error = take_event(cq, deadline);
		if (error == ETIMEDOUT)
			return poll();
		if (error)
			return -error;
	}
}

void let_next_sleep(void *sleeping)
{
	static_cast<Lock *>(sleeping)->unlock();
}

/// Calls poll until it finds something (not 0), fails, or the time is over. Returns poll's last result, or a negative
/// errno value.
///
/// One event may stand for several completions, and wakes one thread. So one thread sleeps on the channel, and the
/// others wait for it. However it leaves, even by a time-out or cancellation, the next one polls, arms and sleeps in
/// its place.
template <typename Poll>
int poll_for(ibv_cq *cq, std::int64_t timeout, const Poll &poll)
{
	int found = poll();

	if (found != 0 || timeout == 0)
		return found;
	if (!cq->channel || cq->channel->refcnt > 1)
		return -EINVAL;
	const Deadline deadline(timeout);
	Lock &sleeping = Cq::from(cq).sleeping;
	if (const int error = sleeping.lock_until(deadline.at()))
		return error == ETIMEDOUT ? poll() : -error;
	pthread_cleanup_push(let_next_sleep, &sleeping);
	found = sleep_for(cq, deadline, poll);
	pthread_cleanup_pop(1);
	return found;
}

const kiw_cqe_record *record_of(ibv_cq_ex *ex)
{
	const Cq &cq = Cq::from(ex);

	if (!cq.current || cq.current->opcode != KIW_WR_RECORD)
		return nullptr;
	return reinterpret_cast<const kiw_cqe_record *>(&cq.ring.slot(cq.consumed + 1));
}

} // namespace

} // namespace kiw

int kiwarpdv_query_device(ibv_context *context, kiwarpdv_attr *attr, std::size_t size)
{
	kiwarpdv_attr own{};

	if (!kiw::is_ours(context))
		return EOPNOTSUPP;
	if (kiw::Context::from(context).features & KIW_FEATURE_UD)
		own.max_send = KIW_UD_MAX_MSG;
	if (kiw::has_records(context)) {
		own.caps = KIWARPDV_CAP_WRITE_RECORD | KIWARPDV_CAP_UD_PORT;
		own.max_write = KIW_RECORD_MAX_SEGS * KIW_RECORD_MAX_SEG_SIZE;
		own.max_seg_size = KIW_RECORD_MAX_SEG_SIZE;
		own.default_seg_size = KIW_RECORD_SEG_SIZE;
		own.max_segs = KIW_RECORD_MAX_SEGS;
	}
	kiw::give(attr, own, size);
	return 0;
}

ibv_qp *kiwarpdv_create_qp(
	ibv_context *context, ibv_qp_init_attr_ex *attr, const kiwarpdv_qp_init_attr *dv_attr, std::size_t size)
{
	kiwarpdv_qp_init_attr own{};
	kiw_create_qp_req request{};

	if (!kiw::is_ours(context) || !kiw::has_records(context) || !kiw::take(own, dv_attr, size) ||
		(own.flags & ~std::uint32_t{KIWARPDV_QP_RECORD})) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (kiw::number_of(attr->qp_type) != IBV_QPT_UD || own.udp_port > UINT16_MAX ||
		own.seg_size > KIW_RECORD_MAX_SEG_SIZE || own.record_timeout > KIW_RECORD_MAX_TIMEOUT) {
		errno = EINVAL;
		return nullptr;
	}
	request.flags = own.flags & KIWARPDV_QP_RECORD ? KIW_QP_RECORD : 0;
	request.udp_port = static_cast<std::uint16_t>(own.udp_port);
	request.seg_size = own.seg_size;
	request.record_timeout = own.record_timeout;
	return kiw::create_qp_with(context, attr, request);
}

bool kiwarpdv_is_record(ibv_cq_ex *cq)
{
	return kiw::record_of(cq);
}

int kiwarpdv_read_record(ibv_cq_ex *cq, kiwarpdv_record *record, std::size_t size)
{
	const kiw_cqe_record *slot = kiw::record_of(cq);
	kiwarpdv_record own{};

	if (!slot)
		return EINVAL;
	const kiw_cqe &cqe = *kiw::Cq::from(cq).current;
	std::memcpy(&own.sgid, slot->sgid, sizeof(own.sgid));
	own.src_qp = cqe.src_qp;
	own.msg_id = cqe.wq_index;
	own.addr = slot->addr;
	own.rkey = slot->rkey;
	own.length = slot->length;
	own.valid = cqe.byte_len;
	own.seg_size = std::max<std::uint32_t>(slot->seg_size, 1);
	own.segs = own.length ? (own.length - 1) / own.seg_size + 1 : 1;
	own.unit = (own.segs - 1) / KIWARPDV_MAP_BITS + 1;
	std::memcpy(own.map, slot->map, sizeof(own.map));
	kiw::give(record, own, size);
	return 0;
}

int kiwarpdv_poll_cq(ibv_cq *cq, int max, ibv_wc *wc, std::int64_t timeout_us)
{
	return kiw::poll_for(cq, timeout_us, [&] { return kiw::poll_cq(cq, max, wc); });
}

int kiwarpdv_start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr, std::int64_t timeout_us)
{
	const int found = kiw::poll_for(ibv_cq_ex_to_cq(cq), timeout_us, [&] {
		const int error = ibv_start_poll(cq, attr);

		return error == ENOENT ? 0 : error ? -error : 1;
	});

	return found > 0 ? 0 : found == 0 ? ENOENT : -found;
}
