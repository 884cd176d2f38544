// SPDX-License-Identifier: GPL-2.0
// Preloaded into perftest in User-Mode Linux guests: gettimeofday() from the time stamp counter. perftest finds the
// counter's rate by a regression over many gettimeofday() calls, which fails where each of them is a slow system call.
#include <cstdint>
#include <cstdlib>
#include <sys/time.h>
#include <x86intrin.h>

extern "C" int gettimeofday(timeval *tv, void *)
{
	static const double mhz = [] {
		const char *text = std::getenv("TSC_MHZ");
		return text ? std::strtod(text, nullptr) : 0.0;
	}();

	if (mhz <= 0)
		std::abort();
	const auto us = std::uint64_t(double(__rdtsc()) / mhz);
	tv->tv_sec = time_t(us / 1'000'000);
	tv->tv_usec = suseconds_t(us % 1'000'000);
	return 0;
}
