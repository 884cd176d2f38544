// SPDX-License-Identifier: GPL-2.0
// The contenders that each figure of kiwarp is compared with, and its targets.
#ifndef BENCH_RIVALS_HPP
#define BENCH_RIVALS_HPP

#include "samples.hpp"

namespace bench {

/// At least, or at most, a factor times the rival's figure plus something in the figure's unit
struct Target {
	bool at_least;
	double factor;
	double plus;

	/// As ">= 1.1" or "<= 1 x + 8"
	[[nodiscard]] std::string text() const;
};

struct Rival {
	/// As targets name it
	std::string id;
	/// For readers
	std::string name;
	Runs runs;
	std::optional<Target> target;
};

/// All contenders that were measured for that cell, and those that should have been, since there is a target
std::vector<Rival> rivals(const Results &results, const Cell &cell);

/// Whether the median of the repetitions' own ratios is good enough; nothing without figures or without a target
std::optional<bool> met(const Runs &ours, const Rival &rival);

} // namespace bench

#endif
