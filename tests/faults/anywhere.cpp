// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "anywhere.hpp"

#include <array>
#include <gtest/gtest.h>
#include <iostream>

#include "../lib/connection.hpp"
#include "footprint.hpp"
#include "injection.hpp"
#include "step.hpp"

namespace faults {

namespace {

struct Shortage {
	unsigned int times; // that allocations fail in a row
	unsigned int space; // octets that are had before
};

constexpr std::array<unsigned int, 3> more_times = {2, 3, 6};
constexpr std::array<unsigned int, 5> spaces = {300, 1000, 3000, 10000, 40000};

class Everywhere {
public:
	explicit Everywhere(const std::function<std::string()> &live) : live_(live) {}

	/// Return: how many allocations failed.
	unsigned int try_function(const Function &function, const Shortage &shortage) const;
	void expect_no_rest() const { expect_back_to(before_); }

private:
	const std::function<std::string()> &live_;
	Footprint before_ = footprint_at_rest();
};

unsigned int Everywhere::try_function(const Function &function, const Shortage &shortage) const
{
	std::string outcome;
	unsigned int failed = 0;

	try {
		const Failing failing(function.range, shortage.times, shortage.space);

		outcome = live_();
		failed = failing.failed();
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what();
	}
	if (failed) {
		expect_no_rest();
		std::cout << "  " << function.name << ", " << shortage.times << " after " << shortage.space
			  << " octets: " << failed << " failed" << (outcome.empty() ? "" : "; ") << outcome
			  << std::endl;
		if (shortage.times == 1) {
			EXPECT_FALSE(outcome.starts_with(broke)) << "what fails once is tried again";
		}
		try {
			EXPECT_EQ(live_(), "") << "without a fault";
		} catch (const std::exception &e) {
			ADD_FAILURE() << "without a fault: " << e.what();
		}
	} else if (!testing::Test::HasFailure()) {
		EXPECT_EQ(outcome, "");
	}
	return failed;
}

} // namespace

std::vector<std::string> fail_everywhere(const std::function<std::string()> &live)
{
	std::vector<std::string> allocating;

	vt::server_device();
	EXPECT_EQ(live(), "");
	const Everywhere everywhere(live);
	// Those that allocate only now and then show in one of several lives.
	const std::vector<Function> functions = allocating_functions([&] {
		for (int i = 0; i < 5; i++)
			EXPECT_EQ(live(), "");
	});
	for (const Function &function : functions) {
		const testing::ScopedTrace trace(__FILE__, __LINE__, function.name);
		const auto failed = [&] {
			return testing::Test::HasFailure();
		};

		if (failed())
			break;
		if (!everywhere.try_function(function, {.times = 1, .space = 0}))
			continue;
		allocating.push_back(function.name);
		// Where fewer failed than might have, more times are no different; where none failed, more space isn't.
		for (std::size_t i = 0; i < more_times.size() && !failed(); i++)
			if (everywhere.try_function(function, {.times = more_times[i], .space = 0}) < more_times[i])
				break;
		for (std::size_t i = 0; i < spaces.size() && !failed(); i++)
			if (!everywhere.try_function(function, {.times = 1, .space = spaces[i]}))
				break;
	}
	everywhere.expect_no_rest();
	std::cout << "  functions that allocate: " << allocating.size() << '\n';
	return allocating;
}

} // namespace faults
