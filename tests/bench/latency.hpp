// SPDX-License-Identifier: GPL-2.0
// What is said of round trips, by the same definitions as perftest's ib_*_lat.
#ifndef BENCH_LATENCY_HPP
#define BENCH_LATENCY_HPP

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <ostream>
#include <vector>

namespace bench {

/// Halves of round trips
struct Latency {
	double median, mean;
	/// 99 of 100 took less
	double p99;
};

/// "MEDIAN MEAN P99"
inline std::ostream &operator<<(std::ostream &out, const Latency &l)
{
	return out << std::fixed << std::setprecision(3) << l.median << ' ' << l.mean << ' ' << l.p99;
}

/// Of round trips, at least one; in their unit. The two longest of at least three are left out, as perftest does.
inline Latency latency_of(std::vector<double> trips)
{
	std::sort(trips.begin(), trips.end());
	if (trips.size() > 2)
		trips.resize(trips.size() - 2);
	const auto n = trips.size();
	const auto middle = n % 2 ? trips[n / 2] : (trips[n / 2 - 1] + trips[n / 2]) / 2;
	const auto mean = std::accumulate(trips.begin(), trips.end(), 0.0) / double(n);
	const auto late = std::min(std::size_t(std::ceil(double(n) * 0.99)), n - 1);

	return {.median = middle / 2, .mean = mean / 2, .p99 = trips[late] / 2};
}

} // namespace bench

#endif
