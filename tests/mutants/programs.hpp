// SPDX-License-Identifier: GPL-2.0
// The test programs, and what they say of a mutant.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "source.hpp"

namespace mutants {

enum class Verdict {
	not_compiled, // no mutant
	same_code,    // the compiler makes of it what it makes of the original
	killed,	      // a test failed
	timed_out,    // the tests went on for a multiple of the time that they need
	survived,
};

/// Builds the sources and the tests in a folder of their own, and the mutants one by one.
class Programs {
public:
	/// @top is the checkout, of which nothing is changed; @work is the folder.
	Programs(std::filesystem::path top, std::filesystem::path work, unsigned jobs);

	/// Builds the test programs and runs them as they are. Return: whether all tests pass.
	bool prepare();
	/// Judges a mutant; @job numbers those that are judged at the same time.
	Verdict judge(const Mutant &m, const std::string &source, unsigned job);

	/// All sources of which there are mutants, below the folder of the module
	const std::vector<std::string> &files() const { return files_; }
	const std::string &source(const std::string &file) const;

private:
	/// Some tests of a program
	struct Step {
		std::string program, filter;
		double seconds; // of CPU time that they take unchanged
	};

	bool prepare(const std::string &program);
	bool builds_the_same();
	bool run_unchanged(Step &step);
	std::string text_for(const std::string &file, const std::string &source) const;
	std::string library_of(const std::string &file) const;

	std::filesystem::path top_, work_;
	unsigned jobs_;
	std::vector<std::string> files_, sources_;
	std::vector<Step> steps_;
};

} // namespace mutants
