// SPDX-License-Identifier: GPL-2.0
#include "side.hpp"

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/crc.h"

namespace {

constexpr std::uint32_t stride = 32 + 256;

[[noreturn]] void misused(const char *what)
{
	std::fprintf(stderr, "FINDING: the session %s\n", what);
	std::abort();
}

constexpr gfp_t how_to_allocate = 7;
// Numbers of bytes wrap inside of a connection, as TCP's may.
constexpr u32 first_byte = 0xfffff010;
constexpr u32 full = UINT32_MAX;

session::Side &side(const kiw_session *s)
{
	return *reinterpret_cast<const session::Side::Seat *>(s)->side;
}

kiw_region *find(const kiw_owner *owner, u32 stag)
{
	for (u32 i = 0; i < owner->regions; i++) {
		if (owner->region[i].stag == stag && owner->region[i].valid)
			return &owner->region[i];
	}
	return nullptr;
}

} // namespace

// --- memory ---------------------------------------------------------------------------------------

kiw_region_fault kiw_region_check(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len)
{
	const kiw_region *region = find(owner, stag);

	if (!region)
		return KIW_REGION_STAG;
	if (region->foreign)
		return KIW_REGION_PD;
	if ((region->access & access) != access)
		return KIW_REGION_ACCESS;
	if (len && addr + len < addr)
		return KIW_REGION_WRAP;
	if (len && (addr < region->iova || addr - region->iova > region->length ||
			   len > region->length - (addr - region->iova)))
		return KIW_REGION_BOUNDS;
	return KIW_REGION_OK;
}

kiw_region_fault kiw_region_begin(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len, kiw_region_use *use)
{
	const kiw_region_fault fault = kiw_region_check(owner, stag, access, addr, len);

	use->region = fault ? nullptr : find(owner, stag);
	session::Side::uses += !fault;
	return fault;
}

kiw_region_fault kiw_region_go_on(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len, kiw_region_use *use)
{
	return kiw_region_begin(owner, stag, access, addr, len, use);
}

kiw_region_fault kiw_region_invalidate(const kiw_owner *owner, u32 stag)
{
	kiw_region *region = find(owner, stag);

	if (!region)
		return KIW_REGION_STAG;
	if (region->foreign)
		return KIW_REGION_PD;
	if (!region->may_be_invalidated)
		return KIW_REGION_ACCESS;
	region->valid = false;
	return KIW_REGION_OK;
}

kiw_region_fault kiw_region_invalidate_own(const kiw_owner *owner, u32 stag)
{
	return kiw_region_invalidate(owner, stag);
}

// Region 1 is a window to be bound.
kiw_region_fault kiw_region_bind(const kiw_owner *owner, u32 stag, const kiw_bind_args *args)
{
	kiw_region *region = find(owner, stag);

	if (!region)
		return KIW_REGION_STAG;
	if (!region->may_be_invalidated)
		return KIW_REGION_ACCESS;
	region->iova = args->addr;
	region->length = args->length;
	return KIW_REGION_OK;
}

// It is named by what it was called so far.
kiw_region_fault kiw_region_register(const kiw_owner *owner, u32 stag, const kiw_bind_args *args)
{
	for (u32 i = 0; i < owner->regions; i++) {
		kiw_region &region = owner->region[i];

		if (region.stag != args->lkey)
			continue;
		if (region.valid)
			return KIW_REGION_ACCESS;
		region.stag = stag;
		region.iova = args->addr;
		region.access = static_cast<int>(args->access);
		region.valid = true;
		return KIW_REGION_OK;
	}
	return KIW_REGION_STAG;
}

void kiw_region_end(kiw_region_use *use)
{
	if (!use->region)
		misused("ends a use that it hasn't begun");
	session::Side::uses--;
	use->region = nullptr;
}

void kiw_region_set_aside(kiw_region_use *use)
{
	kiw_region_end(use);
}

u64 kiw_region_offset(const kiw_region *region, u64 addr)
{
	return addr - region->iova;
}

// Pages end in the midst of things.
void *kiw_region_chunk(const kiw_region *region, u64 addr, u32 *len)
{
	constexpr u32 page = 4096;
	const u64 off = addr - region->iova;

	*len = std::min<u32>(*len, page - off % page);
	if (off + *len > region->length)
		misused("touches bytes behind a region");
	session::Side::mapped++;
	return region->bytes + off;
}

