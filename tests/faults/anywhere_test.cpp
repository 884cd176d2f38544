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

constexpr std::array<unsigned int, 3> more_times = {2, 3, 6};
constexpr std::array<unsigned int, 5> spaces = {300, 1000, 3000, 10000, 40000};

// Return: how many allocations failed.
unsigned int live_short_of_memory(Range where, const Shortage &shortage, std::string &outcome)
{
	const Failing failing(where, shortage.times, shortage.space);

	outcome = live();
	return failing.failed();
}

// Return: how many allocations failed.
unsigned int try_function(const Function &function, const Shortage &shortage, const Footprint &before)
{
	std::string outcome;
	unsigned int failed = 0;

	try {
		failed = live_short_of_memory(function.range, shortage, outcome);
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what();
	}
	if (failed) {
		expect_back_to(before);
		std::cout << "  " << function.name << ", " << shortage.times << " after " << shortage.space
			  << " octets: " << failed << " failed" << (outcome.empty() ? "" : "; ") << outcome
			  << std::endl;
		try {
			EXPECT_EQ(live(), "") << "without a fault";
		} catch (const std::exception &e) {
			ADD_FAILURE() << "without a fault: " << e.what();
		}
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
	// Those that allocate only now and then show in one of several lives.
	const std::vector<Function> functions = allocating_functions([] {
		for (int i = 0; i < 5; i++)
			ASSERT_EQ(live(), "");
	});
	for (const Function &function : functions) {
		const testing::ScopedTrace trace(__FILE__, __LINE__, function.name);

		if (!try_function(function, {.times = 1, .space = 0}, before))
			continue;
		allocating.push_back(function.name);
		// Where fewer failed than might have, more times are no different; where none failed, more space isn't.
		for (std::size_t i = 0; i < more_times.size() && !HasFailure(); i++)
			if (try_function(function, {.times = more_times[i], .space = 0}, before) < more_times[i])
				break;
		for (std::size_t i = 0; i < spaces.size() && !HasFailure(); i++)
			if (!try_function(function, {.times = 1, .space = spaces[i]}, before))
				break;
		ASSERT_FALSE(HasFailure());
	}
	expect_back_to(before);
	std::cout << "  functions that allocate: " << allocating.size() << '\n';
	// Entries from outside that surely do: from a call, from works and from TCP
	for (const char *name :
		{"kiw_create_qp", "kiw_create_listen", "kiw_connect", "kiw_accept", "ep_work", "pump_data_ready"})
		EXPECT_NE(std::find(allocating.begin(), allocating.end(), name), allocating.end()) << name;
}

} // namespace faults
