// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "direction.hpp"

#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

using kiws::Incoming;
using kiws::Notice;
using kiws::Offset;
using kiws::Outgoing;

constexpr std::size_t ring = 4096;

Notice notice(Notice::Kind kind, Offset written, Offset argument = 0, std::uint16_t length = 0, Offset consumed = 0)
{
	Notice made{};

	made.kind = kind;
	made.length = length;
	made.written = written;
	made.consumed = consumed;
	made.argument = argument;
	return made;
}

/// Applies a notice if it can be. Returns whether it could.
bool apply(Incoming &in, const Notice &notice)
{
	if (!in.can_be(notice, ring))
		return false;
	in.apply(notice);
	return true;
}

/// One that has taken 100 octets from TCP, and of which the next come by the lane
Incoming on_lane()
{
	Incoming in;

	in.taken(100);
	EXPECT_TRUE(apply(in, notice(Notice::enter, 100, 100)));
	return in;
}

TEST(Coming, BeginsOnTcp)
{
	const Incoming in;

	EXPECT_EQ(in.from_tcp(), kiws::never);
	EXPECT_EQ(in.waiting(), 0U);
	EXPECT_FALSE(in.ended());
}

TEST(Coming, TakesFromTcpUpToTheLane)
{
	Incoming in;

	in.taken(10);
	ASSERT_TRUE(apply(in, notice(Notice::enter, 30, 30)));
	ASSERT_TRUE(apply(in, notice(Notice::news, 35, 0, 5)));
	EXPECT_EQ(in.from_tcp(), 20U);
	EXPECT_EQ(in.waiting(), 0U) << "those of TCP come first";
	in.taken(20);
	EXPECT_EQ(in.from_tcp(), 0U);
	EXPECT_EQ(in.waiting(), 5U);
}

TEST(Coming, TakesFromTcpBehindTheLane)
{
	Incoming in = on_lane();

	ASSERT_TRUE(apply(in, notice(Notice::news, 150)));
	ASSERT_TRUE(apply(in, notice(Notice::leave, 150, 150)));
	EXPECT_EQ(in.waiting(), 50U);
	EXPECT_EQ(in.from_tcp(), 0U);
	in.taken(50);
	EXPECT_EQ(in.waiting(), 0U);
	EXPECT_EQ(in.from_tcp(), kiws::never - 150);
	in.taken(1000);
	EXPECT_EQ(in.waiting(), 0U) << "the ring has nothing more, however far TCP is";
	EXPECT_EQ(in.consumed(), 150U);
}

TEST(Coming, EndsWhereThePeerSays)
{
	Incoming in;

	in.taken(10);
	ASSERT_TRUE(apply(in, notice(Notice::fin, 0, 30)));
	EXPECT_EQ(in.from_tcp(), 20U);
	EXPECT_FALSE(in.ended());
	in.taken(20);
	EXPECT_TRUE(in.ended());
	Incoming other = on_lane();
	ASSERT_TRUE(apply(other, notice(Notice::news, 120)));
	ASSERT_TRUE(apply(other, notice(Notice::fin, 120, 120)));
	other.taken(20);
	EXPECT_TRUE(other.ended());
}

TEST(Coming, TellsWhatWasTaken)
{
	Incoming in = on_lane();

	EXPECT_EQ(in.consumed(), 100U);
	ASSERT_TRUE(apply(in, notice(Notice::news, 200)));
	in.taken(60);
	EXPECT_EQ(in.untold(), 60U);
	in.told();
	EXPECT_EQ(in.consumed(), 160U);
	EXPECT_EQ(in.untold(), 0U);
}