void kiw_region_unmap(void *)
{
	session::Side::mapped--;
}

// --- the way out ----------------------------------------------------------------------------------

bool kiw_batch_open(const kiw_batch *b)
{
	return b->len < BATCH_ROOM / 2;
}

bool kiw_batch_whole(const kiw_batch *b)
{
	return !b->sent;
}

bool kiw_batch_unsent(const kiw_batch *b)
{
	return b->sent < b->len;
}

// In two halves of an FPDU's usual length, so that nothing comes in one piece.
void *kiw_batch_room(kiw_batch *b, u32 least, gfp_t gfp, u32 *room)
{
	if (gfp != how_to_allocate)
		misused("allocates as it pleases");
	if (!session::Side::rooms) {
		session::Side::refused = true;
		if (session::Side::rooms_once)
			session::Side::rooms = -1;
		return nullptr;
	}
	if (session::Side::rooms > 0)
		session::Side::rooms--;
	*room = std::min<u32>(BATCH_ROOM - b->len, std::max<u32>(least, 700));
	return *room >= least ? b->bytes + b->len : nullptr;
}

void kiw_batch_grow(kiw_batch *b, u32 n)
{
	b->len += n;
	b->offset += n;
}

void kiw_batch_lend(kiw_batch *b, const kiw_region *region, u64 addr, u32 n)
{
	if (!b->loan)
		misused("lends without a loan");
	std::memcpy(b->bytes + b->len, region->bytes + (addr - region->iova), n);
	kiw_batch_grow(b, n);
	b->lent += n;
}

struct kiw_batch_mark kiw_batch_mark(const kiw_batch *b)
{
	return {b->len, b->lent};
}

void kiw_batch_cut(kiw_batch *b, const struct kiw_batch_mark *mark)
{
	b->offset -= b->len - mark->len;
	b->len = mark->len;
	b->lent = mark->lent;
}

void kiw_batch_clear(kiw_batch *b)
{
	b->len = b->lent = b->fpdus = b->sent = 0;
	b->loan = nullptr;
}

bool kiw_loan_use(kiw_loan *loan, kiw_region *, u64, u32)
{
	return loan->end != full;
}

// What TCP got nothing of is none of its loans.
void kiw_loan_put(kiw_loan *loan, bool any)
{
	if (loan && any)
		loan->put = true;
	else if (loan)
		loan->of->pop_back();
}

// --- the way in -----------------------------------------------------------------------------------

bool kiw_cursor_fill(kiw_cursor *c)
{
	return c->n;
}

void kiw_cursor_skip(kiw_cursor *c, u32 n)
{
	if (n > c->staged)
		misused("takes bytes that aren't there");
	c->p += n;
	c->staged -= n;
	c->n -= n;
	c->source.seq += n;
}

// --- the carrier ----------------------------------------------------------------------------------

bool kiw_cq_add(kiw_cq *cq, const kiw_cqe *cqe, unsigned int n)
{
	for (; n && cq->entries.size() < cq->room; n--)
		cq->entries.push_back(*cqe++);
	if (cq->on_add)
		cq->on_add();
	return !n;
}

void kiw_carrier_assert_held(const kiw_session *s)
{
	if (!side(s).held)
		side(s).unheld++;
}

unsigned long kiw_carrier_now(void)
{
	return session::Side::now;
}

void kiw_carrier_kick(kiw_session *s)
{
	side(s).kicked = true;
}

void kiw_carrier_late(kiw_session *s, unsigned long delay)
{
	side(s).late = session::Side::now + delay;
}

void kiw_carrier_established(kiw_session *s)
{
	side(s).established = true;
}

void kiw_carrier_closing(kiw_session *s)
{
	side(s).closing = true;
}

void kiw_carrier_begun(kiw_session *s)
{
	side(s).begun++;
}

void kiw_carrier_starve(kiw_session *s)
{
	side(s).starves_ = true;
	if (side(s).on_starve)
		side(s).on_starve();
	side(s).waits_until_ = session::Side::now + 10 * KIW_CARRIER_SECOND;
}

bool kiw_carrier_waits(kiw_session *s)
{
	return session::Side::now < side(s).waits_until_;
}

