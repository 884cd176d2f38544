// SPDX-License-Identifier: GPL-2.0
// The list of mutants that no test can tell from the original, each with the reason.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "source.hpp"

namespace mutants {

class Equivalents {
public:
	/// Reads the file, see its head. What is wrong with it goes to @errors.
	Equivalents(const std::string &path, std::vector<std::string> &errors);

	bool has(const Mutant &m) const { return entries_.contains(key(m)); }
	/// Entries that name none of all mutants, as errors
	void check(const std::vector<Mutant> &all, std::vector<std::string> &errors) const;

private:
	using Key = std::tuple<std::string, std::string, std::string, std::string>;
	static Key key(const Mutant &m) { return {m.file, m.function, m.before, m.after}; }

	std::string path_;
	std::map<Key, int> entries_; // with their lines
};

} // namespace mutants
