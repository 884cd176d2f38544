// SPDX-License-Identifier: GPL-2.0
// Samples of a run of scripts/bench, by cell and by contender, and their statistics.
#ifndef BENCH_SAMPLES_HPP
#define BENCH_SAMPLES_HPP

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

using Json = nlohmann::ordered_json;

/// What was measured. TCP and others that know no kinds of operation have kinds of their own, "stream" and
/// "stream_events", and the CRC "none"; the CRC of rxe is "icrc". What is compared with them says so in rivals.cpp.
struct Cell {
	std::string group;
	/// 2: a kernel each, joined by a wire; 1: both ends in one kernel
	int hosts;
	std::string kind;
	int octets;
	int mtu;
	std::string crc;
	int qps;
	int cpus;
	/// Where the wire has bounds: "10 Gbit/s, 200 us"
	std::string link;
	/// Of several figures of one run, which this is; empty where there is one
	std::string counter;

	/// In the order of the tables
	bool operator<(const Cell &other) const;
	[[nodiscard]] bool of_kiwarp() const { return crc == "on" || crc == "off"; }
};

/// One contender's runs of a cell: values by repetition, what kept it from having more, and what is special about them.
/// A value of a latency is the median of its run, of which mean and 99th percentile are known, too.
struct Runs {
	std::map<int, double> values;
	std::vector<double> means, p99s;
	std::string problem;
	std::string note;
};

using Results = std::map<Cell, std::map<std::string, Runs>>;

struct Spread {
	double median;
	double min;
	double max;
};

std::optional<Spread> spread(std::vector<double> values);
std::optional<Spread> spread(const Runs &runs);

/// Each repetition's own ratio, of the peer's figure times a factor plus something: both runs met the same machine.
std::vector<double> ratios(const Runs &ours, const Runs &peer, double factor = 1, double plus = 0);

/// Samples of FOLDER/samples.jsonl; a last line that was cut off is left out.
Json read_samples(const std::filesystem::path &folder);
/// NAME=VALUE lines of FOLDER/about
Json read_about(const std::filesystem::path &folder);
Results sort_out(const Json &samples);
/// That contender's runs, which may be none
const Runs &find(const Results &results, const Cell &cell, const std::string &contender);

struct Group {
	const char *name;
	const char *title;
	const char *unit;
	bool higher_is_better;

	/// Of a run there are a median, a mean and a 99th percentile.
	[[nodiscard]] bool is_latency() const { return std::string_view(name).ends_with("latency"); }
};
const Group &group_of(const std::string &name);

std::string size_name(int octets);
/// "two hosts"
std::string hosts_name(int hosts);
/// "write, events" for write_events
std::string kind_name(const std::string &kind);
/// A cell in words, without the CRC and the MTU
std::string short_name(const Cell &cell);
std::string row_name(const Cell &cell);

} // namespace bench

#endif
