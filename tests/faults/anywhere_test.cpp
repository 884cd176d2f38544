// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <algorithm>
#include <gtest/gtest.h>

#include "anywhere.hpp"
#include "life.hpp"

namespace faults {

// The entries from outside that surely allocate: from a call, from works and from TCP
TEST(AnywhereFaults, AllocationsOfEveryFunction)
{
	const std::vector<std::string> allocating = fail_everywhere(live);

	for (const char *name :
		{"kiw_create_qp", "kiw_create_listen", "kiw_connect", "kiw_accept", "ep_work", "pump_data_ready"})
		EXPECT_NE(std::ranges::find(allocating, name), allocating.end()) << name;
}

TEST(AnywhereFaults, AllocationsOfEveryFunctionByNumber)
{
	const std::vector<std::string> allocating = fail_everywhere(live_by_number);

	for (const char *name : {"kiw_create_qp", "kiw_modify_qp", "ep_work", "pump_data_ready"})
		EXPECT_NE(std::ranges::find(allocating, name), allocating.end()) << name;
}

} // namespace faults
