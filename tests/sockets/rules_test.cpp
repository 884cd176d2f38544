// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rules.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <netinet/in.h>
#include <string>

namespace {

using kiws::Mode;
using kiws::Rules;

std::map<std::string, std::string> variables;

const char *variable(const char *name)
{
	const auto found = variables.find(name);

	return found == variables.end() ? nullptr : found->second.c_str();
}

class RulesOf : public testing::Test {
protected:
	Rules rules;
	char error[256] = "";

	bool read(std::map<std::string, std::string> all)
	{
		variables = std::move(all);
		return rules.read(variable, error, sizeof(error));
	}

	bool connects(const char *address, std::uint16_t port) const
	{
		sockaddr_in in{};
		sockaddr_in6 in6{};

		in.sin_family = AF_INET;
		in.sin_port = htons(port);
		if (::inet_pton(AF_INET, address, &in.sin_addr) == 1)
			return rules.connects(reinterpret_cast<const sockaddr *>(&in), sizeof(in));
		in6.sin6_family = AF_INET6;
		in6.sin6_port = htons(port);
		EXPECT_EQ(::inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
		return rules.connects(reinterpret_cast<const sockaddr *>(&in6), sizeof(in6));
	}
};

TEST_F(RulesOf, NothingNameNothing)
{
	ASSERT_TRUE(read({}));
	EXPECT_EQ(rules.mode, Mode::api);
	EXPECT_FALSE(rules.verbose);
	EXPECT_EQ(rules.arena, 64U << 20);
	EXPECT_EQ(rules.wait, 100U);
	EXPECT_FALSE(connects("127.0.0.1", 80));
	EXPECT_FALSE(rules.listens(80));
}

TEST_F(RulesOf, ModesAreWords)
{
	for (const auto &[word, mode] :
		std::map<std::string, Mode>{{"api", Mode::api}, {"always", Mode::always}, {"require", Mode::require}}) {
		ASSERT_TRUE(read({{"IWARP_MODE", word}})) << error;
		EXPECT_EQ(rules.mode, mode);
	}
}

TEST_F(RulesOf, PeersHaveAddressesAndPorts)
{
	ASSERT_TRUE(read({{"IWARP_PEERS", "10.77.0.0/20:5201 192.0.2.7:80-90, [fd77::]/64:* [::1]:1"}})) << error;
	EXPECT_TRUE(connects("10.77.0.1", 5201));
	EXPECT_TRUE(connects("10.77.15.255", 5201));
	EXPECT_FALSE(connects("10.77.16.0", 5201));
	EXPECT_FALSE(connects("10.76.0.1", 5201));
	EXPECT_FALSE(connects("10.77.0.1", 5202));
	EXPECT_FALSE(connects("192.0.2.7", 79));
	EXPECT_TRUE(connects("192.0.2.7", 80));
	EXPECT_TRUE(connects("192.0.2.7", 90));
	EXPECT_FALSE(connects("192.0.2.7", 91));
	EXPECT_FALSE(connects("192.0.2.6", 80));
	EXPECT_TRUE(connects("fd77::1234", 9));
	EXPECT_FALSE(connects("fd77:0:0:1::", 9));
	EXPECT_TRUE(connects("::1", 1));
	EXPECT_FALSE(connects("::1", 2));
	// A socket for both families has IPv4 addresses so.
	EXPECT_TRUE(connects("::ffff:10.77.0.1", 5201));
	EXPECT_FALSE(connects("::ffff:10.78.0.1", 5201));
}

TEST_F(RulesOf, ABitIsEnough)
{
	ASSERT_TRUE(read({{"IWARP_PEERS", "128.0.0.0/1:7 10.0.0.0/9:8 1.2.3.4/0:9"}})) << error;
	EXPECT_TRUE(connects("255.1.1.1", 7));
	EXPECT_FALSE(connects("127.1.1.1", 7));
	EXPECT_TRUE(connects("10.127.0.1", 8));
	EXPECT_FALSE(connects("10.128.0.1", 8));
	EXPECT_TRUE(connects("99.9.9.9", 9));
}

TEST_F(RulesOf, ShortOrOtherAddressesAreNone)
{
	ASSERT_TRUE(read({{"IWARP_PEERS", "0.0.0.0/0:* [::]/0:*"}})) << error;
	sockaddr_in in{};
	in.sin_family = AF_INET;
	in.sin_port = htons(1);
	const auto *address = reinterpret_cast<const sockaddr *>(&in);
	EXPECT_TRUE(rules.connects(address, sizeof(in)));
	EXPECT_FALSE(rules.connects(address, sizeof(in) - 1));
	in.sin_family = AF_INET6;
	EXPECT_FALSE(rules.connects(address, sizeof(in)));
	in.sin_family = AF_UNIX;
	EXPECT_FALSE(rules.connects(address, sizeof(in)));
}

TEST_F(RulesOf, PortsAreListened)
{
	ASSERT_TRUE(read({{"IWARP_PORTS", " 5201\t6379-6381 "}, {"IWARP_VERBOSE", "1"}, {"IWARP_ARENA", "3"},
		{"IWARP_WAIT", "0"}}))
		<< error;
	EXPECT_TRUE(rules.listens(5201));
	EXPECT_FALSE(rules.listens(6378));
	EXPECT_TRUE(rules.listens(6379));
	EXPECT_TRUE(rules.listens(6381));
	EXPECT_FALSE(rules.listens(6382));
	EXPECT_TRUE(rules.verbose);
	EXPECT_EQ(rules.arena, 3U << 20);
	EXPECT_EQ(rules.wait, 0U);
}

TEST_F(RulesOf, WhatCantBeIsTold)
{
	for (const auto &[name, value, place] : {
		     std::tuple{"IWARP_MODE", "sometimes", "octet 0"},
		     {"IWARP_PORTS", "1 2 0", "octet 4"},
		     {"IWARP_PORTS", "65536", "octet 0"},
		     {"IWARP_PORTS", "9-8", "octet 0"},
		     {"IWARP_PORTS", "80,http", "octet 3"},
		     {"IWARP_PORTS", "-", "octet 0"},
		     {"IWARP_PEERS", "10.0.0.1", "octet 0"},
		     {"IWARP_PEERS", "10.0.0.1:", "octet 0"},
		     {"IWARP_PEERS", "10.0.0.1:7 10.0.0:7", "octet 11"},
		     {"IWARP_PEERS", "10.0.0.1/33:7", "octet 0"},
		     {"IWARP_PEERS", "10.0.0.1/:7", "octet 0"},
		     {"IWARP_PEERS", "[::1]/129:7", "octet 0"},
		     {"IWARP_PEERS", "::1:7", "octet 0"},
		     {"IWARP_PEERS", "[]:7", "octet 0"},
		     {"IWARP_PEERS", ":7", "octet 0"},
		     {"IWARP_PEERS", "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:7", "octet 0"},
		     {"IWARP_ARENA", "many", "octet 0"},
		     {"IWARP_ARENA", "65537", "octet 0"},
		     {"IWARP_WAIT", "60001", "octet 0"},
	     }) {
		std::map<std::string, std::string> all = {{"IWARP_MODE", "always"}};

		all[name] = value;
		EXPECT_FALSE(read(all)) << name << '=' << value;
		EXPECT_TRUE(std::strstr(error, name)) << error;
		EXPECT_TRUE(std::strstr(error, place)) << error;
		// No rule at all, rather than some of them
		EXPECT_EQ(rules.mode, Mode::api);
	}
}

TEST_F(RulesOf, SixtyFourAreTheMost)
{
	std::string many;

	for (int i = 1; i <= 64; i++)
		many += std::to_string(i) + ' ';
	EXPECT_TRUE(read({{"IWARP_PORTS", many}})) << error;
	EXPECT_TRUE(rules.listens(64));
	EXPECT_FALSE(read({{"IWARP_PORTS", many + "65"}}));
}

} // namespace
