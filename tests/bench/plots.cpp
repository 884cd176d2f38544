// SPDX-License-Identifier: GPL-2.0
#include "plots.hpp"

#include "rivals.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace bench {

namespace {

namespace fs = std::filesystem;

struct Line {
	const char *contender;
	const char *title;
	const char *colour;
};

/// Contenders that are measured nearly everywhere
constexpr Line lines[] = {
	{"ours", "kiwarp", "#1b6ca8"},
	{"siw", "siw", "#e08e45"},
	{"tcp", "TCP", "#8a8a8a"},
};

constexpr std::string_view head =
	R"(set terminal svg noenhanced size 1000,height font 'sans-serif,13' background '#ffffff'
set output group.'.svg'
set datafile missing '?'
set grid ytics lc '#dddddd'
set key outside top horizontal
set format y '%g'
)";

constexpr std::string_view bars =
	R"(set style data histograms
set style histogram errorbars gap 1.5 lw 1
set style fill solid 0.85 border -1
set boxwidth 0.9
set xtics rotate by -25 nomirror
)";

/// Median, least and greatest of each contender, or question marks
void write_figures(std::ofstream &data, const Results &results, const Cell &cell)
{
	const auto others = rivals(results, cell);

	for (const auto &line : lines) {
		auto s = spread(find(results, cell, line.contender));

		for (const auto &rival : others) {
			if (rival.id == line.contender)
				s = spread(rival.runs);
		}
		if (s)
			data << ' ' << s->median << ' ' << s->min << ' ' << s->max;
		else
			data << " ? ? ?";
	}
	data << '\n';
}

std::string label(const Cell &c)
{
	auto name = short_name(c);

	if (c.group == "bandwidth" || c.group == "cpu")
		name += ", " + std::to_string(c.mtu);
	return name;
}

std::string data_file(std::string group, std::string part)
{
	std::replace(part.begin(), part.end(), ' ', '-');
	group.append(".").append(part).append(".dat");
	return group;
}

std::string plot_of_bars(const std::string &file)
{
	std::string text = "plot";

	for (int column = 2; const auto &line : lines) {
		text += std::string(column == 2 ? " '" + file + "'" : ", ''") + " using " + std::to_string(column) +
			":" + std::to_string(column + 1) + ":" + std::to_string(column + 2) +
			(column == 2 ? ":xtic(1)" : "") + " title '" + line.title + "' lc '" + line.colour + "'";
		column += 3;
	}
	return text + "\n";
}

std::string plot_of_lines(const std::string &file)
{
	std::string text = "plot";

	for (int column = 2; const auto &line : lines) {
		text += std::string(column == 2 ? " '" + file + "'" : ", ''") + " using 1:" + std::to_string(column) +
			":" + std::to_string(column + 1) + ":" + std::to_string(column + 2) +
			" with yerrorlines title '" + line.title + "' lc '" + line.colour + "' lw 2 pt 7 ps 0.5";
		column += 3;
	}
	return text + "\n";
}

} // namespace

void write_plot(const fs::path &folder, const Results &results, const std::string &group)
{
	const auto &about = group_of(group);
	const bool sizes = group == "sizes", curve = sizes || group == "qps";
	// One picture above the other: by the hosts, and by the CRC, or by the processors of a curve
	std::map<std::string, std::ofstream> parts;

	for (const auto &[cell, contenders] : results) {
		if (cell.group != group || !cell.of_kiwarp())
			continue;
		const auto part = hosts_name(cell.hosts) + ", " +
				  (group == "qps" ? std::to_string(cell.cpus) + (cell.cpus == 1 ? " CPU" : " CPUs")
					  : group == "memory" ? std::string("idle")
							      : "CRC " + cell.crc);
		auto &data = parts[part];

		if (!data.is_open())
			data.open(folder / data_file(group, part));
		if (sizes)
			data << cell.octets;
		else if (curve)
			data << cell.qps;
		else
			data << '"' << label(cell) << '"';
		write_figures(data, results, cell);
	}

	std::ofstream script(folder / (group + ".gp"));
	script << "group = '" << group << "'\nheight = " << 60 + 350 * parts.size() << '\n' << head;
	if (curve)
		script << "set logscale x 2\nset format x '%.0f'\nset xlabel '"
		       << (sizes ? "octets of a message" : "queue pairs") << "'\nset xtics rotate by -25\n";
	else
		script << bars;
	script << "set logscale y\nset multiplot layout " << parts.size() << ",1\n";
	for (const auto &[part, data] : parts) {
		script << "set title '" << about.title << ", " << about.unit << " ("
		       << (about.higher_is_better ? "higher" : "lower") << " is better), " << part << "'\n"
		       << (curve ? plot_of_lines : plot_of_bars)(data_file(group, part));
	}
	script << "unset multiplot\n";
}

} // namespace bench
