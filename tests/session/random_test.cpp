// SPDX-License-Identifier: GPL-2.0
//
// Whole connections of random posts, compared with what they mean; and random octets in place of a peer's, which may
// end a session and touch nothing.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "side.hpp"

namespace {

using namespace session;

class Random {
public:
	explicit Random(unsigned seed) : engine_(seed) {}
	std::uint32_t below(std::uint32_t n) { return n ? engine_() % n : 0; }
	bool one_in(std::uint32_t n) { return !below(n); }

private:
	std::mt19937 engine_;
};

Terms terms_of(Random &r)
{
	Terms t;

	t.crc = r.one_in(2);
	t.markers = r.one_in(3);
	t.large = r.one_in(2);
	t.ird = t.ord = static_cast<std::uint16_t>(1 + r.below(8));
	t.mss = 536 + r.below(8500);
	return t;
}

/// One side's requests in order, and what the memory of its peer holds when they are done: each writes to a place of
/// its own.
class Program {
public:
	Program(Side &self, Side &peer, Random &r) : self_(self), peer_(peer), r_(r) {}

	void post_one()
	{
		const std::uint32_t length = r_.one_in(4) ? r_.below(Side::memory_size / 4) : r_.below(3000),
				    at = r_.below(Side::memory_size / 4 - length);
		const std::uint32_t to = Side::memory_size / 2 + r_.below(Side::memory_size / 4 - length);
		kiw_wqe wqe{};
		kiw_sge sge = self_.sge(at, length);
		kiw_atomic_args args{.compare_add = r_.below(1000), .swap = 0};

		if (undone_ == 60)
			return;
		wqe.flags = KIW_WQE_SIGNALED | (r_.one_in(5) ? KIW_WQE_FENCE : 0);
		wqe.wr_id = next_++;
		wqe.rkey = peer_.region(0).stag;
		wqe.remote_addr = Side::address + to;
		switch (r_.below(6)) {
		case 0:
			wqe.opcode = KIW_WR_SEND;
			sends_++;
			break;
		case 1:
			wqe.opcode = KIW_WR_READ;
			break;
		case 2:
			wqe.opcode = KIW_WR_FETCH_ADD;
			wqe.remote_addr = Side::address + 3 * Side::memory_size / 4;
			sge = self_.sge(at, 8);
			sum_ += args.compare_add;
			break;
		case 3:
			wqe.opcode = KIW_WR_WRITE_IMM;
			wqe.imm = htobe32(static_cast<std::uint32_t>(wqe.wr_id));
			sends_++;
			break;
		default:
			wqe.opcode = KIW_WR_WRITE;
		}
		if (wqe.opcode == KIW_WR_SEND)
			wqe.rkey = 0, wqe.remote_addr = 0;
		self_.post(wqe, {&sge, 1}, &args);
		undone_++;
	}

	void receive_one()
	{
		if (posted_ == 60)
			return;
		const kiw_sge sge = self_.sge(Side::memory_size / 4, Side::memory_size / 4);

		self_.receive(1 << 20, {&sge, 1});
		posted_++;
	}

	void look()
	{
		while (!self_.completions().empty()) {
			const kiw_cqe cqe = self_.completion();

			ASSERT_EQ(cqe.status, IB_WC_SUCCESS);
			if (cqe.opcode == KIW_WR_RECV || cqe.opcode == KIW_WR_RECV_IMM) {
				posted_--;
				received_++;
				continue;
			}
			ASSERT_EQ(cqe.wr_id, done_++);
			undone_--;
		}
	}

