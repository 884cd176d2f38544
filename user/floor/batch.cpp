// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "batch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "region.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

// An FPDU that is begun below batch_copied finds room: 64 KB, headers, markers, pad and CRC.
constexpr std::uint32_t longest_fpdu = 66 << 10;
// Iovecs of the longest FPDU: each buffer, and what is between them
constexpr std::uint32_t fpdu_pieces = 2 * 16 + 4;

/// A few pieces of memory that nobody uses: they are still in the cache. Any thread takes and leaves them.
template <typename T, std::size_t count>
class Spares {
public:
	T *take()
	{
		for (auto &place : places_)
			if (place.load(std::memory_order_relaxed))
				if (T *spare = place.exchange(nullptr, std::memory_order_acquire))
					return spare;
		return static_cast<T *>(std::malloc(sizeof(T)));
	}

	void leave(T *spare)
	{
		for (auto &place : places_) {
			T *none = nullptr;

			if (!place.load(std::memory_order_relaxed) &&
				place.compare_exchange_strong(none, spare, std::memory_order_release))
				return;
		}
		std::free(spare);
	}

private:
	std::atomic<T *> places_[count] = {};
};

struct Stage {
	std::uint8_t bytes[stage_size];
};

} // namespace

} // namespace kiwu

/// What is in use says the batch. Nobody zeroes it.
struct kiw_batch_memory {
	u8 *own; // that copy_lent() has copied to, or nullptr
	std::array<iovec, kiwu::batch_pieces> piece;
	std::array<u8, kiwu::batch_copied + kiwu::longest_fpdu> bytes;
};

namespace kiwu {

namespace {

constinit Spares<kiw_batch_memory, 4> batches;
constinit Spares<Stage, 4> stages;

void add(kiw_batch *b, void *p, u32 n)
{
	iovec *last = b->pieces ? &b->mem->piece[b->pieces - 1] : nullptr;

	if (last && static_cast<u8 *>(last->iov_base) + last->iov_len == p)
		last->iov_len += n;
	else
		b->mem->piece[b->pieces++] = {.iov_base = p, .iov_len = n};
	b->len += n;
	b->offset += n;
}

} // namespace

std::uint8_t *take_stage()
{
	Stage *stage = stages.take();

	return stage ? stage->bytes : nullptr;
}

void leave_stage(std::uint8_t *stage)
{
	stages.leave(reinterpret_cast<Stage *>(stage));
}

bool take_memory(kiw_batch &batch)
{
	if (!batch.mem && (batch.mem = batches.take()))
		batch.mem->own = nullptr;
	return batch.mem;
}

void leave_memory(kiw_batch &batch)
{
	leave_use(batch.use);
	if (batch.pieces || !batch.mem)
		return;
	batches.leave(batch.mem);
	batch.mem = nullptr;
}

std::uint32_t rest_of(const kiw_batch &batch, iovec *parts)
{
	std::size_t skip = batch.sent;
	std::uint32_t first = 0;

	while (first < batch.pieces && skip >= batch.mem->piece[first].iov_len)
		skip -= batch.mem->piece[first++].iov_len;
	for (std::uint32_t i = first; i < batch.pieces; i++)
		parts[i - first] = batch.mem->piece[i];
	if (first < batch.pieces) {
		parts[0].iov_base = static_cast<u8 *>(parts[0].iov_base) + skip;
		parts[0].iov_len -= skip;
	}
	return batch.pieces - first;
}

int push(kiw_batch &batch, int fd, int flags)
{
	std::array<iovec, batch_pieces> rest;
	msghdr message{};

	leave_use(batch.use);
	message.msg_iov = batch.mem->piece.data();
	message.msg_iovlen = batch.pieces;
	if (batch.sent) {
		message.msg_iov = rest.data();
		message.msg_iovlen = rest_of(batch, rest.data());
	}
	const ssize_t taken = sys::sendmsg(fd, &message, flags);
	if (taken < 0)
		return static_cast<int>(taken);
	batch.sent += static_cast<u32>(taken);
	return batch.sent == batch.len ? 0 : -EAGAIN;
}

bool copy_lent(kiw_batch &batch)
{
	std::array<iovec, batch_pieces> rest;
	const std::uint32_t parts = rest_of(batch, rest.data());
	const u32 left = batch.len - batch.sent;
	auto *own = static_cast<u8 *>(std::malloc(left));

	if (!own)
		return false;
	u8 *to = own;
	for (std::uint32_t i = 0; i < parts; i++) {
		std::memcpy(to, rest[i].iov_base, rest[i].iov_len);
		to += rest[i].iov_len;
	}
	std::free(batch.mem->own);
	batch.mem->own = own;
	batch.mem->piece[0] = {.iov_base = own, .iov_len = left};
	batch.pieces = 1;
	batch.used = 0;
	batch.len = left;
	batch.lent = batch.sent = 0;
	batch.loan = nullptr;
	return true;
}

} // namespace kiwu

// --- what the session calls -----------------------------------------------------------------------

bool kiw_batch_open(const kiw_batch *b)
{
	return b->len - b->lent < kiwu::batch_copied && b->used < kiwu::batch_copied && b->len < kiwu::batch_length &&
	       b->pieces <= kiwu::batch_pieces - kiwu::fpdu_pieces;
}

void *kiw_batch_room(kiw_batch *b, u32 least, gfp_t, u32 *room)
{
	*room = static_cast<u32>(b->mem->bytes.size()) - b->used;
	return *room >= least ? b->mem->bytes.data() + b->used : nullptr;
}

void kiw_batch_grow(kiw_batch *b, u32 n)
{
	kiwu::add(b, b->mem->bytes.data() + b->used, n);
	b->used += n;
}

void kiw_batch_lend(kiw_batch *b, const kiw_region *region, u64 addr, u32 n)
{
	kiwu::add(b, kiw_region_chunk(region, addr, &n), n);
	b->lent += n;
}

struct kiw_batch_mark kiw_batch_mark(const kiw_batch *b)
{
	return {
		.pieces = b->pieces,
		.last_len = b->pieces ? static_cast<u32>(b->mem->piece[b->pieces - 1].iov_len) : 0,
		.used = b->used,
		.len = b->len,
		.lent = b->lent,
	};
}

void kiw_batch_cut(kiw_batch *b, const struct kiw_batch_mark *mark)
{
	b->pieces = mark->pieces;
	if (b->pieces)
		b->mem->piece[b->pieces - 1].iov_len = mark->last_len;
	b->used = mark->used;
	b->offset -= b->len - mark->len;
	b->len = mark->len;
	b->lent = mark->lent;
}

void kiw_batch_clear(kiw_batch *b)
{
	if (b->mem) {
		std::free(b->mem->own);
		b->mem->own = nullptr;
	}
	b->loan = nullptr;
	b->pieces = b->used = b->len = b->lent = b->fpdus = b->sent = 0;
}
