// SPDX-License-Identifier: GPL-2.0
// Prints the rate of the time stamp counter in MHz, measured against the monotonic clock.
#include <chrono>
#include <cstdio>
#include <thread>
#include <x86intrin.h>

int main()
{
	using clock = std::chrono::steady_clock;
	const auto start = clock::now();
	const auto ticks = __rdtsc();

	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	const auto spent = __rdtsc() - ticks;
	const std::chrono::duration<double, std::micro> us = clock::now() - start;

	std::printf("%.3f\n", double(spent) / us.count());
}
