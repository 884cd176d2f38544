// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Sender address, port and message number identify a message. A segment of a completed one is dropped before it is
// placed: the program may use the memory by then. Completed messages are remembered by sender, see struct kiw_past;
// beyond the senders that there is room for, the longest silent one is forgotten.
#include "record.hpp"

#include <algorithm>
#include <cstring>

#include "count.hpp"
#include "cq.hpp"
#include "region.hpp"

namespace kiwu {

namespace {

// Silence after which a sender may be another process: the longest lifetime of a datagram in a network (RFC 9293
// section 3.4.2). Then the port may be reused.
constexpr Time silence = 120 * second;
// Slots of a completion: struct kiw_cqe and struct kiw_cqe_record
constexpr std::uint32_t cqes = 2;

static_assert(KIW_RECORD_MAX_SEGS == KIW_DGRAM_MAX_SEGS);
static_assert(KIW_RECORD_MAX_SEG_SIZE == KIW_DGRAM_MAX_SEG);

bool drop(kiw_stat why)
{
	count(why);
	return true;
}

} // namespace

void Records::open(kiw_core &core, std::uint32_t timeout)
{
	core_ = &core;
	timeout_ = (timeout ? timeout : std::uint32_t{KIW_RECORD_TIMEOUT}) * millisecond;
}

// --- messages -------------------------------------------------------------------------------------

Records::Slot *Records::find(const RecordKey &key)
{
	for (Slot &slot : slots_)
		if (slot.deadline != never && slot.key.id == key.id && slot.key.is_from(key.from, key.port))
			return &slot;
	return nullptr;
}

/// Did the message complete before?
bool Records::is_past(const RecordKey &key) const
{
	const Time time = now();

	return std::any_of(senders_.begin(), senders_.end(), [&](const Sender &sender) {
		return sender.last && key.is_from(sender.from, sender.port) && time < sender.last + silence &&
		       kiw_past_reaches(&sender.past, key.id) && kiw_past_has(&sender.past, key.id);
	});
}

/// A message completed: later segments are late.
void Records::remember(const RecordKey &key)
{
	const Time time = now();
	Sender *oldest = &senders_[0];

	for (Sender &sender : senders_) {
		if (sender.last && key.is_from(sender.from, sender.port) && time < sender.last + silence &&
			kiw_past_reaches(&sender.past, key.id)) {
			kiw_past_add(&sender.past, key.id);
			sender.last = time;
			return;
		}
		if (sender.last < oldest->last)
			oldest = &sender;
	}
	oldest->from = key.from;
	oldest->port = key.port;
	oldest->last = time;
	kiw_past_begin(&oldest->past, key.id);
}

/// A message is complete: its slot is free.
void Records::end(Slot &slot)
{
	remember(slot.key);
	slot.deadline = never;
	incomplete_--;
}

// --- completions ----------------------------------------------------------------------------------

/// Room is reserved. Returns as kiw_cq_add().
bool Records::report(const RecordKey &key, const kiw_record &record, ib_wc_status status)
{
	std::array<kiw_cqe, cqes> completion{};
	kiw_cqe &first = completion[0];
	kiw_cqe_record second{};

	first.cookie = second.cookie = core_->own.cookie;
	first.qp_num = core_->own.num;
	first.byte_len = record.valid;
	first.wq_index = key.id;
	first.src_qp = key.port;
	first.opcode = second.opcode = KIW_WR_RECORD;
	first.status = second.status = static_cast<u8>(status);
	// A sender can't know which events the target waits for.
	first.flags = KIW_CQE_SOLICITED;
	second.addr = record.write.to;
	std::array<u64, KIW_RECORD_MAP_BITS / 64> map{};
	kiw_record_map(&record, map.data());
	std::memcpy(second.map, map.data(), sizeof(second.map));
	second.flags = KIW_CQE_VOID;
	second.seg_size = record.write.seg_size;
	std::memcpy(second.sgid, &key.from, sizeof(second.sgid));
	second.rkey = record.write.stag;
	second.length = record.write.length;
	static_assert(sizeof(second) == sizeof(kiw_cqe));
	std::memcpy(static_cast<void *>(&completion[1]), &second, sizeof(second));
	return add_held(*core_->rq.cq, completion.data(), cqes);
}

Time Records::report_late(Time time)
{
	Time next = never;

	for (Slot &slot : slots_) {
		if (time < slot.deadline) { // also of a free one
			next = std::min(next, slot.deadline);
			continue;
		}
		count(KIW_STAT_UD_RECORD_TIMEOUTS);
		// A dead queue has been reported already.
		report(slot.key, slot.record, IB_WC_SUCCESS);
		end(slot);
	}
	return next;
}

void Records::flush()
{
	for (Slot &slot : slots_)
		if (slot.deadline != never) {
			report(slot.key, slot.record, IB_WC_WR_FLUSH_ERR);
			end(slot);
		}
}

void Records::forget()
{
	for (Slot &slot : slots_)
		if (slot.deadline != never) {
			unhold(*core_->rq.cq, cqes);
			end(slot);
		}
}

// --- segments -------------------------------------------------------------------------------------

/// May the peer write the whole message? An empty one needs a region, too.
bool Records::may_write(const kiw_dgram_write &write) const
{
	return !kiw_region_check(&core_->own, write.stag, IB_ACCESS_REMOTE_WRITE, write.to, write.length);
}

bool Records::place(const kiw_dgram &d, const std::uint8_t *payload) const
{
	const std::uint64_t to = d.write.to + d.offset;
	kiw_region_use use{};
	std::uint32_t n = d.payload_len;

	if (!n)
		return may_write(d.write);
	if (kiw_region_begin(&core_->own, d.write.stag, IB_ACCESS_REMOTE_WRITE, to, n, &use))
		return false;
	std::memcpy(kiw_region_chunk(use.region, to, &n), payload, n);
	kiw_region_end(&use);
	return true;
}

/// Begins a message at its first received segment. Returns its slot, or nullptr: it is dropped.
Records::Slot *Records::begin(const RecordKey &key, const kiw_dgram &d)
{
	kiw_stat why = KIW_STAT_NUM;
	Slot *free =
		std::find_if(slots_.begin(), slots_.end(), [](const Slot &slot) { return slot.deadline == never; });

	if (is_past(key))
		why = KIW_STAT_UD_RECORD_LATE;
	else if (!may_write(d.write))
		why = KIW_STAT_UD_RECORD_REFUSED;
	else if (free == slots_.end() || !hold(*core_->rq.cq, cqes))
		why = KIW_STAT_UD_RECORD_FULL;
	if (why != KIW_STAT_NUM) {
		count(why);
		return nullptr;
	}
	free->key = key;
	free->deadline = now() + timeout_;
	incomplete_++;
	kiw_record_begin(&free->record, &d.write);
	return free;
}

/// A segment of several
bool Records::take_segment(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload)
{
	Slot *slot = find(key);

	if (!slot) {
		slot = begin(key, d);
		if (!slot)
			return true;
	} else if (!kiw_record_same(&slot->record, &d.write)) {
		return drop(KIW_STAT_UD_RECORD_REFUSED);
	} else if (kiw_record_has(&slot->record, d.offset)) {
		return drop(KIW_STAT_UD_RECORD_LATE);
	}
	// If the region is gone by now, the message stays incomplete until its deadline.
	if (!place(d, payload))
		return drop(KIW_STAT_UD_RECORD_REFUSED);
	slot->deadline = now() + timeout_;
	kiw_record_add(&slot->record, d.offset);
	if (slot->record.missing)
		return true;
	const bool added = report(key, slot->record, IB_WC_SUCCESS);
	end(*slot);
	return added;
}

/// A message of one segment
bool Records::take_whole(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload)
{
	kiw_record record{};

	if (is_past(key))
		return drop(KIW_STAT_UD_RECORD_LATE);
	if (!hold(*core_->rq.cq, cqes))
		return drop(KIW_STAT_UD_RECORD_FULL);
	if (!place(d, payload)) {
		unhold(*core_->rq.cq, cqes);
		return drop(KIW_STAT_UD_RECORD_REFUSED);
	}
	remember(key);
	kiw_record_begin(&record, &d.write);
	kiw_record_add(&record, 0);
	return report(key, record, IB_WC_SUCCESS);
}

bool Records::take(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload)
{
	return kiw_dgram_segs(&d.write) == 1 ? take_whole(key, d, payload) : take_segment(key, d, payload);
}

} // namespace kiwu
