// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <algorithm>
#include <array>
#include <cstddef>
#include <gtest/gtest.h>
#include <utility>

#include "proto/number.h"

namespace {

using Data = std::array<u8, KIW_NUMBER_LEN>;

constexpr kiw_number left{
	.from = 0x10001, .to = 0x20002, .sq_psn = 0xabcdef, .rq_psn = 0x123456, .ready = true, .limited = false};
constexpr kiw_number right{
	.from = 0x20002, .to = 0x10001, .sq_psn = 0x123456, .rq_psn = 0xabcdef, .ready = true, .limited = false};

constexpr u64 nonce = 0x0123456789abcdef;

kiw_number unready(kiw_number n)
{
	n.ready = false;
	n.sq_psn = 0;
	return n;
}

/// What a Request of an end says, and as it is written
struct Request {
	Data data;
	kiw_number_said said;

	explicit Request(const kiw_number &own)
	{
		data.fill(0xee);
		said.version = 0xee;
		kiw_number_request(data.data(), &own, nonce, &said);
		EXPECT_EQ(said.version, KIW_NUMBER_VERSION);
	}
};

kiw_number_said parsed(const Data &data)
{
	kiw_number_said said{};

	EXPECT_EQ(kiw_number_parse(data.data(), data.size(), &said), KIW_NUMBER_GOOD);
	return said;
}

kiw_number_said reply(const kiw_number &own, const kiw_number_said &req)
{
	Data data;

	data.fill(0xee);
	kiw_number_reply(data.data(), &own, &req);
	return parsed(data);
}

kiw_number_proof proof(const kiw_number &own, const kiw_number_said &req, const kiw_number_said &rep)
{
	return kiw_number_proves(&own, &req, &rep);
}

TEST(Number, IsWrittenAsDocumented)
{
	const Data expected{'k', 'i', 'w', 'N', 2, 1, 0, 0, 0, 1, 0, 1, 0, 2, 0, 2, 0, 0xab, 0xcd, 0xef, 0x01, 0x23,
		0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

	EXPECT_EQ(Request(left).data, expected);
	const Data unready_expected{'k', 'i', 'w', 'N', 2, 0, 0, 0, 0, 1, 0, 1, 0, 2, 0, 2, 0, 0x12, 0x34, 0x56, 0x01,
		0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
	EXPECT_EQ(Request(unready(left)).data, unready_expected);
	std::array<u8, KIW_NUMBER_REJECT_LEN> reject;
	kiw_number_reject(reject.data());
	EXPECT_EQ(reject, (std::array<u8, KIW_NUMBER_REJECT_LEN>{'k', 'i', 'w', 'N', 2, 0, 0, 0}));
}

TEST(Number, ComesBackAsItWas)
{
	for (const kiw_number &n : {left, right, unready(left)}) {
		const Request request(n);
		const kiw_number_said back = parsed(request.data);

		EXPECT_EQ(back.from, n.from);
		EXPECT_EQ(back.to, n.to);
		EXPECT_EQ(back.psn, n.ready ? n.sq_psn : n.rq_psn);
		EXPECT_EQ(back.nonce, nonce);
		EXPECT_EQ(back.ready, n.ready);
		EXPECT_EQ(back.version, KIW_NUMBER_VERSION);
		EXPECT_EQ(back.limited, false);
		EXPECT_EQ(request.said.psn, back.psn);
		EXPECT_EQ(request.said.nonce, nonce);
	}
}

// How long its messages may wait is said by an end that sends any.
TEST(Number, AnEndThatMaySendTellsOfItsPatience)
{
	kiw_number n = left;

	n.limited = true;
	EXPECT_EQ(Request(n).data[5], 3);
	EXPECT_TRUE(parsed(Request(n).data).limited);
	EXPECT_TRUE(reply(n, Request(right).said).limited);
	EXPECT_FALSE(reply(left, Request(right).said).limited);
	EXPECT_FALSE(parsed(Request(unready(n)).data).limited);
	Data bad = Request(unready(n)).data;
	kiw_number_said said;
	bad[5] = 2;
	EXPECT_EQ(kiw_number_parse(bad.data(), bad.size(), &said), KIW_NUMBER_MALFORMED);
}

TEST(Number, OtherFormatsAreRefused)
{
	const Data good = Request(left).data;
	kiw_number_said said;

	for (u32 len = 0; len < KIW_NUMBER_LEN; len++)
		EXPECT_EQ(kiw_number_parse(good.data(), len, &said), KIW_NUMBER_MALFORMED) << len;
	std::array<u8, KIW_NUMBER_LEN + 1> longer{};
	std::copy(good.begin(), good.end(), longer.begin());
	EXPECT_EQ(kiw_number_parse(longer.data(), longer.size(), &said), KIW_NUMBER_MALFORMED);
	// Magic, flags, reserved, and what is above 24 bits
	for (const std::size_t at : {0, 1, 2, 3, 5, 6, 7, 8, 12, 16}) {
		Data bad = good;

		bad.at(at) ^= 0x80;
		EXPECT_EQ(kiw_number_parse(bad.data(), bad.size(), &said), KIW_NUMBER_MALFORMED) << at;
	}
}

// Of any length: the sender is told which version it would have to be.
TEST(Number, AnotherVersionIsTold)
{
	std::array<u8, 40> data{'k', 'i', 'w', 'N', 1, 0xff, 0xff, 0xff};
	kiw_number_said said;

	for (const u8 version : {0, 1, 3, 255}) {
		data[4] = version;
		for (const u32 len : {8, 24, 28, 40}) {
			ASSERT_EQ(kiw_number_parse(data.data(), len, &said), KIW_NUMBER_OTHER_VERSION) << len;
			EXPECT_EQ(said.version, version);
		}
		EXPECT_EQ(kiw_number_parse(data.data(), 7, &said), KIW_NUMBER_MALFORMED);
	}
}

TEST(Number, TwoThatNameEachOtherMeet)
{
	for (const auto &[dials, dialed] : {std::pair{left, right}, std::pair{right, left}}) {
		const Request request(dials);

		EXPECT_TRUE(kiw_number_answers(&dialed, &request.said));
		EXPECT_EQ(proof(dials, request.said, reply(dialed, request.said)), KIW_NUMBER_PROVED);
	}
}

// The Request tells one of the PSNs alone, and the Reply the other one.
TEST(Number, NeitherPsnIsToldByBoth)
{
	const Request ready(left), quiet(unready(left));

	EXPECT_EQ(ready.said.psn, left.sq_psn);
	EXPECT_EQ(reply(right, ready.said).psn, left.rq_psn);
	EXPECT_EQ(quiet.said.psn, left.rq_psn);
	EXPECT_EQ(reply(right, quiet.said).psn, left.sq_psn);
	EXPECT_EQ(reply(unready(right), ready.said).psn, 0U);
}

TEST(Number, OneThatMaySendIsEnough)
{
	const kiw_number quiet_left = unready(left), quiet_right = unready(right);
	const Request ready(left), quiet(quiet_left);

	EXPECT_TRUE(kiw_number_answers(&quiet_right, &ready.said));
	EXPECT_EQ(proof(left, ready.said, reply(quiet_right, ready.said)), KIW_NUMBER_UNPROVED);
	EXPECT_TRUE(kiw_number_answers(&right, &quiet.said));
	EXPECT_EQ(proof(quiet_left, quiet.said, reply(right, quiet.said)), KIW_NUMBER_LATER);
	EXPECT_FALSE(kiw_number_answers(&quiet_right, &quiet.said));
}

// The end that dialed may have become ready since.
TEST(Number, AReplyIsTakenForWhatTheRequestSaid)
{
	const Request quiet(unready(left));
	const kiw_number_said rep = reply(right, quiet.said);
	kiw_number mistaken = left;

	EXPECT_EQ(proof(left, quiet.said, rep), KIW_NUMBER_PROVED);
	mistaken.sq_psn ^= 1;
	EXPECT_EQ(proof(mistaken, quiet.said, rep), KIW_NUMBER_WRONG);
	// An end that isn't ready doesn't answer such a Request.
	EXPECT_EQ(proof(left, quiet.said, reply(unready(right), quiet.said)), KIW_NUMBER_WRONG);
}

TEST(Number, AStrangerIsNotAnswered)
{
	for (const kiw_number &n : {left, unready(left)}) {
		const Request request(n);

		for (u32 kiw_number_said::*field :
			{&kiw_number_said::from, &kiw_number_said::to, &kiw_number_said::psn}) {
			kiw_number_said stranger = request.said;

			stranger.*field ^= 1;
			EXPECT_FALSE(kiw_number_answers(&right, &stranger));
		}
		// The PSN of one direction is none of the other.
		kiw_number_said swapped = request.said;
		swapped.ready = !swapped.ready;
		EXPECT_FALSE(kiw_number_answers(&right, &swapped));
	}
}

TEST(Number, AReplyOfAStrangerProvesNothing)
{
	const Request request(left);
	const kiw_number_said good = reply(right, request.said);

	for (u32 kiw_number_said::*field : {&kiw_number_said::from, &kiw_number_said::to, &kiw_number_said::psn}) {
		kiw_number_said stranger = good;

		stranger.*field ^= 1;
		EXPECT_EQ(proof(left, request.said, stranger), KIW_NUMBER_WRONG);
	}
	kiw_number_said stranger = good;
	stranger.nonce ^= 1;
	EXPECT_EQ(proof(left, request.said, stranger), KIW_NUMBER_WRONG);
	// What the Request told is no proof.
	stranger = good;
	stranger.psn = request.said.psn;
	EXPECT_EQ(proof(left, request.said, stranger), KIW_NUMBER_WRONG);
	stranger.ready = false;
	EXPECT_EQ(proof(left, request.said, stranger), KIW_NUMBER_WRONG);
}

TEST(Number, AnEndThatMayNotSendYetTellsNoPsn)
{
	EXPECT_EQ(reply(unready(right), Request(left).said).psn, 0U);
	EXPECT_EQ(reply(unready(right), Request(unready(left)).said).psn, 0U);
}

TEST(Number, AnEndThatMayNotSendYetProvesNothingToAnother)
{
	const Request request(unready(left));
	kiw_number_said early = reply(right, request.said);

	EXPECT_EQ(proof(left, request.said, early), KIW_NUMBER_PROVED);
	early.ready = false;
	EXPECT_EQ(proof(left, request.said, early), KIW_NUMBER_WRONG);
}

TEST(Number, AnAddressHasSixteenOctets)
{
	std::array<u8, 17> own{}, peer{};

	peer[16] = 1;
	EXPECT_TRUE(kiw_number_dials(own.data(), 2, peer.data(), 1));
}

TEST(Number, ExactlyOneEndDials)
{
	std::array<u8, 16> low{}, high{};

	low[15] = 1;
	high[0] = 1;
	EXPECT_TRUE(kiw_number_dials(high.data(), 1, low.data(), 2));
	EXPECT_FALSE(kiw_number_dials(low.data(), 2, high.data(), 1));
	EXPECT_TRUE(kiw_number_dials(low.data(), 2, low.data(), 1));
	EXPECT_FALSE(kiw_number_dials(low.data(), 1, low.data(), 2));
	EXPECT_FALSE(kiw_number_dials(low.data(), 1, low.data(), 1)); // itself: neither
}

} // namespace
