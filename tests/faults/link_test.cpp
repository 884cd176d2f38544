// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Links and their interfaces, and the module, come and go, while one allocation after the other fails under them.
#include <filesystem>
#include <gtest/gtest.h>

#include "../lib/support.hpp"
#include "footprint.hpp"
#include "injection.hpp"

namespace faults {

namespace {

constexpr unsigned int enough = 5000;

const std::vector<std::string> add_link = {"rdma", "link", "add", "kiwf", "type", "kiwarp", "netdev", "fault0"};
const std::vector<std::string> delete_link = {"rdma", "link", "delete", "kiwf"};

void must(const std::vector<std::string> &command)
{
	const Ran ran = run(command);

	if (ran.status)
		vt::fail(command[0] + " " + command[1] + ": " + ran.output);
}

} // namespace

class LinkFaults : public testing::Test {
protected:
	LinkFaults() { must({"ip", "link", "add", "fault0", "type", "dummy"}); }
	~LinkFaults() override { run({"ip", "link", "delete", "fault0"}); }
	LinkFaults(const LinkFaults &) = delete;
	LinkFaults &operator=(const LinkFaults &) = delete;
};

// What fails may be a part that RDMA core does without: then the link is there, and can be deleted as ever.
TEST_F(LinkFaults, Add)
{
	const Footprint before = footprint();
	unsigned int n = 0, tried = 0, refused = 0;
	bool failed = false;

	do {
		// Nearly all of the many are RDMA core's, alike and for sysfs: further on, less and less often one.
		n += 1 + n / 20;
		tried++;
		const testing::ScopedTrace trace(__FILE__, __LINE__, "fault " + std::to_string(n));

		ASSERT_LT(n, enough);
		const Ran ran = run_with_nth_failing(n, add_link);
		failed = ran.failed;
		if (ran.status) {
			refused++;
			ASSERT_TRUE(failed) << ran.output;
			EXPECT_NE(ran.output.find("Cannot allocate memory"), std::string::npos) << ran.output;
			expect_back_to(before);
			must(add_link);
		}
		must(delete_link);
		expect_back_to(before);
	} while (failed && !HasFailure());
	std::cout << "  allocations that failed: " << tried - 1 << " of about " << n << ", links refused: " << refused
		  << '\n';
	EXPECT_GT(refused, 0U);
}

TEST_F(LinkFaults, Delete)
{
	const Footprint before = footprint();

	must(add_link);
	const Ran ran = run_with_nth_failing(1, delete_link);
	EXPECT_EQ(ran.status, 0) << ran.output;
	EXPECT_FALSE(ran.failed);
	expect_back_to(before);
}

// Events about an interface can't fail; the least that goes missing is news for programs.
TEST_F(LinkFaults, InterfaceEvents)
{
	const Footprint before = footprint();
	unsigned int n = 0, sum = 0;
	bool failed = false;

	do {
		failed = false;
		ASSERT_LT(++n, enough);
		must(add_link);
		for (const std::vector<std::string> &event :
			std::vector<std::vector<std::string>>{{"up"}, {"mtu", "9000"}, {"address", "02:00:00:00:00:0f"},
				{"down"}, {"name", "fault1"}, {"name", "fault0"}}) {
			std::vector<std::string> command = {
				"ip", "link", "set", event.back() == "fault0" ? "fault1" : "fault0"};

			command.insert(command.end(), event.begin(), event.end());
			const Ran ran = run_with_nth_failing(n, command);
			EXPECT_EQ(ran.status, 0) << event[0] << ": " << ran.output;
			failed |= ran.failed;
			sum += ran.failed;
		}
		must(delete_link);
		expect_back_to(before);
	} while (failed && !HasFailure());
	std::cout << "  allocations that failed: " << sum << '\n';
	EXPECT_GT(sum, 0U);
}

TEST_F(LinkFaults, InterfaceGoes)
{
	const Footprint before = footprint();

	must(add_link);
	const Ran ran = run_with_nth_failing(1, {"ip", "link", "delete", "fault0"});
	EXPECT_EQ(ran.status, 0) << ran.output;
	expect_back_to(before);
}

// Takes all devices away: run by itself, after all others.
TEST(ModuleFaults, Load)
{
	const std::vector<std::string> load = {"modprobe", "kiwarp"}, unload = {"rmmod", "kiwarp"};
	unsigned int n = 0, refused = 0;
	bool failed = false;

	must(unload);
	do {
		const testing::ScopedTrace trace(__FILE__, __LINE__, "fault " + std::to_string(++n));

		ASSERT_LT(n, enough);
		// The module's init code has an address only while it runs: its caller stands for it.
		const Ran ran = run_with_nth_failing(n, load, kernel_function("do_one_initcall"));
		failed = ran.failed;
		if (ran.status) {
			refused++;
			ASSERT_TRUE(failed) << ran.output;
			EXPECT_NE(ran.output.find("Cannot allocate memory"), std::string::npos) << ran.output;
			EXPECT_FALSE(std::filesystem::exists("/sys/module/kiwarp"));
			must(load);
		}
		must({"rdma", "link", "add", "kiwf", "type", "kiwarp", "netdev", "lo"});
		must(unload);
	} while (failed && !HasFailure());
	std::cout << "  allocations that failed: " << n - 1 << ", refused: " << refused << '\n';
	EXPECT_GT(refused, 0U);
	must(load);
}

} // namespace faults
