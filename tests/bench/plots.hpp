// SPDX-License-Identifier: GPL-2.0
#ifndef BENCH_PLOTS_HPP
#define BENCH_PLOTS_HPP

#include "samples.hpp"

namespace bench {

/// Leaves FOLDER/GROUP.gp, a gnuplot script that makes GROUP.svg, and its data beside it.
void write_plot(const std::filesystem::path &folder, const Results &results, const std::string &group);

} // namespace bench

#endif
