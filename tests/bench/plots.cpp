// SPDX-License-Identifier: GPL-2.0
#include "plots.hpp"

#include "rivals.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

namespace bench {

namespace {

namespace fs = std::filesystem;

struct Line {
	const char *contender;
	const char *title;
	const char *colour;
};

/// Contenders that have a line or a bar where they are measured
constexpr Line all_lines[] = {
	{"ours", "kiwarp", "#1b6ca8"},
	{"rc", "kiwarp, connected", "#5fa55a"},
	{"plain", "kiwarp, plain", "#5fa55a"},
	{"whole", "kiwarp, UD Sends", "#a05fa5"},
	{"siw", "siw", "#e08e45"},
	{"rxe", "rxe", "#b5494f"},
	{"tcp", "TCP", "#8a8a8a"},
	{"udp", "UDP, sendmmsg", "#b5b5b5"},
	{"udp_segment", "UDP_SEGMENT", "#8a8a8a"},
};
using Lines = std::vector<Line>;

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

std::optional<Spread> figure_of(const Results &results, const Cell &cell, const std::string &contender)
{
	for (const auto &rival : rivals(results, cell)) {
		if (rival.id == contender)
			return spread(rival.runs);
	}
	return spread(find(results, cell, contender));
}

/// Those that have a figure in the group, and ours
Lines lines_of(const Results &results, const std::string &group)
{
	Lines lines;

	std::copy_if(std::begin(all_lines), std::end(all_lines), std::back_inserter(lines), [&](const Line &line) {
		return line.contender == std::string_view("ours") ||
		       std::any_of(results.begin(), results.end(), [&](const auto &r) {
			       return r.first.group == group && r.first.of_kiwarp() &&
				      figure_of(results, r.first, line.contender);
		       });
	});
	return lines;
}

/// Median, least and greatest of each contender, or question marks
void write_figures(std::ofstream &data, const Results &results, const Cell &cell, const Lines &lines)
{
	for (const auto &line : lines) {
		const auto s = figure_of(results, cell, line.contender);

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

std::string plot_of_bars(const std::string &file, const Lines &lines)
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

std::string plot_of_lines(const std::string &file, const Lines &lines)
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

/// Which picture of the group's a cell is in; they stand one above the other
std::string part_of(const Cell &c)
{
	const auto hosts = hosts_name(c.hosts) + ", ";

	if (c.group == "qps")
		return hosts + std::to_string(c.cpus) + (c.cpus == 1 ? " CPU" : " CPUs");
	if (c.group == "memory")
		return hosts + "idle";
	if (c.group == "loss" || c.group == "broadcast")
		return hosts + size_name(c.octets);
	return hosts + "CRC " + c.crc;
}

/// Where a cell is on a curve
std::string place_of(const Cell &c)
{
	if (c.group == "sizes")
		return std::to_string(c.octets);
	// "0.5 % lost"
	return c.group == "loss" ? c.link.substr(0, c.link.find(' ')) : std::to_string(c.qps);
}

/// Groups that have curves, and the axis along which these go
struct Curve {
	std::string_view group;
	const char *axis;
	const char *format;
	const char *tics;
	/// Of the axis: a tic at its very end has no label
	const char *range;
};
constexpr Curve curves[] = {
	{"sizes", "octets of a message", "%.0f", "rotate by -25", "[*:*]"},
	{"qps", "queue pairs", "%.0f", "rotate by -25", "[*:*]"},
	{"loss", "packets lost, %", "%g", "(0.1, 0.2, 0.5, 1, 2, 5, 10)", "[*:*]"},
	{"broadcast", "receivers", "%.0f", "(1, 2, 3, 4, 8)", "[0.9:9]"},
};

const Curve *curve_of(const std::string &group)
{
	const auto *const found =
		std::find_if(std::begin(curves), std::end(curves), [&](const Curve &c) { return c.group == group; });

	return found == std::end(curves) ? nullptr : found;
}

} // namespace

void write_plot(const fs::path &folder, const Results &results, const std::string &group)
{
	const auto &about = group_of(group);
	const Curve *const curve = curve_of(group);
	const auto lines = lines_of(results, group);
	std::map<std::string, std::ofstream> parts;

	for (const auto &[cell, contenders] : results) {
		if (cell.group != group || !cell.of_kiwarp())
			continue;
		const auto part = part_of(cell);
		auto &data = parts[part];

		if (!data.is_open())
			data.open(folder / data_file(group, part));
		if (curve)
			data << place_of(cell);
		else
			data << '"' << label(cell) << '"';
		write_figures(data, results, cell, lines);
	}

	std::ofstream script(folder / (group + ".gp"));
	script << "group = '" << group << "'\nheight = " << 60 + 350 * parts.size() << '\n' << head;
	if (curve)
		script << "set logscale x 2\nset format x '" << curve->format << "'\nset xlabel '" << curve->axis
		       << "'\nset xtics " << curve->tics << "\nset xrange " << curve->range << '\n';
	else
		script << bars;
	script << "set logscale y\nset multiplot layout " << parts.size() << ",1\n";
	for (const auto &[part, data] : parts) {
		script << "set title '" << about.title << ", " << about.unit << " ("
		       << (about.higher_is_better ? "higher" : "lower") << " is better), " << part << "'\n"
		       << (curve ? plot_of_lines : plot_of_bars)(data_file(group, part), lines);
	}
	script << "unset multiplot\n";
}

} // namespace bench