bool kiw_carrier_shares(const kiw_session *s)
{
	return side(s).shared.entries;
}

kiw_take kiw_carrier_take_shared(kiw_session *s, kiw_recv_req *req)
{
	return kiw_rq_take(&side(s).shared, req);
}

void kiw_carrier_leave_shared(kiw_session *s)
{
	side(s).left_shared++;
}

gfp_t kiw_carrier_gfp(const kiw_session *)
{
	return how_to_allocate;
}

u32 kiw_carrier_mss(const kiw_session *s)
{
	return side(s).mss;
}

u32 kiw_carrier_sent(const kiw_session *s)
{
	return side(s).pushed;
}

u32 kiw_carrier_acked(const kiw_session *s)
{
	return side(s).peer ? side(s).peer->consumed() : side(s).pushed;
}

bool kiw_carrier_begin(kiw_session *s)
{
	return side(s).has_memory;
}

void kiw_carrier_end(kiw_session *s, bool watch)
{
	side(s).watched = watch;
}

bool kiw_carrier_takes(kiw_session *s)
{
	return side(s).has_room;
}

int kiw_carrier_push(kiw_session *s, bool more)
{
	side(s).more.push_back(more);
	if (!more)
		side(s).finals.insert(side(s).pushed + s->tx.batch.len - s->tx.batch.sent);
	if (!s->neg.large && !s->tx.batch.sent)
		side(s).straddled += side(s).straddling();
	return side(s).refuses ? side(s).refuses : side(s).push();
}

std::uint32_t kiw_carrier_gathers(kiw_session *s)
{
	return side(s).gathers;
}

void kiw_carrier_drop(kiw_session *s)
{
	side(s).drops = true;
	kiw_batch_clear(&s->tx.batch);
}

// With a CRC nobody may change what is sent.
kiw_loan *kiw_carrier_lend(kiw_session *s, u32 len)
{
	session::Side &of = side(s);

	if (!of.lends_from || len < of.lends_from || s->neg.crc || s->neg.markers_tx)
		return nullptr;
	if (!s->tx.batch.loan) {
		of.loans.push_back({.of = &of.loans, .end = of.loan_is_full ? full : 0});
		s->tx.batch.loan = &of.loans.back();
	}
	return s->tx.batch.loan;
}

bool kiw_carrier_lends(const kiw_session *s)
{
	return !side(s).loans.empty();
}

void kiw_carrier_hold(kiw_session *s, u32 end)
{
	side(s).loans.back().end = end;
}

void kiw_carrier_take_back(kiw_session *s, u32 *end)
{
	auto &loans = side(s).loans;

	for (; !loans.empty() && loans.front().over && loans.front().put; loans.pop_front())
		*end = loans.front().end;
}

void kiw_carrier_count(kiw_session *s, kiw_stat which)
{
	side(s).counts.at(which)++;
}

void kiw_carrier_count_sent(kiw_session *s, u32 bytes, u32 lent, u32 fpdus)
{
	side(s).sent_bytes += bytes;
	side(s).lent_bytes += lent;
	side(s).sent_fpdus += fpdus;
}

// --- traces ---------------------------------------------------------------------------------------

std::deque<session::Traced> &session::traced()
{
	static std::deque<Traced> events;

	return events;
}

namespace {

void trace(const char *event, u32 num, int a, int b, int c)
{
	session::traced().push_back({event, num, {a, b, c}});
	if (session::traced().size() > 64)
		session::traced().pop_front();
}

} // namespace

void trace_kiw_fpdu_out(u32 num, u8 op, bool last, u32 n)
{
	trace("out", num, op, last, static_cast<int>(n));
}

void trace_kiw_fpdu_in(u32 num, u8 op, bool last, u32 n)
{
	trace("in", num, op, last, static_cast<int>(n));
}

void trace_kiw_term_received(u32 num, u8 layer, u8 etype, u8 code)
{
	trace("term", num, layer, etype, code);
}

void trace_kiw_stream_fail(u32 num, u8 layer, u8 etype, u8 code)
{
	trace("fail", num, layer, etype, code);
}

void trace_kiw_qp_state(u32 num, int event, u8 from, u8 to)
{
	trace("state", num, event, from, to);
}

// --- a side ---------------------------------------------------------------------------------------

