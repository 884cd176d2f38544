// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A process that posts without a pause.
#pragma once

#include <cerrno>
#include <cstdint>

#include "../lib/connection.hpp"

namespace vt {

/// One side that posts and polls and does nothing else. All requests are signalled and numbered.
class Poster {
public:
	explicit Poster(Side &side) : side_(side) {}

	/// Posts one request, when there is room for it.
	template <typename Post>
	void post(const Post &post_it)
	{
		for (;;) {
			const int error = post_it(posted_);
			if (error == 0)
				break;
			if (error != ENOMEM)
				fail("posting", error);
			wait_until([&] { return poll() > 0; }, "room in the send ring");
		}
		posted_++;
		if (posted_ % 16 == 0)
			poll();
	}

	/// Takes the completions that are there, which have to come in order, and be good.
	std::size_t poll()
	{
		const std::vector<ibv_wc> completions = poll_all(side_.send_cq());

		for (const ibv_wc &wc : completions)
			EXPECT_WC(wc, polled_++, IBV_WC_SUCCESS);
		return completions.size();
	}

	void finish()
	{
		wait_until(
			[&] {
				poll();
				return polled_ == posted_;
			},
			"all completions");
	}

	/// Posts so many requests, as fast as there is room for them.
	template <typename Post>
	void flood(std::uint64_t count, const Post &post_it)
	{
		for (std::uint64_t i = 0; i < count; i++)
			post(post_it);
	}

	std::uint64_t posted() const { return posted_; }
	std::uint64_t polled() const { return polled_; }

private:
	Side &side_;
	std::uint64_t posted_ = 0;
	std::uint64_t polled_ = 0;
};

constexpr std::size_t slots = 64;

/// A connection with a client that writes into slots of a region, one after the other, on demand.
template <std::size_t slot>
class Slots : public testing::Test {
protected:
	virtual int write(std::uint64_t n) = 0;

	/// Takes the completions of all that was posted: good ones, and from some point on flushed ones.
	void expect_flushed()
	{
		ibv_wc_status least = IBV_WC_SUCCESS;

		for (std::uint64_t n = poster_.polled(); n < poster_.posted(); n++) {
			const ibv_wc wc = pair_.a().sent();
			EXPECT_EQ(wc.wr_id, n);
			if (wc.status == IBV_WC_WR_FLUSH_ERR)
				least = wc.status;
			EXPECT_EQ(wc.status, least);
		}
	}

	Pair pair_;
	Region from_{pair_.a().pd(), slots *slot};
	Region to_{pair_.b().pd(), slots *slot};
	std::uint32_t rkey_ = to_.rkey(); // stays when the region goes
	Poster poster_{pair_.a()};
	std::function<int(std::uint64_t)> write_ = [this](std::uint64_t n) {
		return write(n);
	};
};

} // namespace vt
