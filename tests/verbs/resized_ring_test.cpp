// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The ring of a completion queue that is replaced by another, against the fake kernel.
#include <array>
#include <cerrno>

#include "provider_fixture.hpp"

namespace {

class ResizedRing : public Provider {
protected:
	void add(std::uint64_t first, std::uint64_t last)
	{
		for (std::uint64_t id = first; id < last; id++) {
			kiw_cqe cqe = send_cqe(static_cast<std::uint32_t>(id), id);
			kernel.complete(cq, qp, cqe);
		}
	}
	void expect(std::uint64_t first, std::uint64_t last)
	{
		ibv_wc wc{};

		for (std::uint64_t id = first; id < last; id++) {
			ASSERT_EQ(poll(&wc), 1);
			EXPECT_EQ(wc.wr_id, id);
		}
	}
};

TEST_F(ResizedRing, HasWhatTheOldOneHad)
{
	ibv_wc wc{};

	add(0, 40);
	expect(0, 10);
	for (const int entries : {1000, 32, 5000}) {
		ASSERT_EQ(kiw::resize_cq(cq, entries), 0);
		EXPECT_GE(cq->cqe, entries);
	}
	expect(10, 40);
	EXPECT_EQ(poll(&wc), 0);
	add(40, 140);
	expect(40, 140);
	EXPECT_EQ(poll(&wc), 0);
}

TEST_F(ResizedRing, IsArmedInTheOldOnesPlace)
{
	ASSERT_EQ(kiw::req_notify_cq(cq, 1), 0);
	ASSERT_EQ(kiw::resize_cq(cq, 256), 0);
	EXPECT_EQ(kernel.cq(cq).notify(), KIW_ARM_SOLICITED);
	ASSERT_EQ(kiw::req_notify_cq(cq, 0), 0);
	EXPECT_EQ(kernel.cq(cq).notify(), KIW_ARM_NEXT);
}

TEST_F(ResizedRing, RefusalLeavesTheOldOne)
{
	add(0, 3);
	kernel.refuse_modify = EINVAL;
	EXPECT_EQ(kiw::resize_cq(cq, 1), EINVAL);
	expect(0, 3);
	add(3, 6);
	expect(3, 6);
}

// The kernel has given up the old ring, and the new one can't be had: nothing may be read from either.
TEST_F(ResizedRing, ThatCannotBeMappedEndsTheQueue)
{
	ibv_wc wc{};

	add(0, 3);
	kernel.distort = [](kiw_ring_geometry &geometry) {
		geometry.entries = 3;
	};
	EXPECT_EQ(kiw::resize_cq(cq, 256), EPROTO);
	kernel.distort = nullptr;
	EXPECT_EQ(poll(&wc), -EIO);
	EXPECT_EQ(kiw::req_notify_cq(cq, 0), 0);
	EXPECT_EQ(poll(&wc), -EIO);
}

} // namespace
