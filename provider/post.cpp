// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Posting: work requests into rings, one doorbell per list.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "opcodes.hpp"
#include "posting.hpp"
#include "qp.hpp"
#include "srq.hpp"

namespace kiw {

namespace {

bool too_many_sges(int num_sge, std::uint32_t max)
{
	return static_cast<unsigned int>(num_sge) > max; // or negative
}

/// Sum of the lengths, or more than max_message.
std::uint64_t payload_length(const ibv_send_wr &wr)
{
	std::uint64_t length = 0;

	for (int i = 0; i < wr.num_sge; i++)
		length += wr.sg_list[i].length;
	return length;
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

void write_remote(const Qp &qp, Remote remote, const ibv_send_wr &wr, kiw_wqe &wqe)
{
	switch (remote) {
	case Remote::nothing:
		break;
	case Remote::region:
		wqe.rkey = wr.invalidate_rkey;
		break;
	case Remote::memory:
		wqe.remote_addr = wr.wr.rdma.remote_addr;
		wqe.rkey = wr.wr.rdma.rkey;
		break;
	case Remote::number:
		wqe.remote_addr = wr.wr.atomic.remote_addr;
		wqe.rkey = wr.wr.atomic.rkey;
		atomic_args(qp, wqe) = {.compare_add = wr.wr.atomic.compare_add, .swap = wr.wr.atomic.swap};
		break;
	case Remote::window:
		write_bind(qp, wqe, wr.bind_mw.rkey, wr.bind_mw.bind_info);
		break;
	}
}

/// Writes a request into its slot. Returns 0, or EINVAL with a slot that is still free.
int write_send(const Qp &qp, const ibv_send_wr &wr, std::byte *slot)
{
	const SendOpcode *row = send_opcode(number_of(wr.opcode));

	if (!row || (row->feature & ~qp.features) || (wr.send_flags & ~row->flags) ||
		too_many_sges(wr.num_sge, qp.sq.max_sge))
		return EINVAL;

	const bool datagram = qp.is_datagram();
	if (datagram && !is_datagram_send(row->op, qp.features))
		return EINVAL;

	if (is_local(row->op) && wr.num_sge)
		return EINVAL;
	if (row->remote == Remote::window &&
		!(wr.bind_mw.mw && can_bind(qp, *wr.bind_mw.mw, IBV_MW_TYPE_2, wr.bind_mw.rkey, wr.bind_mw.bind_info)))
		return EINVAL;
	const std::uint64_t length = payload_length(wr);
	if (length > longest_message(datagram, row->op) ||
		(is_atomic(row->op) && (wr.num_sge != 1 || length != atomic_octets)))
		return EINVAL;

	// In place: a local copy would be stored by fields and loaded whole, which stalls the CPU.
	kiw_wqe &wqe = *reinterpret_cast<kiw_wqe *>(slot);
	const bool is_inline = wr.send_flags & IBV_SEND_INLINE;

	if (is_inline && length > qp.max_inline)
		return EINVAL;
	wqe = {};
	wqe.opcode = row->op;
	wqe.flags = slot_flags(wr.send_flags & ~row->ignored, qp.signal_all);
	wqe.wr_id = wr.wr_id;
	if (row->has_imm())
		wqe.imm = wr.imm_data;
	// ibv_send_wr keeps the destination in place of the peer's memory.
	if (datagram)
		write_dest(wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey,
			*reinterpret_cast<kiw_ud_dest *>(slot + sizeof(wqe)));
	else
		write_remote(qp, row->remote, wr, wqe);
	if (is_inline) {
		wqe.inline_len = static_cast<std::uint32_t>(length);
		copy_inline(wr, slot + qp.head);
	} else {
		wqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
		copy_sges(wr.sg_list, wr.num_sge, slot + qp.head);
	}
	return 0;
}

int write_recv(const WorkQueue &queue, const ibv_recv_wr &wr, std::byte *slot)
{
	if (too_many_sges(wr.num_sge, queue.max_sge))
		return EINVAL;

	kiw_rqe rqe{};
	rqe.wr_id = wr.wr_id;
	rqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
	copy_sges(wr.sg_list, wr.num_sge, slot + sizeof(rqe));
	std::memcpy(slot, &rqe, sizeof(rqe));
	return 0;
}

struct Batch {
	std::uint32_t first;
	std::uint32_t count;
	// Counts of the queue before it
	std::uint32_t accepted;
	std::uint32_t promises;
};

/// Whether the batch is one request, of up to KIW_RING_SMALL_MAX bytes
bool is_small(const Qp &qp, const Batch &batch)
{
	if (batch.count != 1)
		return false;
	const std::byte *const slot = qp.sq.ring.slot(batch.first);
	const kiw_wqe &wqe = *reinterpret_cast<const kiw_wqe *>(slot);
	const auto *const sges = reinterpret_cast<const kiw_sge *>(slot + qp.head);
	std::uint64_t length = wqe.inline_len;

	for (int i = 0; i < wqe.num_sge; i++)
		length += sges[i].length;
	return length <= KIW_RING_SMALL_MAX;
}

// Sides for post(): two of a QP, one of an SRQ.
struct SendSide {
	using Object = Qp;
	using Request = ibv_send_wr;

	static WorkQueue &queue(Qp &qp) { return qp.sq; }
	static int write(const Qp &qp, const Request &wr, std::byte *slot) { return write_send(qp, wr, slot); }
	static bool has_room(WorkQueue &queue, std::uint32_t index) { return queue.has_room(index); }
	static int ring(Qp &qp) { return qp.doorbell.ring_send(); }
	static void refused(Qp &qp) { qp.connected.store(false, std::memory_order_relaxed); }
	/// With KIW_RING_DRAINING the kernel sees published requests, with KIW_RING_SMALL a small one, unless the QP is
	/// in error.
	static bool wants_doorbell(const Qp &qp, const Batch &batch)
	{
		const std::uint32_t flags = qp.sq.ring.flags();

		if (flags & (KIW_RING_DRAINING | KIW_RING_FLUSH))
			return flags & KIW_RING_FLUSH;
		return !(flags & KIW_RING_SMALL) || !is_small(qp, batch);
	}
};

struct RecvSide {
	using Object = Qp;
	using Request = ibv_recv_wr;

	static WorkQueue &queue(Qp &qp) { return qp.rq; }
	static int write(const Qp &qp, const Request &wr, std::byte *slot) { return write_recv(qp.rq, wr, slot); }
	static bool has_room(WorkQueue &queue, std::uint32_t index) { return queue.has_room(index); }
	static int ring(Qp &qp) { return qp.doorbell.ring_recv(); }
	static void refused(Qp &qp) { qp.connected.store(false, std::memory_order_relaxed); }
	static bool wants_doorbell(const Qp &qp, const Batch &) { return qp.rq.ring.flags() & KIW_RING_FLUSH; }
};

struct SharedSide {
	using Object = Srq;
	using Request = ibv_recv_wr;

	static WorkQueue &queue(Srq &srq) { return srq.queue; }
	static int write(const Srq &srq, const Request &wr, std::byte *slot) { return write_recv(srq.queue, wr, slot); }
	/// Completions do not free slots; ask the ring when none seems free.
	static bool has_room(WorkQueue &queue, std::uint32_t index)
	{
		if (!queue.has_room(index)) [[unlikely]]
			queue.release_consumed_locked();
		return queue.has_room(index);
	}
	static int ring(Srq &srq) { return srq.doorbell.ring_recv(); }
	static void refused(Srq &) {}
	static bool wants_doorbell(const Srq &srq, const Batch &) { return srq.queue.ring.flags() & KIW_RING_FLUSH; }
};

/// Writes the valid, fitting part of a list from index on, and advances it. Under the queue's lock. Returns 0, or the
/// errno value of the request in *bad_wr.
template <typename Side>
int fill(typename Side::Object &object, std::uint32_t &index, typename Side::Request *wr,
	typename Side::Request **bad_wr)
{
	WorkQueue &queue = Side::queue(object);
	int error = 0;

	for (; wr; wr = wr->next, index++) {
		error = Side::has_room(queue, index) ? Side::write(object, *wr, queue.ring.slot(index)) : ENOMEM;
		if (error) [[unlikely]] {
			*bad_wr = wr;
			break;
		}
	}
	return error;
}

/// Whether the QP is idle after an orderly close, or gone with its device: the kernel has finished all taken requests,
/// and takes no more.
constexpr bool idle(int refused)
{
	return refused == EINVAL || refused == ENOTCONN;
}

/// Called after a refused doorbell. Takes requests that the kernel does not have out of the ring, where a later
/// doorbell would send them. Returns how many of the batch the kernel has; if not all, refused is the reason.
///
/// The ring shows completed requests, but not those that the kernel took and has not completed. The kernel reads the
/// ring during doorbells of other threads. So this waits for them and takes back only requests that none of them can
/// have shown to the kernel. Several refused threads each take back everything from their own requests on. No thread
/// publishes before the last has done so, so no index is reused meanwhile.
///
/// One case remains: work of the connection, such as a Read's response, makes the kernel read the ring between the
/// refusal and the change of the index. The kernel then sees an index that went back and ends the QP.
template <typename Side>
std::uint32_t settle(typename Side::Object &object, const Batch &batch, int &refused)
{
	WorkQueue &queue = Side::queue(object);
	Guard guard(queue.lock);

	queue.settled++;
	queue.await_doorbells();
	// Another thread took back a part of the batch; the kernel has the rest.
	const auto there = static_cast<std::int32_t>(queue.next - batch.first);
	if (there < static_cast<std::int32_t>(batch.count))
		return static_cast<std::uint32_t>(std::max(there, 0));

	if (!idle(refused)) {
		if (batch.promises != queue.promises || !Side::wants_doorbell(object, batch))
			return batch.count;
		if (batch.accepted != queue.accepted.load(std::memory_order_acquire)) {
			// A later doorbell may have covered the batch. If not, this one does or the next.
			refused = Side::ring(object);
			if (!refused)
				queue.accept();
			if (!idle(refused))
				return batch.count;
		}
	}
	const std::uint32_t done = queue.ring.consumed() - batch.first;
	const std::uint32_t kept = done <= queue.next - batch.first ? done : 0;

	queue.next = batch.first + kept;
	queue.ring.publish(queue.next);
	return std::min(kept, batch.count);
}

/// As publish_sends(), for any side.
template <typename Side>
std::uint32_t publish(typename Side::Object &object, std::uint32_t end, int &refused)
{
	WorkQueue &queue = Side::queue(object);
	const Batch batch = {.first = queue.next,
		.count = end - queue.next,
		.accepted = queue.accepted.load(std::memory_order_relaxed),
		.promises = queue.promises};
	bool ring = false;

	if (batch.count) {
		queue.next = end;
		queue.ring.publish(end);
		ring = Side::wants_doorbell(object, batch);
		(ring ? queue.begun : queue.promises)++;
	}
	queue.lock.unlock();
	if (!ring)
		return batch.count;

	// Without the lock: nobody waits for a thread that sends in the kernel.
	refused = Side::ring(object);
	if (!refused) [[likely]] {
		queue.accepted.fetch_add(1, std::memory_order_release);
		return batch.count;
	}
	Side::refused(object);
	queue.refused.fetch_add(1, std::memory_order_release);
	return settle<Side>(object, batch, refused);
}

template <typename Side>
int post(typename Side::Object &object, typename Side::Request *wr, typename Side::Request **bad_wr)
{
	WorkQueue &queue = Side::queue(object);
	int refused = 0;

	queue.lock_to_post();
	const std::uint32_t first = queue.next;
	std::uint32_t end = first;
	const int error = fill<Side>(object, end, wr, bad_wr);
	std::uint32_t kept = publish<Side>(object, end, refused);
	if (kept == end - first) [[likely]]
		return error;
	for (; kept; kept--)
		wr = wr->next;
	*bad_wr = wr;
	return refused;
}

} // namespace

// Rings before a connection's first request, and after a refusal, to learn whether doorbells are accepted: otherwise a
// later doorbell would send the published requests.
int check_connected(Qp &qp)
{
	if (qp.connected.load(std::memory_order_relaxed)) [[likely]]
		return 0;
	Guard guard(qp.sq.lock);
	const int error = qp.doorbell.ring_send();
	if (!error) {
		qp.sq.accept();
		qp.connected.store(true, std::memory_order_relaxed);
	}
	return error;
}

std::uint32_t publish_sends(Qp &qp, std::uint32_t end, int &refused)
{
	return publish<SendSide>(qp, end, refused);
}

int post_send(ibv_qp *ibv, ibv_send_wr *wr, ibv_send_wr **bad_wr)
{
	Qp &qp = Qp::from(ibv);

	if (qp.origin.inherited()) [[unlikely]] {
		*bad_wr = wr;
		return EPERM;
	}
	if (const int error = check_connected(qp)) {
		*bad_wr = wr;
		return error;
	}
	return post<SendSide>(qp, wr, bad_wr);
}

int post_recv(ibv_qp *ibv, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
	Qp &qp = Qp::from(ibv);

	if (qp.origin.inherited()) [[unlikely]] {
		*bad_wr = wr;
		return EPERM;
	}
	const int error = post<RecvSide>(qp, wr, bad_wr);
	// A QP with an SRQ uses no ring of its own.
	return error == ENOMEM && ibv->srq ? EINVAL : error;
}

int post_srq_recv(ibv_srq *ibv, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
	Srq &srq = Srq::from(ibv);

	if (srq.origin.inherited()) [[unlikely]] {
		*bad_wr = wr;
		return EPERM;
	}
	return post<SharedSide>(srq, wr, bad_wr);
}

} // namespace kiw
