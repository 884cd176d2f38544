// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The kernel's fault injection (failslab and fail_page_alloc in debugfs), narrowed to allocations that have certain
// code on their stack, mostly that of the module.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace faults {

/// Addresses of code
struct Range {
	std::uint64_t start;
	std::uint64_t end;
};

struct Function {
	std::string name;
	Range range;
};

/// The module's functions by address, each up to the next.
std::vector<Function> module_functions();
/// Those of them below which memory was allocated during the call, by whatever thread, as the kernel's tracer saw it.
std::vector<Function> allocating_functions(const std::function<void()> &call);
/// From the first of them to the end of the last.
Range module_code();
/// A function of the kernel itself
Range kernel_function(const std::string &wanted);

/// Runs the call, and lets the n-th allocation fail that the calling thread makes in the module, where one is.
/// Return: whether there was one.
bool with_nth_failing(unsigned int n, const std::function<void()> &call);

/// Runs a program with the n-th of its allocations in that code failing, and tells whether there was one.
struct Ran {
	int status; ///< of the program, 0 to 255
	bool failed;
	std::string output;
};
Ran run_with_nth_failing(unsigned int n, const std::vector<std::string> &command, Range where = module_code());
/// The same without faults
Ran run(const std::vector<std::string> &command);

/// While it lives, allocations below a function fail, in any process, until so many have failed.
class Failing {
public:
	/// Before that, so many bytes (or pages, where pages are allocated) are granted.
	Failing(Range where, unsigned int times, unsigned int space);
	~Failing();
	Failing(const Failing &) = delete;
	Failing &operator=(const Failing &) = delete;

	/// How many have failed by now
	unsigned int failed() const;

private:
	unsigned int times_;
};

} // namespace faults
