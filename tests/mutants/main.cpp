// SPDX-License-Identifier: GPL-2.0
// mutants TOP WORK JOBS list|run SAMPLE SECONDS [FILE|NUMBER]...: scripts/mutants calls it and says what that means.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "equivalents.hpp"
#include "programs.hpp"
#include "source.hpp"

namespace {

using namespace mutants;
using Clock = std::chrono::steady_clock;

struct Options {
	std::string top, work;
	unsigned jobs;
	bool list;
	std::size_t sample;
	long seconds;
	std::vector<std::string> chosen;
};

std::string line_of(const Mutant &m, std::size_t number)
{
	return std::to_string(number) + " kmod/" + m.file + ":" + std::to_string(m.line) + " " + m.function + ": " +
	       m.before + " => " + m.after;
}

/// Numbers of mutants from 1 on, in an order of which each beginning is spread evenly: steps by the golden ratio
std::vector<std::size_t> spread(std::size_t total)
{
	std::vector<std::size_t> order(total);
	std::size_t step = std::max<std::size_t>(1, total * 618 / 1000);

	while (std::gcd(step, total) > 1)
		step++;
	for (std::size_t i = 0; i < total; i++)
		order[i] = i * step % total + 1;
	return order;
}

/// Does a word of the command line name this mutant: its number, numbers FROM-TO, its file, or the end of that file's
/// path
bool names(const std::string &word, const Mutant &m, std::size_t number)
{
	static const std::regex range("([0-9]{1,9})(?:-([0-9]{1,9}))?");
	std::smatch match;

	if (!std::regex_match(word, match, range))
		return ("/kmod/" + m.file).ends_with("/" + word);
	const std::size_t from = std::stoul(match[1]), to = match[2].matched ? std::stoul(match[2]) : from;

	return from <= number && number <= to;
}

/// What came of the mutants of a file
struct Count {
	std::map<Verdict, unsigned> of;
	unsigned listed = 0, survivors = 0;

	unsigned mutants() const
	{
		unsigned n = listed + survivors;

		for (const auto &[verdict, count] : of)
			n += verdict == Verdict::killed || verdict == Verdict::timed_out ? count : 0;
		return n;
	}
};

class Run {
public:
	Run(const Options &o, Programs &programs, const std::vector<Mutant> &all, const Equivalents &equivalents)
		: o_(o),
		  programs_(programs),
		  all_(all),
		  equivalents_(equivalents)
	{
		end_ = Clock::now() + std::chrono::seconds(o.seconds);
	}

	/// Judges the mutants with these numbers. Return: whether there is nothing to complain of.
	bool judge(const std::vector<std::size_t> &numbers)
	{
		std::vector<std::jthread> threads;

		for (unsigned job = 0; job < o_.jobs; job++) {
			threads.emplace_back([this, &numbers, job] {
				for (std::size_t i; go_on() && (i = next_++) < numbers.size();)
					one(numbers[i], job);
			});
		}
		threads.clear();
		report(numbers.size());
		return good_;
	}

private:
	bool go_on() const { return !o_.seconds || Clock::now() < end_; }

	void one(std::size_t number, unsigned job)
	{
		const Mutant &m = all_[number - 1];
		const bool listed = equivalents_.has(m);
		const Verdict verdict = programs_.judge(m, programs_.source(m.file), job);

		count(m, verdict, listed);
		const std::scoped_lock guard(lock_);
		if (verdict == Verdict::survived && !listed) {
			good_ = false;
			std::printf("survives: %s\n", line_of(m, number).c_str());
		} else if (listed && (verdict == Verdict::killed || verdict == Verdict::timed_out)) {
			good_ = false;
			std::printf("is not equivalent, a test fails: %s\n", line_of(m, number).c_str());
		}
		std::fflush(stdout);
	}

	void count(const Mutant &m, Verdict verdict, bool listed)
	{
		const std::scoped_lock guard(lock_);
		Count &c = counts_[m.file];

		if (verdict != Verdict::survived)
			c.of[verdict]++;
		else if (listed)
			c.listed++;
		else
			c.survivors++;
	}

