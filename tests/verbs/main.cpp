// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// verbs_test [--rounds] [--among=PATTERNS] [GOOGLETEST...]: all tests, or those that GoogleTest's filter picks.
//   --rounds          once as the module's parameters are, and those that are about frames again with markers and CRCs
//   --among=PATTERNS  no others than these, whatever the filter picks; in GoogleTest's notation, without "-"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "../lib/support.hpp"
#include "child.hpp"

namespace vt {
namespace {

/// Parameters of the module, and the tests that run with them
struct Round {
	const char *name;
	std::map<std::string, std::string> parameters;
	const char *among;
};

const std::vector<Round> rounds{
	{"as it is", {}, "*"},
	{"markers", {{"markers", "1"}}, "Send.*:Rdma*:*Violation*"},
	{"markers, CRC", {{"markers", "1"}, {"crc", "1"}}, "Send.*:Rdma*:*Violation*"},
	{"CRC", {{"crc", "1"}}, "Access.*:Stress.Mixed*:Flood.*:LongFlood.*"},
};

/// Whether one of several patterns is that of a name
bool matches(const std::string &patterns, const std::string &name)
{
	std::istringstream all(patterns);
	std::string pattern;

	while (std::getline(all, pattern, ':'))
		if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
			return true;
	return false;
}

/// As GoogleTest reads its filter
bool picks(const std::string &filter, const std::string &name)
{
	const std::size_t minus = filter.find('-');
	const std::string wanted = filter.substr(0, minus);

	return matches(wanted.empty() ? "*" : wanted, name) &&
	       (minus == std::string::npos || !matches(filter.substr(minus + 1), name));
}

/// The tests that the filter and both lists pick, by name: a filter that is exactly those
std::string common(const std::string &filter, const std::string &among, const std::string &also)
{
	const auto &all = *testing::UnitTest::GetInstance();
	std::string names;

	for (int i = 0; i < all.total_test_suite_count(); i++) {
		const testing::TestSuite &suite = *all.GetTestSuite(i);

		for (int j = 0; j < suite.total_test_count(); j++) {
			const std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();

			if (picks(filter, name) && matches(among, name) && matches(also, name))
				names += (names.empty() ? "" : ":") + name;
		}
	}
	return names;
}

/// In a process of its own, as GoogleTest's tests run once in each, and one that dies ends no other round.
bool run(const Round &round)
{
	const Parameters parameters(round.parameters);
	int status = 0;

	std::printf("== %s\n", round.name);
	std::fflush(stdout);
	const pid_t child = fork();
	if (child == 0)
		std::exit(RUN_ALL_TESTS()); // NOLINT(concurrency-mt-unsafe): there is one thread
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/// Takes an option of ours out of the arguments.
bool take(std::vector<char *> &arguments, const char *option, std::string *value)
{
	const auto found = std::ranges::find_if(arguments, [=](const char *argument) {
		return value ? !std::strncmp(argument, option, std::strlen(option)) : !std::strcmp(argument, option);
	});

	if (found == arguments.end())
		return false;
	if (value)
		*value = *found + std::strlen(option);
	arguments.erase(found);
	return true;
}

int all_rounds(const std::string &filter, const std::string &among)
{
	bool good = true;

	for (const Round &round : rounds) {
		const std::string names = common(filter, among, round.among);

		if (names.empty())
			continue;
		GTEST_FLAG_SET(filter, names);
		good &= run(round);
	}
	return good ? 0 : 1;
}

} // namespace
} // namespace vt

int main(int argc, char **argv)
{
	const int result = vt::play_part({argv + 1, argv + argc});

	if (result >= 0)
		return result;
	std::vector<char *> arguments(argv, argv + argc);
	std::string among = "*";
	const bool in_rounds = vt::take(arguments, "--rounds", nullptr);
	const bool some = vt::take(arguments, "--among=", &among);
	argc = static_cast<int>(arguments.size());
	testing::InitGoogleTest(&argc, arguments.data());
	const std::string filter = GTEST_FLAG_GET(filter);
	if (in_rounds && !GTEST_FLAG_GET(list_tests))
		return vt::all_rounds(filter, among);
	if (some) {
		const std::string names = vt::common(filter, among, "*");

		if (names.empty())
			return 0;
		GTEST_FLAG_SET(filter, names);
	}
	return RUN_ALL_TESTS();
}
