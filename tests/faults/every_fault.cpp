// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "every_fault.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <iostream>
#include <string>

#include "footprint.hpp"
#include "injection.hpp"

namespace faults {

namespace {

// No call makes so many allocations: then the count-down doesn't count.
constexpr unsigned int enough = 2000;

void run_if(const std::function<void()> &step)
{
	if (step)
		step();
}

// One call with its n-th allocation failing, or none for 0. Return: whether one failed.
bool one_call(const Call &c, unsigned int n)
{
	int error = 0;
	bool failed = false;

	run_if(c.prepare);
	if (n)
		failed = with_nth_failing(n, [&] { error = c.call(); });
	else
		error = c.call();
	if (!error)
		run_if(c.after);
	else if (!failed)
		ADD_FAILURE() << "without a fault: " << std::strerror(error);
	else
		EXPECT_NE(std::find(c.errors.begin(), c.errors.end(), error), c.errors.end()) << std::strerror(error);
	run_if(c.clean);
	return failed;
}

} // namespace

void every_fault(Allocates allocates, const Call &call)
{
	unsigned int n = 0;

	// The first of all calls may leave things behind that are kept for the next.
	one_call(call, 0);
	const Footprint before = footprint_at_rest();
	do {
		const testing::ScopedTrace trace(__FILE__, __LINE__, "fault " + std::to_string(++n));

		ASSERT_LT(n, enough);
		const bool failed = one_call(call, n);
		expect_back_to(before);
		if (!failed)
			break;
		one_call(call, 0);
	} while (!testing::Test::HasFailure());
	std::cout << "  allocations that failed: " << n - 1 << '\n';
	if (allocates == Allocates::nothing) {
		EXPECT_EQ(n - 1, 0U);
	} else if (allocates == Allocates::something) {
		EXPECT_GT(n - 1, 0U);
	}
}

} // namespace faults
