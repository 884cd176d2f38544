// SPDX-License-Identifier: GPL-2.0
// bench_report FOLDER: turns FOLDER/samples.jsonl and FOLDER/about, which a run of scripts/bench left there, into
// FOLDER/results.json, one Markdown table and one gnuplot script with its data for each group. Prints the tables.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// What was measured; the order is that of the tables.
struct Cell {
	std::string group;
	std::string kind;
	int octets;
	int mtu;
	std::string crc;

	[[nodiscard]] auto order() const
	{
		constexpr std::string_view kinds[] = {"write", "send", "read", "send_events"};
		const auto rank = std::find(std::begin(kinds), std::end(kinds), kind) - std::begin(kinds);

		return std::tuple(group, crc == "on", -octets, mtu, rank, kind);
	}
	bool operator<(const Cell &other) const { return order() < other.order(); }
};

/// One contender's runs of a cell: values by repetition, or why there are none.
struct Runs {
	std::map<int, double> values;
	std::string problem;
};

using Results = std::map<Cell, std::map<std::string, Runs>>;

/// Median, least and greatest
struct Spread {
	double median;
	double min;
	double max;
};

std::optional<Spread> spread(std::vector<double> v)
{
	if (v.empty())
		return std::nullopt;
	std::sort(v.begin(), v.end());
	const auto n = v.size();
	return Spread{n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v.front(), v.back()};
}

std::optional<Spread> spread(const Runs &runs)
{
	std::vector<double> v;

	for (const auto &[rep, value] : runs.values)
		v.push_back(value);
	return spread(std::move(v));
}

/// Each repetition's own ratio: both of its runs met the same machine.
std::vector<double> ratios(const Runs &ours, const Runs &peer)
{
	std::vector<double> v;

	for (const auto &[rep, value] : ours.values) {
		const auto other = peer.values.find(rep);

		if (other != peer.values.end() && other->second > 0)
			v.push_back(value / other->second);
	}
	return v;
}

std::string format(const char *pattern, double value)
{
	char text[64];

	(void)std::snprintf(text, sizeof(text), pattern, value);
	return text;
}

std::string figure(double value)
{
	return format(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
}

std::string size_name(int octets)
{
	return octets % 1024 ? std::to_string(octets) + " B" : std::to_string(octets / 1024) + " KB";
}

std::string kind_name(std::string kind)
{
	const auto events = kind.find("_events");

	if (events != std::string::npos)
		return kind.substr(0, events) + ", events";
	return kind;
}

std::string row_name(const Cell &c)
{
	return size_name(c.octets) + " " + kind_name(c.kind) + " " + c.group + ", MTU " + std::to_string(c.mtu) +
	       ", CRC " + c.crc;
}

/// The cell in which TCP competes with this one
Cell tcp_cell(Cell c)
{
	c.kind = c.kind.ends_with("_events") ? "stream_events" : "stream";
	c.crc = "none";
	return c;
}

std::string tcp_name(const Cell &c)
{
	if (c.group == "bandwidth")
		return "TCP (iperf3, one stream)";
	if (c.kind == "read")
		return "TCP ping-pong, spinning, whole round trip";
	return c.kind.ends_with("_events") ? "TCP ping-pong, blocking" : "TCP ping-pong, spinning";
}

const Runs &find(const Results &results, const Cell &cell, const std::string &who)
{
	static const Runs none{.values = {}, .problem = "not run"};
	const auto contenders = results.find(cell);

	if (contenders == results.end() || !contenders->second.contains(who))
		return none;
	return contenders->second.at(who);
}

/// TCP's runs, as this cell has to be compared with them: a Read is a whole round trip.
Runs tcp_runs(const Results &results, const Cell &cell)
{
	Runs runs = find(results, tcp_cell(cell), "tcp");

	if (cell.group == "latency" && cell.kind == "read") {
		for (auto &[rep, value] : runs.values)
			value *= 2;
	}
	return runs;
}

Json number(const std::optional<Spread> &s)
{
	return s ? Json(s->median) : Json(nullptr);
}

Json row(const Cell &cell, const Runs &ours, const Runs &peer, const std::string &peer_name, const Json &about)
{
	const auto all = ratios(ours, peer);
	const auto ratio = spread(all);
	Json r{{"row", row_name(cell)}, {"unit", cell.group == "bandwidth" ? "MB/s" : "us"}};

	r["ours"] = number(spread(ours));
	r["peer"] = number(spread(peer));
	r["peer_name"] = peer_name;
	r["ratio"] = number(ratio);
	r["ratio_min"] = ratio ? Json(ratio->min) : Json(nullptr);
	r["ratio_max"] = ratio ? Json(ratio->max) : Json(nullptr);
	r["better"] = cell.group == "bandwidth" ? "higher" : "lower";
	r["target"] = nullptr;
	r["met"] = nullptr;
	r["kernel"] = about.value("kernel", "");
	r["guest"] = about.value("guest", "");
	r["repetitions"] = all.size();
	if (!ours.problem.empty() || !peer.problem.empty())
		r["problem"] = !ours.problem.empty() ? "ours: " + ours.problem : peer_name + ": " + peer.problem;
	return r;
}

std::string value_cell(const Runs &runs)
{
	const auto s = spread(runs);

	if (s)
		return figure(s->median);
	return runs.problem.empty() ? "-" : "failed (" + runs.problem + ")";
}

std::string ratio_cell(const Runs &ours, const Runs &peer)
{
	const auto s = spread(ratios(ours, peer));

	return s ? format("**%.2f**", s->median) + format(" (%.2f", s->min) + format(" - %.2f)", s->max) : "-";
}

/// The group's table in Markdown
std::string table(const Results &results, const std::string &group)
{
	std::ostringstream out;
	const bool bandwidth = group == "bandwidth";

	out << "### " << (bandwidth ? "Bandwidth, MB/s: higher is better" : "Latency, microseconds: lower is better")
	    << "\n\n| | CRC | MTU | kiwarp | siw | kiwarp / siw | TCP | kiwarp / TCP |\n"
	    << "|---|---|---:|---:|---:|---:|---:|---:|\n";
	for (const auto &[cell, contenders] : results) {
		if (cell.group != group || cell.kind.starts_with("stream"))
			continue;
		const auto &ours = find(results, cell, "ours");
		const auto &siw = find(results, cell, "siw");
		const auto tcp = tcp_runs(results, cell);

		out << "| " << kind_name(cell.kind) << " " << size_name(cell.octets) << " | " << cell.crc << " | "
		    << cell.mtu << " | " << value_cell(ours) << " | " << value_cell(siw) << " | "
		    << ratio_cell(ours, siw) << " | " << value_cell(tcp) << " | " << ratio_cell(ours, tcp) << " |\n";
	}
	return out.str();
}

constexpr std::string_view plot_script =
	R"(set terminal svg noenhanced size 1000,760 font 'sans-serif,13' background '#ffffff'
set output group.'.svg'
set datafile missing '?'
set style data histograms
set style histogram errorbars gap 1.5 lw 1
set style fill solid 0.85 border -1
set boxwidth 0.9
set logscale y
set format y '%g'
set grid ytics lc '#dddddd'
set key outside top horizontal
set xtics rotate by -25 nomirror
set multiplot layout 2,1
do for [crc in 'off on'] {
	set title title.', CRC '.crc
	plot group.'.'.crc.'.dat' using 2:3:4:xtic(1) title 'kiwarp' lc '#1b6ca8', \
		'' using 5:6:7 title 'siw' lc '#e08e45', '' using 8:9:10 title 'TCP' lc '#8a8a8a'
}
unset multiplot
)";

