// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections, while allocations fail wherever the module makes them: in calls, in works, in TCP's callbacks.
#include <algorithm>
#include <array>
#include <iostream>

#include "../verbs/connection.hpp"
#include "footprint.hpp"
#include "injection.hpp"
#include "life.hpp"

namespace faults {

namespace {

struct Shortage {
	unsigned int times; // that allocations fail in a row
	unsigned int space; // octets that are had before
};

// In the order of trial, see Failing
constexpr std::array shortages = {Shortage{1, 0}, Shortage{2, 0}, Shortage{3, 0}, Shortage{6, 0}, Shortage{1, 300},
	Shortage{1, 1000}, Shortage{1, 3000}, Shortage{1, 10000}, Shortage{3, 10000}, Shortage{1, 40000}};

// Return: how many allocations failed.
unsigned int live_short_of_memory(Range where, const Shortage &shortage, std::string &outcome)
{
	const Failing failing(where, shortage.times, shortage.space);

	outcome = live();
	return failing.failed();
}

// Return: whether any allocation failed.
bool try_function(const Function &function, const Shortage &shortage, const Footprint &before)
{
	std::string outcome;
	unsigned int failed = 0;

	try {
		failed = live_short_of_memory(function.range, shortage, outcome);
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what();
	}
	expect_back_to(before);
	if (failed) {
		std::cout << "  " << function.name << ", " << shortage.times << " after " << shortage.space
			  << " octets: " << failed << " failed" << (outcome.empty() ? "" : "; ") << outcome
			  << std::endl;
		try {
			EXPECT_EQ(live(), "") << "without a fault";
		} catch (const std::exception &e) {
			ADD_FAILURE() << "without a fault: " << e.what();
		}
		expect_back_to(before);
	} else if (!testing::Test::HasFailure()) {
		EXPECT_EQ(outcome, "");
	}
	return failed;
}

} // namespace

TEST(AnywhereFaults, AllocationsOfEveryFunction)
{
	std::vector<std::string> allocating;

	vt::server_device();
	ASSERT_EQ(live(), "");
	const Footprint before = footprint_at_rest();
	for (const Function &function : module_functions()) {
		const testing::ScopedTrace trace(__FILE__, __LINE__, function.name);

		if (!try_function(function, shortages[0], before))
			continue;
		allocating.push_back(function.name);
		for (std::size_t i = 1; i < shortages.size() && !HasFailure(); i++)
			try_function(function, shortages[i], before);
		ASSERT_FALSE(HasFailure());
	}
	std::cout << "  functions that allocate: " << allocating.size() << '\n';
	// Entries from outside that surely do: from a call, from works and from TCP
	for (const char *name :
		{"kiw_create_qp", "kiw_create_listen", "kiw_connect", "kiw_accept", "ep_work", "stream_data_ready"})
		EXPECT_NE(std::find(allocating.begin(), allocating.end(), name), allocating.end()) << name;
}

} // namespace faults