	/// A line for each file that scripts/check understands, and their sums
	void report(std::size_t wanted) const
	{
		unsigned mutants = 0, killed = 0, timed_out = 0, listed = 0, survivors = 0, same = 0, broken = 0;
		const auto of = [](const Count &c, Verdict v) {
			return c.of.contains(v) ? c.of.at(v) : 0;
		};

		for (const auto &[file, c] : counts_) {
			const unsigned dead = of(c, Verdict::killed), late = of(c, Verdict::timed_out);

			if (c.mutants())
				std::printf(
					"%s kmod/%s: %u mutants, %u killed, %u timed out, %u equivalent, %u survive\n",
					c.survivors ? "not ok" : "ok", file.c_str(), c.mutants(), dead, late, c.listed,
					c.survivors);
			mutants += c.mutants(), killed += dead, timed_out += late, listed += c.listed;
			survivors += c.survivors, same += of(c, Verdict::same_code),
				broken += of(c, Verdict::not_compiled);
		}
		std::printf("%u mutants, %u killed, %u timed out, %u equivalent, %u survive; "
			    "of %zu changes %u were not compiled, and %u had the same code\n",
			mutants, killed, timed_out, listed, survivors, std::min<std::size_t>(next_, wanted), broken,
			same);
	}

	const Options &o_;
	Programs &programs_;
	const std::vector<Mutant> &all_;
	const Equivalents &equivalents_;
	Clock::time_point end_;
	std::atomic<std::size_t> next_ = 0;
	std::mutex lock_;
	std::map<std::string, Count> counts_;
	bool good_ = true;
};

/// The numbers that the command line chooses; nothing when a word of it names no mutant
std::vector<std::size_t> choose(const Options &o, const std::vector<Mutant> &all)
{
	const bool part = o.sample || o.seconds;
	std::vector<std::size_t> order = spread(all.size()), numbers;
	std::set<std::string> used;

	if (!part)
		std::ranges::sort(order);
	for (const std::size_t number : order) {
		bool wanted = o.chosen.empty();

		for (const auto &word : o.chosen) {
			if (names(word, all[number - 1], number)) {
				wanted = true;
				used.insert(word);
			}
		}
		if (wanted)
			numbers.push_back(number);
	}
	for (const auto &word : o.chosen) {
		if (!used.contains(word)) {
			std::fprintf(stderr, "mutants: no mutant has the number or file \"%s\"\n", word.c_str());
			return {};
		}
	}
	if (o.sample && o.sample < numbers.size())
		numbers.resize(o.sample);
	return numbers;
}

int all_of(const Options &o)
{
	Programs programs(o.top, o.work, o.jobs);
	std::vector<Mutant> all;
	std::vector<std::string> errors;

	for (const auto &file : programs.files()) {
		auto some = mutants_of(file, programs.source(file));

		all.insert(all.end(), some.begin(), some.end());
	}
	const auto numbers = choose(o, all);

	if (numbers.empty())
		return 2;
	const Equivalents equivalents(o.top + "/tests/mutants/equivalent", errors);

	equivalents.check(all, errors);
	for (const auto &error : errors)
		std::fprintf(stderr, "%s\n", error.c_str());
	if (o.list) {
		for (const std::size_t number : numbers)
			std::puts(line_of(all[number - 1], number).c_str());
		return errors.empty() ? 0 : 1;
	}
	if (!programs.prepare()) {
		std::fputs("mutants: the tests fail without a mutant\n", stderr);
		return 1;
	}
	return Run(o, programs, all, equivalents).judge(numbers) && errors.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	const std::vector<std::string> words(argv + 1, argv + argc);

	if (words.size() < 6)
		return 2;
	try {
		return all_of({words[0], words[1], static_cast<unsigned>(std::stoul(words[2])), words[3] == "list",
			std::stoul(words[4]), std::stol(words[5]), {words.begin() + 6, words.end()}});
	} catch (const std::exception &e) {
		std::fprintf(stderr, "mutants: %s\n", e.what());
		return 1;
	}
}