void write_plot(const fs::path &folder, const Results &results, const std::string &group)
{
	std::ofstream script(folder / (group + ".gp"));
	const auto title =
		group == "bandwidth" ? "Bandwidth, MB/s (higher is better)" : "Latency, us (lower is better)";

	for (const auto *const crc : {"off", "on"}) {
		std::ofstream data(folder / (group + "." + crc + ".dat"));

		for (const auto &[cell, contenders] : results) {
			if (cell.group != group || cell.crc != crc)
				continue;
			data << '"' << kind_name(cell.kind) << " " << size_name(cell.octets);
			if (group == "bandwidth")
				data << ", " << cell.mtu;
			data << '"';
			const auto tcp = tcp_runs(results, cell);
			for (const auto *runs : {&find(results, cell, "ours"), &find(results, cell, "siw"), &tcp}) {
				if (const auto s = spread(*runs))
					data << ' ' << s->median << ' ' << s->min << ' ' << s->max;
				else
					data << " ? ? ?";
			}
			data << '\n';
		}
	}
	script << "group = '" << group << "'\ntitle = '" << title << "'\n" << plot_script;
}

Json read_about(const fs::path &folder)
{
	Json about = Json::object();
	std::ifstream file(folder / "about");

	for (std::string line; std::getline(file, line);) {
		const auto equals = line.find('=');

		if (equals != std::string::npos)
			about[line.substr(0, equals)] = line.substr(equals + 1);
	}
	return about;
}

Json read_samples(const fs::path &folder)
{
	Json samples = Json::array();
	std::ifstream file(folder / "samples.jsonl");

	for (std::string line; std::getline(file, line);) {
		// A run that was cut off may leave half a line.
		auto sample = Json::parse(line, nullptr, false);

		if (!sample.is_discarded())
			samples.push_back(std::move(sample));
	}
	return samples;
}

Results sort_out(const Json &samples)
{
	Results results;

	for (const auto &s : samples) {
		const Cell cell{s.at("group"), s.at("kind"), s.at("octets"), s.at("mtu"), s.at("crc")};
		auto &runs = results[cell][s.at("who")];

		if (s.contains("failed"))
			runs.problem = s.at("failed");
		else
			runs.values[s.at("rep")] = s.at("value");
	}
	return results;
}

void report(const fs::path &folder)
{
	const auto about = read_about(folder);
	auto samples = read_samples(folder);
	const auto results = sort_out(samples);
	Json rows = Json::array();
	std::vector<std::string> groups;

	for (const auto &[cell, contenders] : results) {
		if (std::find(groups.begin(), groups.end(), cell.group) == groups.end())
			groups.push_back(cell.group);
		if (cell.kind.starts_with("stream"))
			continue;
		const auto &ours = find(results, cell, "ours");

		rows.push_back(row(cell, ours, find(results, cell, "siw"), "siw", about));
		rows.push_back(row(cell, ours, tcp_runs(results, cell), tcp_name(cell), about));
	}
	for (const auto &group : groups) {
		const auto text = table(results, group);

		std::ofstream(folder / (group + ".md")) << text;
		write_plot(folder, results, group);
		std::cout << text << '\n';
	}
	std::ofstream(folder / "results.json")
		<< Json{{"about", about}, {"rows", rows}, {"samples", std::move(samples)}}.dump(1, '\t') << '\n';
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc != 2) {
		std::cerr << "usage: bench_report FOLDER\n";
		return 2;
	}
	report(argv[1]);
	return 0;
} catch (const std::exception &e) {
	std::cerr << "bench_report: " << e.what() << '\n';
	return 1;
}