TEST(Coming, RefusesWhatCantBe)
{
	Incoming fresh;

	fresh.taken(50);
	EXPECT_FALSE(fresh.can_be(notice(Notice::news, 10), ring)) << "octets before the lane";
	EXPECT_FALSE(fresh.can_be(notice(Notice::news, 0, 0, 1), ring));
	EXPECT_FALSE(fresh.can_be(notice(Notice::leave, 0, 0), ring)) << "LEAVE without ENTER";
	EXPECT_FALSE(fresh.can_be(notice(Notice::enter, 49, 49), ring)) << "where TCP was already";
	EXPECT_FALSE(fresh.can_be(notice(Notice::enter, 60, 59), ring));
	EXPECT_FALSE(fresh.can_be(notice(Notice::enter, kiws::never - 1, kiws::never - 1), ring));
	EXPECT_FALSE(fresh.can_be(notice(Notice::fin, 0, 49), ring)) << "an end that has passed";
	EXPECT_FALSE(fresh.can_be(notice(Notice::ask_leave, 0, 1), ring));
	EXPECT_TRUE(fresh.can_be(notice(Notice::ask_leave, 0), ring));

	Incoming in = on_lane();
	EXPECT_FALSE(in.can_be(notice(Notice::enter, 100, 100), ring)) << "twice";
	EXPECT_FALSE(in.can_be(notice(Notice::news, 99), ring)) << "back";
	EXPECT_FALSE(in.can_be(notice(Notice::news, 100 + ring + 1), ring)) << "more than the ring has";
	EXPECT_TRUE(in.can_be(notice(Notice::news, 100 + ring), ring));
	EXPECT_FALSE(in.can_be(notice(Notice::news, 110, 0, 11), ring)) << "more behind it than it tells";
	EXPECT_TRUE(in.can_be(notice(Notice::news, 110, 0, 10), ring));
	EXPECT_FALSE(in.can_be(notice(Notice::leave, 110, 109), ring));
	EXPECT_FALSE(in.can_be(notice(Notice::fin, 110, 111), ring)) << "an end behind the lane's last octet";

	ASSERT_TRUE(apply(in, notice(Notice::leave, 110, 110)));
	EXPECT_FALSE(in.can_be(notice(Notice::news, 111), ring)) << "the lane was left";
	EXPECT_FALSE(in.can_be(notice(Notice::leave, 110, 110), ring));
	EXPECT_FALSE(in.can_be(notice(Notice::fin, 110, 109), ring));
	ASSERT_TRUE(apply(in, notice(Notice::fin, 110, 500)));
	EXPECT_FALSE(in.can_be(notice(Notice::fin, 110, 500), ring)) << "one end";
}

TEST(Going, HasTheRoomThatThePeerGives)
{
	Outgoing out;

	EXPECT_EQ(out.room(ring), 0U);
	EXPECT_EQ(out.written(), 0U);
	out.sent(77);
	out.enter();
	EXPECT_EQ(out.room(ring), ring);
	out.sent(ring);
	EXPECT_EQ(out.room(ring), 0U);
	EXPECT_EQ(out.written(), 77 + ring);
	EXPECT_TRUE(out.apply(notice(Notice::news, 0, 0, 0, 177)));
	EXPECT_EQ(out.room(ring), 100U);
	EXPECT_TRUE(out.apply(notice(Notice::news, 0, 0, 0, 77 + ring)));
	EXPECT_EQ(out.consumed(), out.offset());
	out.leave();
	out.sent(1000);
	EXPECT_EQ(out.written(), 77 + ring);
	EXPECT_EQ(out.room(ring), 0U);
}

TEST(Going, RefusesWhatThePeerCantHave)
{
	Outgoing out;

	EXPECT_TRUE(out.apply(notice(Notice::news, 0)));
	EXPECT_FALSE(out.apply(notice(Notice::news, 0, 0, 0, 1)));
	out.sent(100);
	out.enter();
	EXPECT_TRUE(out.apply(notice(Notice::news, 0, 0, 0, 0))) << "said before it knew";
	EXPECT_FALSE(out.apply(notice(Notice::news, 0, 0, 0, 99)));
	EXPECT_FALSE(out.apply(notice(Notice::news, 0, 0, 0, 101)));
	out.sent(50);
	EXPECT_TRUE(out.apply(notice(Notice::news, 0, 0, 0, 150)));
	EXPECT_FALSE(out.apply(notice(Notice::news, 0, 0, 0, 149))) << "back";
	out.leave();
	out.sent(50);
	EXPECT_FALSE(out.apply(notice(Notice::news, 0, 0, 0, 151))) << "what came by TCP";
}

TEST(Going, WaitsBehindTheLaneUntilThePeerKnowsOfIt)
{
	Outgoing out;
	Notice answer = notice(Notice::news, 0);

	answer.answer = true;
	EXPECT_TRUE(out.on_tcp());
	EXPECT_FALSE(out.apply(answer)) << "to nothing";
	out.enter();
	EXPECT_FALSE(out.on_tcp());
	out.leave();
	EXPECT_FALSE(out.on_tcp());
	EXPECT_TRUE(out.apply(notice(Notice::news, 0)));
	EXPECT_FALSE(out.on_tcp());
	EXPECT_TRUE(out.apply(answer));
	EXPECT_TRUE(out.on_tcp());
}

TEST(Coming, OwesAnAnswerToEnter)
{
	Incoming in;

	EXPECT_FALSE(in.owes_answer());
	ASSERT_TRUE(apply(in, notice(Notice::enter, 0, 0)));
	EXPECT_TRUE(in.owes_answer());
	in.told();
	EXPECT_FALSE(in.owes_answer());
}

