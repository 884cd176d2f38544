// SPDX-License-Identifier: GPL-2.0
#include "equivalents.hpp"

#include <fstream>
#include <set>

namespace mutants {

namespace {

constexpr std::string_view arrow = " => ";

std::string at(const std::string &path, int line)
{
	return path + ":" + std::to_string(line) + ": ";
}

} // namespace

Equivalents::Equivalents(const std::string &path, std::vector<std::string> &errors) : path_(path)
{
	std::ifstream in(path);
	std::string line, file, function;
	bool explained = true;
	int number = 0;

	if (!in)
		errors.push_back(path + ": can't be read");
	while (std::getline(in, line)) {
		number++;
		if (line.empty() || line.starts_with('#'))
			continue;
		if (line.front() != '\t') {
			const std::size_t space = line.find(' ');

			if (space == std::string::npos || !explained)
				errors.push_back(at(path, number) + "expected FILE FUNCTION, behind a reason");
			file = line.substr(0, space);
			function = space == std::string::npos ? "" : line.substr(space + 1);
			continue;
		}
		const std::size_t split = line.find(arrow);

		if (line.starts_with("\t\t")) {
			explained = true;
		} else if (split == std::string::npos) {
			errors.push_back(at(path, number) + "expected BEFORE => AFTER");
		} else {
			const std::string after = line.substr(std::min(split + arrow.size(), line.size()));

			explained = false;
			if (!entries_.try_emplace({file, function, line.substr(1, split - 1), after}, number).second)
				errors.push_back(at(path, number) + "is listed twice");
		}
	}
	if (!explained)
		errors.push_back(at(path, number) + "expected a reason");
}

void Equivalents::check(const std::vector<Mutant> &all, std::vector<std::string> &errors) const
{
	std::set<Key> known;

	for (const Mutant &m : all)
		known.insert(key(m));
	for (const auto &[key, line] : entries_) {
		if (!known.contains(key))
			errors.push_back(at(path_, line) + "there is no such mutant any more");
	}
}

} // namespace mutants
