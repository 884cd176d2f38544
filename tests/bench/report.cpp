// SPDX-License-Identifier: GPL-2.0
// bench_report FOLDER: turns FOLDER/samples.jsonl and FOLDER/about, which a run of scripts/bench left there, into
// FOLDER/results.json, one Markdown table and one gnuplot script with its data for each group, and FOLDER/targets.md,
// which says what was reached. Prints the tables.
#include "plots.hpp"
#include "rivals.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

namespace bench {

namespace {

namespace fs = std::filesystem;

std::string format(const char *pattern, double value)
{
	char text[64];

	(void)std::snprintf(text, sizeof(text), pattern, value);
	return text;
}

std::string figure(double value)
{
	// Never "-0.00"
	if (std::abs(value) < 0.005)
		value = 0;
	return format(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
}

Json number(const std::optional<Spread> &s)
{
	return s ? Json(s->median) : Json(nullptr);
}

/// What is wrong with either, where something is
std::string problem(const Runs &ours, const Rival &rival)
{
	if (!ours.problem.empty())
		return "kiwarp " + ours.problem;
	return rival.runs.problem.empty() ? "" : rival.name + " " + rival.runs.problem;
}

Json row(const Cell &cell, const Runs &ours, const Rival &rival, const Json &about)
{
	const auto &group = group_of(cell.group);
	const auto all = ratios(ours, rival.runs);
	const auto ratio = spread(all);
	const auto good = met(ours, rival);
	const auto trouble = problem(ours, rival);
	Json r{{"row", row_name(cell)}, {"unit", group.unit}};

	r["ours"] = number(spread(ours));
	r["peer"] = number(spread(rival.runs));
	r["peer_name"] = rival.name;
	r["ratio"] = number(ratio);
	r["ratio_min"] = ratio ? Json(ratio->min) : Json(nullptr);
	r["ratio_max"] = ratio ? Json(ratio->max) : Json(nullptr);
	if (group.is_latency()) {
		r["ours_mean"] = number(spread(ours.means));
		r["ours_p99"] = number(spread(ours.p99s));
		r["peer_mean"] = number(spread(rival.runs.means));
		r["peer_p99"] = number(spread(rival.runs.p99s));
	}
	r["better"] = group.higher_is_better ? "higher" : "lower";
	r["target"] = rival.target ? Json(rival.target->text()) : Json(nullptr);
	r["met"] = good ? Json(*good) : Json(nullptr);
	r["kernel"] = about.value("kernel", "");
	r["guest"] = about.value("guest", "");
	r["repetitions"] = all.size();
	if (!trouble.empty())
		r["problem"] = trouble;
	return r;
}

std::string value_cell(const Runs &runs)
{
	const auto s = spread(runs);

	if (s)
		return figure(s->median) + (runs.note.empty() ? "" : " (" + runs.note + ")");
	return runs.problem.empty() ? "-" : runs.problem;
}

/// Cells for the value and, of latencies, for what else is known of the runs
std::string value_cells(const Group &group, const Runs &runs)
{
	const auto cell = [](const std::optional<Spread> &s) {
		return s ? figure(s->median) : "-";
	};

	if (!group.is_latency())
		return value_cell(runs);
	return value_cell(runs) + " | " + cell(spread(runs.means)) + " | " + cell(spread(runs.p99s));
}

std::string ratio_cell(const Runs &ours, const Rival &rival)
{
	const auto s = spread(ratios(ours, rival.runs));

	return s ? format("**%.2f**", s->median) + format(" (%.2f", s->min) + format(" - %.2f)", s->max) : "-";
}

const char *met_word(const Rival &rival, std::optional<bool> good)
{
	if (!rival.target)
		return "";
	return !good ? "no figures" : *good ? "yes" : "**no**";
}

bool has(const Results &results, const std::string &name, int hosts)
{
	return std::any_of(results.begin(), results.end(),
		[&](const auto &r) { return r.first.group == name && r.first.hosts == hosts; });
}

std::string table(const Results &results, const std::string &name, int hosts)
{
	const auto &group = group_of(name);
	const char *const names = group.is_latency() ? " | mean | 99 %" : "";
	const char *const rules = group.is_latency() ? "|---:|---:" : "";
	std::ostringstream out;

	out << "### " << group.title << ", " << hosts_name(hosts) << ", " << group.unit << ": "
	    << (group.higher_is_better ? "higher" : "lower") << " is better\n\n"
	    << "| | CRC | MTU | kiwarp" << names << " | against | has" << names << " | ratio | target | met |\n"
	    << "|---|---|---:|---:" << rules << "|---|---:" << rules << "|---:|---:|---|\n";
	for (const auto &[cell, contenders] : results) {
		if (cell.group != name || cell.hosts != hosts || !cell.of_kiwarp())
			continue;
		const auto &ours = find(results, cell, "ours");

		for (const auto &rival : rivals(results, cell)) {
			out << "| " << short_name(cell) << " | " << cell.crc << " | " << cell.mtu << " | "
			    << value_cells(group, ours) << " | " << rival.name << " | "
			    << value_cells(group, rival.runs) << " | " << ratio_cell(ours, rival) << " | "
			    << (rival.target ? rival.target->text() : "") << " | " << met_word(rival, met(ours, rival))
			    << " |\n";
		}
	}
	return out.str();
}

/// What the hosts share is what decides: the tables of two hosts and of one stand apart.
std::string tables(const Results &results, const std::string &name)
{
	std::string text;

	for (const int hosts : {2, 1})
		if (has(results, name, hosts))
			text += (text.empty() ? "" : "\n") + table(results, name, hosts);
	return text;
}

/// Counts have no targets, and no ratio where one is 0. A run that failed has a row of its own, without a counter.
std::string table_of_counters(const Results &results)
{
	std::ostringstream out;
	const auto per_message = [](const Runs &runs) {
		return runs.problem == "not run" ? "-" : value_cell(runs);
	};
	const auto per_megabyte = [](const Runs &runs, int octets) {
		// Of small messages it would be the noise, multiplied.
		const auto s = octets < 65536 ? std::nullopt : spread(runs);

		return s ? figure(s->median * 1e6 / octets) : "-";
	};

	out << "### Counts: for each message, and for 10^6 octets of messages\n\n"
	    << "| | CRC | kiwarp | siw | TCP | kiwarp, 10^6 octets | siw, 10^6 octets |\n"
	    << "|---|---|---:|---:|---:|---:|---:|\n";
	for (const auto &[cell, contenders] : results) {
		if (cell.group != "counters")
			continue;
		const auto &ours = find(results, cell, "ours"), &siw = find(results, cell, "siw");
		const auto &tcp = find(results, cell, "tcp");

		out << "| " << short_name(cell) << " | " << cell.crc << " | " << per_message(ours) << " | "
		    << per_message(siw) << " | " << per_message(tcp) << " | " << per_megabyte(ours, cell.octets)
		    << " | " << per_megabyte(siw, cell.octets) << " |\n";
	}
	return out.str();
}

/// How many targets are met, and which are not
std::string verdict(const Results &results)
{
	unsigned yes = 0, no = 0, unknown = 0;
	std::ostringstream missed;

	for (const auto &[cell, contenders] : results) {
		if (!cell.of_kiwarp())
			continue;
		const auto &ours = find(results, cell, "ours");

		for (const auto &rival : rivals(results, cell)) {
			if (!rival.target)
				continue;
			const auto good = met(ours, rival);

			if (good && *good) {
				yes++;
				continue;
			}
			(good ? no : unknown)++;
			missed << "- " << row_name(cell) << ", against " << rival.name << ": "
			       << (good ? ratio_cell(ours, rival) : problem(ours, rival)) << ", target "
			       << rival.target->text() << '\n';
		}
	}
	std::ostringstream out;
	out << "### Targets: " << yes << " met, " << no << " missed, " << unknown << " without figures\n\n"
	    << missed.str();
	return out.str();
}

} // namespace

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
		if (!cell.of_kiwarp())
			continue;
		for (const auto &rival : rivals(results, cell))
			rows.push_back(row(cell, find(results, cell, "ours"), rival, about));
	}
	for (const auto &group : groups) {
		const bool counters = group == "counters";
		const auto text = counters ? table_of_counters(results) : tables(results, group);

		std::ofstream(folder / (group + ".md")) << text;
		if (!counters)
			write_plot(folder, results, group);
		std::cout << text << '\n';
	}
	const auto targets = verdict(results);
	std::ofstream(folder / "targets.md") << targets;
	std::cout << targets;
	std::ofstream(folder / "results.json")
		<< Json{{"about", about}, {"rows", rows}, {"samples", std::move(samples)}}.dump(1, '\t') << '\n';
}

} // namespace bench

int main(int argc, char **argv)
try {
	if (argc != 2) {
		std::cerr << "usage: bench_report FOLDER\n";
		return 2;
	}
	bench::report(argv[1]);
	return 0;
} catch (const std::exception &e) {
	std::cerr << "bench_report: " << e.what() << '\n';
	return 1;
}