TEST(Pieces, GoRoundTheRing)
{
	const kiws::Piece whole = kiws::piece_of(100, 100 + 4 * ring + 10, 20, ring);
	const kiws::Piece first = kiws::piece_of(100, 100 + ring - 5, 20, ring);

	EXPECT_EQ(whole.position, 10U);
	EXPECT_EQ(whole.length, 20U);
	EXPECT_EQ(first.position, ring - 5);
	EXPECT_EQ(first.length, 5U);
}

/// A direction whose octets and notices take their time: those of TCP and those of the lane know nothing of each other.
class Random : public testing::TestWithParam<unsigned> {
protected:
	std::minstd_rand random{GetParam() + 1};
	Outgoing out;
	Incoming in;
	std::deque<std::uint8_t> tcp;
	std::deque<std::pair<Notice, std::vector<std::uint8_t>>> lane;
	std::deque<Notice> back;
	std::vector<std::uint8_t> copy = std::vector<std::uint8_t>(ring);
	bool finished = false;

	static std::uint8_t octet(Offset offset) { return static_cast<std::uint8_t>(offset * 7 + (offset >> 8)); }
	std::size_t some(std::size_t most) { return most ? random() % most + 1 : 0; }

	void tell(Notice::Kind kind, Offset argument, const std::vector<std::uint8_t> &octets = {})
	{
		lane.emplace_back(
			notice(kind, out.written(), argument, static_cast<std::uint16_t>(octets.size())), octets);
	}

	void send()
	{
		if (finished)
			return;
		if (random() % 40 == 0 && out.entered() == kiws::never) {
			out.enter();
			tell(Notice::enter, out.entered());
		} else if (random() % 200 == 0 && out.on_lane()) {
			out.leave();
			tell(Notice::leave, out.written());
		} else if (random() % 300 == 0) {
			finished = true;
			tell(Notice::fin, out.offset());
		} else if (out.on_lane()) {
			std::vector<std::uint8_t> octets(some(std::min<std::size_t>(out.room(ring), 300)));

			for (std::size_t i = 0; i < octets.size(); i++)
				octets[i] = octet(out.offset() + i);
			out.sent(octets.size());
			tell(Notice::news, 0, octets);
		} else if (out.on_tcp()) {
			for (std::size_t n = some(300); n > 0; n--) {
				tcp.push_back(octet(out.offset()));
				out.sent(1);
			}
		}
	}

	void arrive()
	{
		const auto [told, octets] = lane.front();

		lane.pop_front();
		ASSERT_TRUE(in.can_be(told, ring));
		for (std::size_t at = 0; at < octets.size();) {
			const kiws::Piece piece =
				kiws::piece_of(in.entered(), told.written - told.length + at, octets.size() - at, ring);

			std::copy_n(octets.begin() + static_cast<std::ptrdiff_t>(at), piece.length,
				copy.begin() + static_cast<std::ptrdiff_t>(piece.position));
			at += piece.length;
		}
		in.apply(told);
		if (in.owes_answer())
			answer();
	}

	void answer()
	{
		back.push_back(notice(Notice::news, 0, 0, 0, in.consumed()));
		back.back().answer = in.entered() != kiws::never;
		in.told();
	}

	void receive()
	{
		if (in.waiting()) {
			const std::size_t n = some(in.waiting());

			for (std::size_t at = 0; at < n;) {
				const kiws::Piece piece = kiws::piece_of(in.entered(), in.offset(), n - at, ring);

				for (std::size_t i = 0; i < piece.length; i++)
					ASSERT_EQ(copy[piece.position + i], octet(in.offset() + i)) << in.offset() + i;
				in.taken(piece.length);
				at += piece.length;
			}
			answer();
		} else if (in.from_tcp() && !tcp.empty()) {
			for (std::size_t n = some(std::min<std::uint64_t>(in.from_tcp(), tcp.size())); n > 0; n--) {
				ASSERT_EQ(tcp.front(), octet(in.offset())) << in.offset();
				tcp.pop_front();
				in.taken(1);
			}
		}
	}
};

TEST_P(Random, OctetsComeInTheirOrder)
{
	for (unsigned step = 0; step < 100'000 && !in.ended(); step++) {
		switch (random() % 4) {
		case 0:
			send();
			break;
		case 1:
			if (!lane.empty())
				arrive();
			break;
		case 2:
			if (!back.empty()) {
				ASSERT_TRUE(out.apply(back.front()));
				back.pop_front();
			}
			break;
		default:
			receive();
			break;
		}
		if (HasFatalFailure())
			return;
	}
	EXPECT_TRUE(in.ended());
	EXPECT_EQ(in.offset(), out.offset());
	EXPECT_TRUE(tcp.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, testing::Range(0U, 300U));

} // namespace