	std::uint64_t posted() const { return next_; }
	std::uint64_t done() const { return done_; }
	unsigned sends() const { return sends_; }
	unsigned received() const { return received_; }
	std::uint64_t sum() const { return sum_; }

private:
	Side &self_, &peer_;
	Random &r_;
	std::uint64_t next_ = 0, done_ = 0, sum_ = 0;
	unsigned undone_ = 0, posted_ = 0, sends_ = 0, received_ = 0;
};

std::uint64_t word(Side &side, std::uint32_t offset)
{
	std::uint64_t value;

	std::memcpy(&value, side.bytes().data() + offset, sizeof(value));
	return value;
}

TEST(Posts, AreDoneInOrderWhateverTheyAre)
{
	for (unsigned seed = 0; seed < 150; seed++) {
		SCOPED_TRACE(seed);
		Random r(seed);
		Pair p(terms_of(r), r.one_in(2) ? Pair::by_cm : Pair::by_number, r.one_in(2) ? 0 : 4608);
		Program left(*p.a, *p.b, r), right(*p.b, *p.a, r);

		// The first message opens the connection.
		for (unsigned i = 0; i < 200; i++) {
			for (Program *x : {&left, &right}) {
				if (r.one_in(2))
					x->post_one();
				if (r.one_in(2))
					x->receive_one();
			}
			if (r.one_in(3)) {
				Side &side = r.one_in(2) ? *p.a : *p.b;

				side.hold = r.one_in(3);
				side.work();
			}
			ASSERT_NO_FATAL_FAILURE(left.look());
			ASSERT_NO_FATAL_FAILURE(right.look());
		}
		p.a->hold = p.b->hold = false;
		for (int i = 0; i < 1000 && (left.done() < left.posted() || right.done() < right.posted()); i++) {
			left.receive_one();
			right.receive_one();
			p.run();
			ASSERT_NO_FATAL_FAILURE(left.look());
			ASSERT_NO_FATAL_FAILURE(right.look());
		}
		ASSERT_EQ(left.done(), left.posted());
		ASSERT_EQ(right.done(), right.posted());
		EXPECT_EQ(left.received(), right.sends());
		EXPECT_EQ(right.received(), left.sends());
		// Only atomics reach this word.
		EXPECT_EQ(word(*p.b, 3 * Side::memory_size / 4), left.sum());
		EXPECT_EQ(word(*p.a, 3 * Side::memory_size / 4), right.sum());
		EXPECT_EQ(p.a->core.state, KIW_QP_RTS);
		EXPECT_EQ(p.a->straddled + p.b->straddled, 0U);
	}
}

TEST(Octets, EndASessionAndTouchNothing)
{
	for (unsigned seed = 0; seed < 1000; seed++) {
		SCOPED_TRACE(seed);
		Random r(seed);
		Pair p(terms_of(r));
		std::vector<std::uint8_t> octets(r.below(300));
		const kiw_sge to = p.b->sge(0, 1000);

		for (auto &octet : octets)
			octet = static_cast<std::uint8_t>(r.below(256));
		// A length that fits, and a header that begins well, lead further.
		if (octets.size() > 40 && !r.one_in(3)) {
			octets[0] = 0;
			octets[1] = static_cast<std::uint8_t>(14 + r.below(60));
			octets[2] =
				static_cast<std::uint8_t>((r.one_in(2) ? 0xc1 : 0x41) & (r.one_in(9) ? 0x7f : 0xff));
			octets[3] = static_cast<std::uint8_t>(0x40 | r.below(16));
		}
		p.b->receive(1, {&to, 1});
		p.b->feed(octets);
		p.run();
		EXPECT_TRUE(std::ranges::all_of(p.b->bytes(1), [](auto byte) { return !byte; }));
		EXPECT_TRUE(std::ranges::all_of(p.b->bytes(2), [](auto byte) { return !byte; }));
		p.b->reset();
		EXPECT_EQ(p.b->core.state, KIW_QP_ERROR);
		ASSERT_FALSE(p.b->completions().empty());
	}
}

TEST(Octets, OfASlotThatAProcessScribblesAreRefused)
{
	for (unsigned seed = 0; seed < 1000; seed++) {
		SCOPED_TRACE(seed);
		Random r(seed);
		Pair p(terms_of(r));
		std::vector<std::uint8_t> slot(160);

		for (auto &octet : slot)
			octet = static_cast<std::uint8_t>(r.one_in(2) ? r.below(256) : 0);
		slot[0] = static_cast<std::uint8_t>(r.below(16));
		slot[1] &= KIW_WQE_FLAGS;
		slot[2] = static_cast<std::uint8_t>(r.below(6));
		slot[3] = 0;
		p.a->scribble(slot, r.one_in(10) ? r.below(1U << 31) : 1);
		p.run();
		EXPECT_TRUE(std::ranges::all_of(p.b->bytes(2), [](auto byte) { return !byte; }));
		p.a->reset();
		EXPECT_EQ(p.a->core.state, KIW_QP_ERROR);
	}
}

/// A connection whose bytes change on their way: with a CRC each change is found.
TEST(Octets, ThatChangeOnTheWayAreFound)
{
	for (unsigned seed = 0; seed < 400; seed++) {
		SCOPED_TRACE(seed);
		Random r(seed);
		Terms terms;

		terms.crc = true;
		Pair from(terms), to(terms);
		const std::uint32_t length = 1 + r.below(3000);
		const kiw_sge sge = from.a->sge(0, length);
		kiw_wqe wqe{};

		wqe.opcode = KIW_WR_WRITE;
		wqe.rkey = from.b->region(0).stag;
		wqe.remote_addr = Side::address;
		std::ranges::fill(from.a->bytes(), std::uint8_t{0x5a});
		from.a->post(wqe, {&sge, 1});
		const auto caught = from.catch_of_a();
		std::vector<std::uint8_t> bytes(caught.begin(), caught.end());

		ASSERT_GT(bytes.size(), length);
		bytes[r.below(static_cast<std::uint32_t>(bytes.size()))] ^= static_cast<std::uint8_t>(1U << r.below(8));
		to.b->feed(bytes);
		to.run();
		EXPECT_TRUE(std::ranges::all_of(to.b->bytes(), [](auto byte) { return !byte; }));
	}
}

} // namespace
