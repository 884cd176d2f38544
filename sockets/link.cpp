// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

#include "octets.hpp"
#include "real.hpp"
#include "rules.hpp"

namespace kiws {

namespace {

/// Memory of all lanes of the process
std::atomic<std::size_t> arena;

/// The completion of a Send tells of so many requests.
constexpr std::uint64_t of_send = std::uint64_t(1) << 32, of_fin = std::uint64_t(1) << 33;

/// Copies from pieces, of which some octets are skipped.
void gather(std::uint8_t *to, const iovec *pieces, std::size_t skip, std::size_t length)
{
	for (; length; pieces++) {
		if (skip >= pieces->iov_len) {
			skip -= pieces->iov_len;
			continue;
		}
		const std::size_t n = std::min(length, pieces->iov_len - skip);

		std::memcpy(to, static_cast<const std::uint8_t *>(pieces->iov_base) + skip, n);
		to += n;
		length -= n;
		skip = 0;
	}
}

} // namespace

void Terms::write(std::uint8_t *octets) const
{
	std::memset(octets, 0, size);
	put(octets, ring);
	put(octets + 8, stag);
	octets[12] = log2_size;
	octets[13] = slots;
}

bool Terms::read(const std::uint8_t *octets)
{
	ring = get<std::uint64_t>(octets);
	stag = get<std::uint32_t>(octets + 8);
	log2_size = octets[12];
	slots = octets[13];
	return std::size_t(1) << std::min<unsigned>(log2_size, 63) == Stream::ring_size && slots == Link::slots;
}

Link *Link::make(rdma_cm_id *id, Stream &stream)
{
	auto *link = static_cast<Link *>(std::malloc(sizeof(Link)));

	if (!link)
		return nullptr;
	::new (link) Link(id, stream);
	if (link->build())
		return link;
	link->destroy();
	return nullptr;
}

bool Link::build()
{
	constexpr std::size_t size = sizeof(Memory) + Stream::ring_size;
	ibv_qp_init_attr attr{};

	if (arena.fetch_add(size) + size > rules().arena || !stream_.need_ring())
		return false;
	void *memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	memory_ = static_cast<Memory *>(memory);
	if (!(id_->pd = pd_of(id_->verbs)) ||
		!(memory_mr_ = verbs->ibv_reg_mr(id_->pd, memory, sizeof(Memory), IBV_ACCESS_LOCAL_WRITE)) ||
		!(ring_mr_ = verbs->ibv_reg_mr(id_->pd, stream_.ring, Stream::ring_size,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) ||
		!(channel_ = verbs->ibv_create_comp_channel(id_->verbs)) ||
		real().fcntl(channel_->fd, F_SETFL, O_NONBLOCK) ||
		!(cq_ = verbs->ibv_create_cq(id_->verbs, slots + depth, nullptr, channel_, 0)))
		return false;
	attr.send_cq = cq_;
	attr.recv_cq = cq_;
	attr.qp_type = IBV_QPT_RC;
	attr.cap = {
		.max_send_wr = depth, .max_recv_wr = slots, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	if (verbs->rdma_create_qp(id_, id_->pd, &attr))
		return false;
	for (unsigned slot = 0; slot < slots; slot++)
		if (!post_receive(slot))
			return false;
	return true;
}

void Link::destroy()
{
	if (id_->qp) {
		(void)verbs->rdma_disconnect(id_);
		verbs->rdma_destroy_qp(id_);
	}
	if (cq_) {
		verbs->ibv_ack_cq_events(cq_, events_);
		(void)verbs->ibv_destroy_cq(cq_);
	}
	if (channel_)
		(void)verbs->ibv_destroy_comp_channel(channel_);
	if (ring_mr_)
		(void)verbs->ibv_dereg_mr(ring_mr_);
	if (memory_mr_)
		(void)verbs->ibv_dereg_mr(memory_mr_);
	if (memory_)
		(void)::munmap(memory_, sizeof(Memory));
	arena.fetch_sub(sizeof(Memory) + Stream::ring_size);
	std::free(this);
}

Terms Link::terms() const
{
	return {.ring = reinterpret_cast<std::uintptr_t>(stream_.ring),
		.stag = ring_mr_->rkey,
		.log2_size = static_cast<std::uint8_t>(__builtin_ctzl(Stream::ring_size)),
		.slots = slots};
}

// --- what comes ---

bool Link::post_receive(unsigned slot)
{
	ibv_sge piece = {.addr = reinterpret_cast<std::uintptr_t>(memory_->incoming[slot]),
		.length = slot_size,
		.lkey = memory_mr_->lkey};
	ibv_recv_wr request = {.wr_id = slot, .next = nullptr, .sg_list = &piece, .num_sge = 1};
	ibv_recv_wr *refused = nullptr;

	return ibv_post_recv(id_->qp, &request, &refused) == 0;
}

bool Link::progress()
{
	bool changed = false;
	ibv_wc completions[16];
	int n = 0;

	do {
		n = ibv_poll_cq(cq_, std::size(completions), completions);
		for (int i = 0; i < n; i++) {
			complete(completions[i]);
			changed = true;
		}
	} while (n == std::size(completions));
	if (n < 0)
		gone = true;
	flush();
	return changed;
}

void Link::complete(const ibv_wc &completion)
{
	if (completion.status != IBV_WC_SUCCESS) {
		// Receive requests are flushed behind all that has come.
		mute = true;
		gone = gone || !(completion.wr_id & of_send);
	} else if (completion.wr_id & of_send) {
		queued_ -= static_cast<unsigned>(completion.wr_id);
		finished_ = finished_ || (completion.wr_id & of_fin);
	} else if (!gone) {
		const auto slot = static_cast<unsigned>(completion.wr_id);
		Notice notice{};

		if (!notice.read(memory_->incoming[slot], completion.byte_len) ||
			!take(notice, memory_->incoming[slot] + Notice::header)) {
			stream_.broken = true;
			gone = true;
		} else if (post_receive(slot)) {
			posted_again_++;
		}
	}
}

bool Link::take(const Notice &notice, const std::uint8_t *octets)
{
	Incoming &in = stream_.in;

	if (credits_ + notice.slots > slots || !in.can_be(notice, Stream::ring_size) || !stream_.out.apply(notice))
		return false;
	credits_ += notice.slots;
	for (std::size_t at = 0; at < notice.length;) {
		const Piece piece = piece_of(
			in.entered(), notice.written - notice.length + at, notice.length - at, Stream::ring_size);

		std::memcpy(stream_.ring + piece.position, octets + at, piece.length);
		at += piece.length;
	}
	in.apply(notice);
	if (notice.kind == Notice::ask_leave)
		asked_to_leave = true;
	return true;
}

void Link::arm()
{
	if (ibv_req_notify_cq(cq_, 0))
		gone = true;
}

void Link::disarm()
{
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	while (verbs->ibv_get_cq_event(channel_, &cq, &context) == 0)
		events_++;
}

// --- what goes ---

bool Link::can_tell(unsigned keep) const
{
	return up && !mute && !gone && credits_ > keep && queued_ + requests <= depth;
}

std::size_t Link::room() const
{
	return !pending_ && can_tell(reserved) ? std::min(stream_.out.room(Stream::ring_size), most_at_once) : 0;
}

void Link::send(const iovec *pieces, std::size_t skip, std::size_t length)
{
	ibv_send_wr writes[2]{};
	ibv_sge parts[2]{};
	unsigned n = 0;
	Outgoing &out = stream_.out;

	if (length <= Notice::most) {
		gather(memory_->outgoing[tells_ % slots] + Notice::header, pieces, skip, length);
		out.sent(length);
		tell(Notice::news, 0, length, nullptr);
		return;
	}
	for (std::size_t at = 0; at < length; n++) {
		const Piece piece = piece_of(out.entered(), out.offset() + at, length - at, Stream::ring_size);

		gather(memory_->copy + piece.position, pieces, skip + at, piece.length);
		parts[n] = {.addr = reinterpret_cast<std::uintptr_t>(memory_->copy + piece.position),
			.length = static_cast<std::uint32_t>(piece.length),
			.lkey = memory_mr_->lkey};
		writes[n].sg_list = &parts[n];
		writes[n].num_sge = 1;
		writes[n].opcode = IBV_WR_RDMA_WRITE;
		writes[n].wr.rdma = {.remote_addr = peer_.ring + piece.position, .rkey = peer_.stag};
		if (n)
			writes[0].next = &writes[1];
		at += piece.length;
	}
	out.sent(length);
	tell(Notice::news, 0, 0, writes);
}

void Link::tell(Notice::Kind kind, Offset argument, std::size_t length, ibv_send_wr *writes)
{
	std::uint8_t *octets = memory_->outgoing[tells_++ % slots];
	ibv_sge piece = {.addr = reinterpret_cast<std::uintptr_t>(octets),
		.length = static_cast<std::uint32_t>(Notice::header + length),
		.lkey = memory_mr_->lkey};
	ibv_send_wr send{};
	ibv_send_wr *last = nullptr, *refused = nullptr;

	Notice{.kind = kind,
		.answer = stream_.in.entered() != never,
		.length = static_cast<std::uint16_t>(length),
		.slots = static_cast<std::uint16_t>(posted_again_),
		.written = stream_.out.written(),
		.consumed = stream_.in.consumed(),
		.argument = argument}
		.write(octets);
	send.sg_list = &piece;
	send.num_sge = 1;
	send.opcode = IBV_WR_SEND;
	unsigned n = 1;
	for (ibv_send_wr *write = writes; write; write = write->next, n++)
		last = write;
	if (last)
		last->next = &send;
	queued_ += n;
	unsignalled_ += n;
	if (unsignalled_ >= signal_each || kind == Notice::fin) {
		send.send_flags = IBV_SEND_SIGNALED;
		send.wr_id = of_send | unsignalled_ | (kind == Notice::fin ? of_fin : 0);
		unsignalled_ = 0;
	}
	if (ibv_post_send(id_->qp, writes ? writes : &send, &refused))
		mute = true;
	credits_--;
	posted_again_ = 0;
	stream_.in.told();
}

void Link::tell_pending(unsigned &pending, Notice::Kind kind, Offset argument)
{
	if (!(pending & 1U << kind) || !can_tell(0))
		return;
	tell(kind, argument, 0, nullptr);
	pending &= ~(1U << kind);
}

void Link::flush()
{
	const Outgoing &out = stream_.out;

	// In this order: what leaves has entered, and what ends goes no further.
	tell_pending(pending_, Notice::enter, out.entered());
	if (!(pending_ & 1U << Notice::enter))
		tell_pending(pending_, Notice::leave, out.written());
	tell_pending(pending_, Notice::ask_leave, 0);
	if (!(pending_ & (1U << Notice::enter | 1U << Notice::leave)))
		tell_pending(pending_, Notice::fin, fin_);
	if ((posted_again_ >= slots / 2 || stream_.in.untold() >= Stream::ring_size / 4 || stream_.in.owes_answer()) &&
		can_tell(0))
		tell(Notice::news, 0, 0, nullptr);
}

void Link::enter()
{
	stream_.out.enter();
	pending_ |= 1U << Notice::enter;
	flush();
}

void Link::leave()
{
	stream_.out.leave();
	pending_ |= 1U << Notice::leave;
	flush();
}

void Link::ask_to_leave()
{
	pending_ |= 1U << Notice::ask_leave;
	flush();
}

void Link::finish()
{
	if (fin_ != never)
		return;
	fin_ = stream_.out.offset();
	pending_ |= 1U << Notice::fin;
	flush();
}

} // namespace kiws
