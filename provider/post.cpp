// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Posting: work requests into the rings, and one doorbell for a whole list.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "qp.hpp"

namespace kiw {

namespace {

static_assert(sizeof(ibv_sge) == sizeof(kiw_sge));
static_assert(offsetof(ibv_sge, addr) == offsetof(kiw_sge, addr));
static_assert(offsetof(ibv_sge, length) == offsetof(kiw_sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(kiw_sge, lkey));

constexpr unsigned int known_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
constexpr std::uint64_t max_message = std::uint64_t{1} << 31;

bool too_many_sges(int num_sge, std::uint32_t max)
{
	return static_cast<unsigned int>(num_sge) > max; // a negative number too
}

/// Sum of the lengths, or more than max_message.
std::uint64_t payload_octets(const ibv_send_wr &wr)
{
	std::uint64_t octets = 0;

	for (int i = 0; i < wr.num_sge; i++)
		octets += wr.sg_list[i].length;
	return octets;
}

void copy_inline(const ibv_send_wr &wr, std::byte *to)
{
	for (int i = 0; i < wr.num_sge; i++) {
		const ibv_sge &sge = wr.sg_list[i];
		const auto *from = reinterpret_cast<const std::byte *>(sge.addr); // NOLINT(performance-no-int-to-ptr)

		to = std::copy_n(from, sge.length, to);
	}
}

void copy_sges(const ibv_sge *sges, int count, std::byte *to)
{
	if (count > 0)
		std::memcpy(to, sges, static_cast<std::size_t>(count) * sizeof(*sges));
}

/// Writes one request into its slot. Returns 0, or EINVAL and the slot is as good as untouched.
int write_send(const Qp &qp, const ibv_send_wr &wr, std::byte *slot)
{
	kiw_wqe wqe{};
	bool message = false;

	switch (wr.opcode) {
	case IBV_WR_SEND:
		wqe.opcode = KIW_WR_SEND;
		message = true;
		break;
	case IBV_WR_SEND_WITH_INV:
		wqe.opcode = KIW_WR_SEND_INV;
		wqe.rkey = wr.invalidate_rkey;
		message = true;
		break;
	case IBV_WR_RDMA_WRITE:
		wqe.opcode = KIW_WR_WRITE;
		wqe.remote_addr = wr.wr.rdma.remote_addr;
		wqe.rkey = wr.wr.rdma.rkey;
		break;
	case IBV_WR_RDMA_READ:
		wqe.opcode = KIW_WR_READ;
		wqe.remote_addr = wr.wr.rdma.remote_addr;
		wqe.rkey = wr.wr.rdma.rkey;
		break;
	default:
		return EINVAL;
	}
	if ((wr.send_flags & ~known_flags) || too_many_sges(wr.num_sge, qp.sq.max_sge))
		return EINVAL;

	const std::uint64_t octets = payload_octets(wr);
	if (octets > max_message)
		return EINVAL;

	wqe.wr_id = wr.wr_id;
	if ((wr.send_flags & IBV_SEND_SIGNALED) || qp.signal_all)
		wqe.flags |= KIW_WQE_SIGNALED;
	if (wr.send_flags & IBV_SEND_FENCE)
		wqe.flags |= KIW_WQE_FENCE;
	if (message && (wr.send_flags & IBV_SEND_SOLICITED))
		wqe.flags |= KIW_WQE_SOLICITED;

	if (wr.send_flags & IBV_SEND_INLINE) {
		if (wr.opcode == IBV_WR_RDMA_READ || octets > qp.max_inline)
			return EINVAL;
		wqe.flags |= KIW_WQE_INLINE;
		wqe.inline_len = static_cast<std::uint32_t>(octets);
		copy_inline(wr, slot + sizeof(wqe));
	} else {
		wqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
		copy_sges(wr.sg_list, wr.num_sge, slot + sizeof(wqe));
	}
	std::memcpy(slot, &wqe, sizeof(wqe));
	return 0;
}

int write_recv(const Qp &qp, const ibv_recv_wr &wr, std::byte *slot)
{
	if (too_many_sges(wr.num_sge, qp.rq.max_sge))
		return EINVAL;

	kiw_rqe rqe{};
	rqe.wr_id = wr.wr_id;
	rqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
	copy_sges(wr.sg_list, wr.num_sge, slot + sizeof(rqe));
	std::memcpy(slot, &rqe, sizeof(rqe));
	return 0;
}

/// Writes as much of a list as is valid and fits, and publishes it. Under the queue's lock. Returns 0,
/// or the errno value of the request that *bad_wr then names.
template <typename WorkRequest, typename Write>
int fill(WorkQueue &queue, WorkRequest *wr, WorkRequest **bad_wr, Write write)
{
	std::uint32_t index = queue.next;
	int error = 0;

	for (; wr; wr = wr->next, index++) {
		error = queue.has_room(index) ? write(*wr, queue.ring.slot(index)) : ENOMEM;
		if (error) [[unlikely]] {
			*bad_wr = wr;
			break;
		}
	}
	if (index != queue.next) {
		queue.next = index;
		queue.ring.publish(index);
	}
	return error;
}

/// Before the first request of a connection: finds out whether there is one. Doorbells are answered with
/// an error until then, and nothing may stay in the ring that a later one would send after all.
int check_connected(Qp &qp)
{
	if (qp.connected.load(std::memory_order_relaxed)) [[likely]]
		return 0;
	const int error = qp.doorbell.ring_send();
	if (!error)
		qp.connected.store(true, std::memory_order_relaxed);
	return error;
}

/// The connection was closed in good order and the QP is idle again, or gone with its device. What the kernel took of
/// the send ring is done; it takes nothing of the rest, from index on at the latest. What other threads published
/// behind it gets the same answer. Returns how many from index on are done.
std::uint32_t take_back(Qp &qp, std::uint32_t index)
{
	Guard guard(qp.sq.lock);
	const std::uint32_t consumed = qp.sq.ring.consumed();
	const std::uint32_t done = static_cast<std::int32_t>(consumed - index) > 0 ? consumed - index : 0;

	index += done;
	qp.connected.store(false, std::memory_order_relaxed);
	if (static_cast<std::int32_t>(qp.sq.next - index) > 0) {
		qp.sq.next = index;
		qp.sq.ring.publish(index);
	}
	return done;
}

bool sq_wants_doorbell(const WorkRing &ring)
{
	// One that drains will see what was published, unless the QP is in error.
	return (ring.flags() & (KIW_RING_DRAINING | KIW_RING_FLUSH)) != KIW_RING_DRAINING;
}

} // namespace

int post_send(ibv_qp *ibv, ibv_send_wr *wr, ibv_send_wr **bad_wr)
{
	Qp &qp = Qp::from(ibv);
	WorkQueue &sq = qp.sq;

	if (const int error = check_connected(qp)) {
		*bad_wr = wr;
		return error;
	}

	sq.lock.lock();
	const std::uint32_t first = sq.next;
	const int error = fill(sq, wr, bad_wr,
		[&qp](const ibv_send_wr &request, std::byte *slot) { return write_send(qp, request, slot); });
	const std::uint32_t posted = sq.next - first;
	const bool ring = posted && sq_wants_doorbell(sq.ring);
	sq.lock.unlock();

	// Without the lock: nobody waits for the one that is in the kernel and sending.
	if (ring) {
		if (const int refused = qp.doorbell.ring_send()) [[unlikely]] {
			std::uint32_t done = 0;

			// The kernel sends by itself, too: the peer may have had it all, and closed, before we rang.
			if (refused == EINVAL || refused == ENOTCONN)
				done = take_back(qp, first);
			if (done >= posted)
				return error;
			for (; done; done--)
				wr = wr->next;
			*bad_wr = wr;
			return refused;
		}
	}
	return error;
}

int post_recv(ibv_qp *ibv, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
	Qp &qp = Qp::from(ibv);
	WorkQueue &rq = qp.rq;

	rq.lock.lock();
	const std::uint32_t first = rq.next;
	const int error = fill(rq, wr, bad_wr,
		[&qp](const ibv_recv_wr &request, std::byte *slot) { return write_recv(qp, request, slot); });
	const bool flushing = rq.next != first && (rq.ring.flags() & KIW_RING_FLUSH);
	rq.lock.unlock();

	if (flushing) [[unlikely]] {
		if (const int refused = qp.doorbell.ring_recv()) {
			*bad_wr = wr;
			return refused;
		}
	}
	return error;
}

} // namespace kiw
