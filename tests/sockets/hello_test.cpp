// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "hello.hpp"

#include <gtest/gtest.h>

namespace {

using kiws::First;
using kiws::Hello;

class Hellos : public testing::Test {
protected:
	Hello hello{.port = 0x1234, .nonce = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
	std::uint8_t octets[Hello::size];

	Hellos() { hello.write(octets); }
	First look(std::size_t length, Hello *seen = nullptr) const
	{
		Hello found{};
		const First first = look_for_hello(octets, length, found);

		if (seen)
			*seen = found;
		return first;
	}
};

TEST_F(Hellos, AreFoundAgain)
{
	Hello seen{};

	ASSERT_EQ(look(Hello::size, &seen), First::hello);
	EXPECT_EQ(seen.port, hello.port);
	EXPECT_EQ(seen.nonce, hello.nonce);
}

TEST_F(Hellos, ComeInParts)
{
	for (std::size_t n = 1; n < Hello::size; n++)
		EXPECT_EQ(look(n), First::part) << n;
}

TEST_F(Hellos, AreNoDataThatDiffersInOneOctet)
{
	for (std::size_t i = 0; i < 8; i++) {
		octets[i] ^= 1;
		for (std::size_t n = i + 1; n <= Hello::size; n++)
			EXPECT_EQ(look(n), First::data) << i << ' ' << n;
		octets[i] ^= 1;
	}
}

TEST_F(Hellos, OfOtherVersionsAreStrange)
{
	for (const std::size_t i : {8, 9, 10, 11}) {
		octets[i] ^= 1;
		EXPECT_EQ(look(Hello::size), First::strange) << i;
		EXPECT_EQ(look(Hello::size - 1), First::part) << i;
		octets[i] ^= 1;
	}
}

} // namespace