namespace session {

const kiw_manner Pair::by_cm = {.grace = 0, .outlives = false, .acked = false, .lost = IB_WC_WR_FLUSH_ERR};
const kiw_manner Pair::by_number = {.grace = 0, .outlives = true, .acked = true, .lost = IB_WC_RETRY_EXC_ERR};
const kiw_manner Pair::patient = {.grace = 2, .outlives = true, .acked = true, .lost = IB_WC_RETRY_EXC_ERR};

Side::Side(int fd, const Terms &terms, std::uint32_t num, const kiw_manner &manner)
	: pushed(first_byte),
	  mss(terms.mss),
	  fd_(fd),
	  terms_(terms),
	  sq_ring_(KIW_RING_HEADER + terms.entries * stride),
	  rq_ring_(KIW_RING_HEADER + terms.entries * stride),
	  swrs_(terms.entries),
	  consumed_(first_byte)
{
	for (std::size_t i = 0; i < regions_.size(); i++) {
		memory_[i].resize(memory_size);
		regions_[i] = {.stag = static_cast<u32>((num * 16 + i + 1) << 8 | 0x5a),
			.access = i == 2 ? IB_ACCESS_LOCAL_WRITE : all,
			.iova = address + i * 0x1000000,
			.length = memory_size,
			.bytes = memory_[i].data(),
			.valid = true,
			.may_be_invalidated = i == 1,
			.foreign = false};
	}
	core.own = {.region = regions_.data(), .regions = 3, .cookie = 0xc00c1e, .num = num, .access = 0xff};
	core.manner = &manner;
	core.shown = IB_QPS_RTS;
	core.sq.map.mem = sq_ring_.data();
	core.sq.map.stride = core.rq.map.stride = stride;
	core.rq.map.mem = rq_ring_.data();
	core.sq.entries = core.rq.entries = terms.entries;
	core.sq.next = core.sq.done = core.rq.next = core.rq.posted = terms.start;
	for (void *ring : {core.sq.map.mem, core.rq.map.mem})
		static_cast<kiw_wq_ring *>(ring)->prod = terms.start;
	core.sq.max_inline = 64;
	core.sq.max_sge = core.rq.max_sge = 4;
	core.sq.head = KIW_SQ_HEAD;
	core.sq.swr = swrs_.data();
	core.sq.cq = core.rq.cq = &cq_;
	core.sq.owner = core.rq.owner = &core.own;
	s.core = &core;
	s.tx.req.sge = send_sges_.data();
	s.recv.sge = recv_sges_.data();
	s.neg.crc = terms.crc;
	s.neg.markers_tx = s.neg.markers_rx = terms.markers;
	s.neg.large = terms.large;
	s.neg.ext = terms.ext;
	s.neg.ird = terms.ird;
	s.neg.ord = terms.ord;
	s.neg.p2p = terms.rtr;
	s.neg.rtr = terms.rtr;
	s.tx.acks.mark = static_cast<kiw_acks_mark *>(
		kiw_reads_init(&s.tx.reads_out, &s.tx.reads_in, terms.ord, terms.ird, 4, KIW_ACKS_LEN));
	if (!s.tx.acks.mark)
		throw std::bad_alloc();
	core.caps = KIW_CAP_IMM | KIW_CAP_ATOMIC;
	kiw_session_start(&s, first_byte, terms.first);
}

Side::~Side()
{
	kiw_reads_free(&s.tx.reads_out, &s.tx.reads_in);
	::close(fd_);
	if (uses || mapped)
		misused("keeps a region in use");
}

kiw_sge Side::sge(std::uint32_t offset, std::uint32_t length, std::size_t i) const
{
	return {.addr = region(i).iova + offset, .length = length, .lkey = region(i).stag};
}

std::uint8_t *Side::slot(void *ring, std::uint32_t index, std::uint32_t size) const
{
	return static_cast<std::uint8_t *>(ring) + KIW_RING_HEADER + (index & (terms_.entries - 1)) * size;
}

void Side::post(const kiw_wqe &wqe, std::span<const kiw_sge> sges, const kiw_atomic_args *args)
{
	auto *ring = static_cast<kiw_wq_ring *>(core.sq.map.mem);
	std::uint8_t *at = slot(ring, ring->prod, stride);
	kiw_wqe w = wqe;

	w.num_sge = static_cast<std::uint8_t>(sges.size());
	std::memcpy(at, &w, sizeof(w));
	if (!sges.empty())
		std::memcpy(at + sizeof(w), sges.data(), sges.size_bytes());
	if (args)
		std::memcpy(at + sizeof(w) + sizeof(kiw_sge), args, sizeof(*args));
	__atomic_store_n(&ring->prod, ring->prod + 1, __ATOMIC_RELEASE);
	kicked = true;
}

void Side::post_receive(kiw_rq &rq, std::uint64_t id, std::span<const kiw_sge> sges)
{
	auto *ring = static_cast<kiw_wq_ring *>(rq.map.mem);
	std::uint8_t *at = slot(ring, ring->prod, stride);
	kiw_rqe rqe{};

	rqe.wr_id = id;
	rqe.num_sge = static_cast<std::uint8_t>(sges.size());
	std::memcpy(at, &rqe, sizeof(rqe));
	if (!sges.empty())
		std::memcpy(at + sizeof(rqe), sges.data(), sges.size_bytes());
	__atomic_store_n(&ring->prod, ring->prod + 1, __ATOMIC_RELEASE);
	kicked = true;
}

void Side::receive(std::uint64_t id, std::span<const kiw_sge> sges)
{
	post_receive(core.rq, id, sges);
}

void Side::receive_shared(std::uint64_t id, std::span<const kiw_sge> sges)
{
	post_receive(shared, id, sges);
}

void Side::share()
{
	shared_ring_.resize(rq_ring_.size());
	shared = core.rq;
	shared.map.mem = shared_ring_.data();
	shared.cq = nullptr;
	shared.owner = nullptr;
	core.rq.entries = 0;
	core.rq.map.mem = nullptr;
}

void Side::end_loans()
{
	for (kiw_loan &loan : loans)
		loan.over = true;
	kicked = true;
}

void Side::scribble(std::span<const std::uint8_t> bytes, std::uint32_t prod)
{
	auto *ring = static_cast<kiw_wq_ring *>(core.sq.map.mem);

	if (!bytes.empty())
		std::memcpy(slot(ring, ring->prod, stride), bytes.data(), std::min<std::size_t>(bytes.size(), stride));
	__atomic_store_n(&ring->prod, prod, __ATOMIC_RELEASE);
	kicked = true;
}

kiw_cqe Side::completion()
{
	if (cq_.entries.empty())
		throw std::runtime_error("no completion");
	const kiw_cqe cqe = cq_.entries.front();

	cq_.entries.pop_front();
	return cqe;
}

/// FPDUs of the batch that go on behind the TCP segment that they begin in, though they would fit into one. TCP begins
/// a segment with each batch, and then wherever one is full.
unsigned Side::straddling() const
{
	const kiw_batch &b = s.tx.batch;
	const bool markers = s.neg.markers_tx;
	unsigned n = 0;

	for (std::uint32_t at = 0, length = 0; at < b.len; at += length) {
		const std::uint32_t offset = b.offset - b.len + at;
		const std::uint8_t *ulpdu =
			b.bytes + at + (markers && offset % KIW_MARKER_SPACING == 0 ? KIW_MARKER_SIZE : 0);

		length = kiw_fpdu_wire_len(offset, ulpdu[0] << 8 | ulpdu[1], markers);
		n += at % mss + length > mss;
	}
	return n;
}

// TCP takes what its buffer has room for.
int Side::push()
{
	kiw_batch &b = s.tx.batch;
	const ssize_t n = ::send(fd_, b.bytes + b.sent, b.len - b.sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -errno;
	b.sent += n;
	pushed += n;
	return b.sent == b.len ? 0 : -EINTR;
}

void Side::reset()
{
	::shutdown(fd_, SHUT_RDWR);
	kiw_session_broken_off(&s, KIW_EV_LLP_LOST);
	act();
}

void Side::feed(std::span<const std::uint8_t> bytes)
{
	in_.insert(in_.end(), bytes.begin(), bytes.end());
	feed_from(-1, 0);
}

void Side::feed_from(int fd, std::uint32_t n)
{
	std::array<std::uint8_t, 64> behind;
	kiw_cursor cursor{}, ahead{};

	cursor.p = in_.data();
	cursor.staged = static_cast<u32>(in_.size());
	cursor.n = cursor.staged + n;
	cursor.source = {consumed_, consumed_ + cursor.n};
	cursor.fd = fd;
	cursor.stage = behind.data();
	cursor.room = behind.size();
	cursor.ahead = &ahead;
	kiw_session_feed(&s, &cursor.source, 1 << 20);
	consumed_ = cursor.source.seq;
	if (s.rx.stopped)
		kiw_cursor_skip(&cursor, cursor.staged);
	in_ = std::vector<std::uint8_t>(cursor.p, cursor.p + cursor.staged);
	act();
}

bool Side::take()
{
	std::array<std::uint8_t, 5000> some;
	const ssize_t n = hold || fin_received || s.gone ? -1 : ::recv(fd_, some.data(), some.size(), MSG_DONTWAIT);

	if (n > 0)
		feed({some.data(), static_cast<std::size_t>(n)});
	else if (s.rx.held)
		feed({});
	if (n == 0)
		peer_gone();
	return n >= 0;
}

void Side::peer_gone()
{
	const bool begun = s.recv.taken || kiw_tx_begun(&s);
	const bool unfinished = core.manner->outlives ? begun : kiw_tx_unfinished(&s);

	fin_received = true;
	if (!s.rx.between || unfinished)
		kiw_session_broken_off(&s, KIW_EV_PEER_FIN_BUSY);
	else
		event(KIW_EV_PEER_FIN);
	act();
}

void Side::check_closed()
{
	if (fin_sent && fin_received && !kiw_tx_awaits(&s) &&
		(core.state == KIW_QP_CLOSING || core.state == KIW_QP_TERMINATE))
		event(KIW_EV_CLOSE_DONE);
}

void Side::act()
{
	if ((s.todo & KIW_ACT_SEND_FIN) && !kiw_tx_pending(&s)) {
		s.todo &= ~KIW_ACT_SEND_FIN;
		fin_sent = true;
		::shutdown(fd_, SHUT_WR);
	}
	check_closed();
	if (s.todo & KIW_ACT_ABORT) {
		::shutdown(fd_, SHUT_RDWR);
		kiw_tx_drop(&s);
	}
	if (s.todo & KIW_ACT_FLUSH_RQ)
		kiw_rq_flush(&core.rq, &s.recv);
	if (s.todo & KIW_ACT_ASYNC)
		events.push_back(s.async);
	if (s.todo & KIW_ACT_FLUSH_SQ)
		kiw_core_flush_sq(&core);
	s.todo &= KIW_ACT_SEND_FIN;
}

bool Side::work()
{
	const std::uint32_t before = pushed;
	bool any = take(), more = false;

	kicked = false;
	if (s.gone && late && now >= late)
		kiw_session_broken_off(&s, KIW_EV_LLP_LOST);
	kiw_tx_take_back(&s);
	if (core.state == KIW_QP_RTS || core.state == KIW_QP_TERMINATE) {
		more = kiw_tx_run(&s, 4);
		if (s.tx.lost) {
			s.tx.lost = false;
			kiw_session_broken_off(&s, KIW_EV_LLP_LOST);
		}
	}
	act();
	return any || more || kicked || pushed != before;
}

Pair::Pair(const Terms &terms, const kiw_manner &manner, int buffer)
{
	int fds[2];

	if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		throw std::runtime_error("socketpair");
	for (const int fd : fds) {
		if (buffer && ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)))
			throw std::runtime_error("SO_SNDBUF");
	}
	Terms answers = terms;

	answers.first = false;
	a = std::make_unique<Side>(fds[0], terms, 1, manner);
	b = std::make_unique<Side>(fds[1], answers, 2, manner);
	a->peer = b.get();
	b->peer = a.get();
}

std::vector<std::uint8_t> Side::raw()
{
	std::vector<std::uint8_t> bytes(1 << 20);
	const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);

	bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
	return bytes;
}

std::vector<std::uint8_t> Pair::catch_of_a()
{
	b->hold = true;
	run();
	return b->raw();
}

void Pair::run()
{
	for (int idle = 0; idle < 2;)
		idle = a->work() | b->work() ? 0 : idle + 1;
}

} // namespace session
