// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <gtest/gtest.h>

#include "child.hpp"

int main(int argc, char **argv)
{
	const int result = vt::play_part({argv + 1, argv + argc});

	if (result >= 0)
		return result;
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
