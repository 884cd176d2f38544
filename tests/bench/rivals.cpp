// SPDX-License-Identifier: GPL-2.0
#include "rivals.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

namespace bench {

namespace {

constexpr Target at_least(double factor)
{
	return {.at_least = true, .factor = factor, .plus = 0};
}

constexpr Target at_most(double factor, double plus = 0)
{
	return {.at_least = false, .factor = factor, .plus = plus};
}

/// A target, and the cells it holds for. Empty or 0 stands for any, also for both numbers of hosts.
struct Rule {
	int hosts;
	std::string_view group;
	std::string_view kinds;
	int octets;
	int mtu;
	std::string_view crc;
	std::string_view rival;
	Target target;
};

// The first that holds for a cell counts.
constexpr Rule rules[] = {
	{2, "bandwidth", "", 4096, 0, "off", "tcp", at_least(1)},
	{2, "bandwidth", "", 4096, 0, "off", "siw", at_least(3)},
	{2, "bandwidth", "", 0, 0, "off", "tcp", at_least(1.1)},
	{2, "bandwidth", "", 0, 0, "on", "tcp", at_least(0.9)},
	{2, "bandwidth", "", 0, 1500, "off", "siw", at_least(10)},
	{2, "bandwidth", "", 0, 9000, "off", "siw", at_least(3)},
	{2, "bandwidth", "", 0, 1500, "on", "siw", at_least(8)},
	{2, "bandwidth", "", 0, 9000, "on", "siw", at_least(2.5)},
	{2, "pipe", "write", 0, 0, "", "pipe", at_least(0.95)},
	{2, "pipe", "write", 0, 0, "", "tcp", at_least(1.5)},
	{2, "latency", "write send", 0, 0, "off", "tcp", at_most(0.9)},
	{2, "latency", "write send", 0, 0, "off", "siw", at_most(0.95)},
	{2, "latency", "send_events", 0, 0, "off", "tcp", at_most(1)},
	{2, "latency", "send_events", 0, 0, "off", "siw", at_most(0.95)},
	{2, "cpu", "", 0, 0, "off", "tcp", at_most(0.8)},
	{2, "cpu", "", 0, 0, "on", "tcp", at_most(1)},
	{2, "cpu", "", 0, 0, "", "siw", at_most(0.2)},
	{1, "bandwidth", "", 65536, 0, "off", "tcp", at_least(1.2)},
	{1, "bandwidth", "", 1048576, 0, "off", "tcp", at_least(0.8)},
	{1, "bandwidth", "", 0, 0, "off", "siw", at_least(5)},
	{0, "rate", "write_list", 0, 0, "off", "tcp", at_least(1)},
	{1, "rate", "write_list", 0, 0, "off", "single", at_least(5)},
	{1, "rate", "write_list", 0, 0, "off", "siw", at_least(3)},
	{0, "rate", "write_single", 0, 0, "off", "tcp", at_least(2)},
	{1, "connections", "", 0, 0, "", "tcp", at_least(0.5)},
	{1, "connections", "", 0, 0, "", "siw", at_least(2)},
	{1, "memory", "idle", 0, 0, "", "tcp", at_most(1, 8)},
	{1, "memory", "idle", 0, 0, "", "siw", at_most(1)},
	{1, "regions", "", 0, 0, "", "siw", at_most(0.83)},
	{1, "sizes", "", 0, 0, "", "siw", at_least(1)},
	{1, "sizes", "", 0, 0, "", "peak", at_least(0.8)},
	{1, "qps", "", 0, 0, "", "siw", at_least(1)},
	{1, "qps", "", 0, 0, "", "peak", at_least(0.8)},
	{0, "datagram-latency", "", 0, 0, "off", "rc", at_most(0.9)},
	{0, "datagram-rate", "", 0, 0, "off", "rc", at_least(1.9)},
	{0, "datagram-rate", "", 0, 0, "off", "udp", at_least(1)},
	{0, "datagram-rate", "", 0, 0, "off", "udp_segment", at_least(1)},
	{0, "datagram-bandwidth", "", 0, 0, "off", "rc", at_least(1)},
	{0, "datagram-bandwidth", "", 0, 0, "off", "siw", at_least(1.33)},
	{0, "verbs-connections", "", 0, 0, "", "plain", at_least(1)},
	{0, "verbs-latency", "", 0, 0, "", "plain", at_most(1.1)},
	{0, "verbs-rate", "", 0, 0, "", "plain", at_least(0.95)},
	{0, "library-bandwidth", "", 65536, 0, "", "module", at_least(0.8)},
	{0, "library-bandwidth", "", 1048576, 0, "", "module", at_least(0.5)},
	{0, "library-connections", "", 0, 0, "", "module", at_least(1)},
	{1, "storage", "nvme_randread_1", 4096, 0, "", "tcp", at_least(1)},
	{1, "storage", "nvme_randread_16", 4096, 0, "", "tcp", at_least(0.9)},
	{1, "storage", "nvme_read_16", 131072, 0, "", "tcp", at_least(0.8)},
	{1, "storage", "nvme_write_16", 131072, 0, "", "tcp", at_least(0.9)},
	{1, "storage", "nfs_randread_16", 4096, 0, "", "tcp", at_least(0.9)},
	{1, "storage", "", 1048576, 0, "", "tcp", at_least(0.7)},
	{1, "storage", "", 4096, 0, "", "siw", at_least(1.3)},
	{1, "storage", "", 0, 0, "", "siw", at_least(1)},
	{1, "user-cpu", "", 65536, 0, "off", "tcp", at_most(1.2)},
	{1, "user-cpu", "", 65536, 0, "on", "tcp", at_most(1.6)},
	{1, "user-cpu", "", 1048576, 0, "off", "tcp", at_most(1.25)},
	{1, "user-cpu", "", 1048576, 0, "on", "tcp", at_most(1.6)},
	{1, "user-cpu", "", 0, 0, "off", "tcp", at_most(1.15)},
	{1, "user-lists", "", 0, 0, "off", "tcp", at_most(0.067)},
	{1, "user-latency", "send", 0, 0, "", "tcp", at_most(1.25)},
	{1, "user-latency", "send", 0, 0, "", "blocking", at_most(0.85)},
	{1, "user-latency", "send_events", 0, 0, "", "tcp", at_most(1.5)},
	{1, "user-latency", "write", 0, 0, "", "send", at_most(2)},
};

/// Pipes that have targets; what others carry is shown
constexpr std::string_view pipes[] = {"10 Gbit/s, 200 us", "10 Gbit/s, 1000 us"};

bool is_among(std::string_view word, std::string_view words)
{
	while (!words.empty()) {
		const auto end = std::min(words.find(' '), words.size());

		if (words.substr(0, end) == word)
			return true;
		words.remove_prefix(std::min(end + 1, words.size()));
	}
	return false;
}

std::optional<Target> target_of(const Cell &c, std::string_view rival)
{
	if (c.group == "pipe" && std::find(std::begin(pipes), std::end(pipes), c.link) == std::end(pipes))
		return std::nullopt;
	for (const auto &r : rules) {
		if ((!r.hosts || r.hosts == c.hosts) && r.group == c.group && (!r.octets || r.octets == c.octets) &&
			(r.kinds.empty() || is_among(c.kind, r.kinds)) && (!r.mtu || r.mtu == c.mtu) &&
			(r.crc.empty() || r.crc == c.crc) && r.rival == rival)
			return r.target;
	}
	return std::nullopt;
}

/// The cell in which those compete that know neither kinds of operation nor a CRC
Cell stream_cell(Cell c)
{
	if (c.group == "rate")
		c.kind = c.kind == "write_list" ? "stream_list" : "stream_single";
	else
		c.kind = group_of(c.group).is_latency() && c.kind.ends_with("_events") ? "stream_events" : "stream";
	c.crc = "none";
	return c;
}

/// The cell of rxe, which has its own CRC always
Cell rxe_cell(Cell c)
{
	c.crc = "icrc";
	return c;
}

/// A Read takes the whole round trip, of which a ping-pong's figure is half. NVMe and NFS do the same over TCP.
Runs tcp_runs(const Results &results, const Cell &c)
{
	if (c.group.starts_with("storage"))
		return find(results, c, "tcp");
	Runs runs = find(results, stream_cell(c), "tcp");

	if (c.group == "latency" && c.kind == "read") {
		for (auto &[rep, value] : runs.values)
			value *= 2;
		for (auto *const figures : {&runs.means, &runs.p99s})
			for (double &figure : *figures)
				figure *= 2;
	}
	return runs;
}

constexpr const char *single_sends = "TCP, a send for each";

std::string tcp_name(const Cell &c)
{
	if (c.group == "latency" && c.kind == "read")
		return "TCP, spinning, whole round trip";
	if (group_of(c.group).is_latency())
		return c.kind.ends_with("_events") ? "TCP, blocking" : "TCP, spinning";
	if (c.group.starts_with("storage"))
		return c.kind.starts_with("nvme_") ? "NVMe/TCP" : "NFS over TCP";
	if (c.group.starts_with("user-"))
		return "TCP, send and recv";
	if (c.group == "rate")
		return c.kind == "write_list" ? "TCP, a send for 32" : single_sends;
	if (c.group == "connections" || c.group == "memory")
		return "TCP sockets";
	return "TCP, iperf3";
}

/// What kiwarp does through a connection in place of a datagram. Peers are compared with idle connections.
Runs connected_runs(const Results &results, Cell c)
{
	if (c.group != "memory" || c.kind != "peers")
		return find(results, c, "rc");
	c.kind = "idle";
	return find(results, c, "ours");
}

std::string connected_name(const Cell &c)
{
	if (c.group == "memory")
		return "our own connections";
	return c.kind == "record" ? "our own Write" : "our own Send";
}

/// What kiwarp does by the calls that every program knows
std::string plain_name(const Cell &c)
{
	if (c.kind == "number")
		return "our own rdma_cm";
	if (c.kind == "fetch_add")
		return "our own Read";
	return c.kind == "srq_send" ? "our own receive queue" : "ibv_post_send, ibv_poll_cq";
}

/// Where a curve of ours is highest from 64 KB on: its runs there
Runs peak_runs(const Results &results, const Cell &c)
{
	Runs peak = find({}, c, "ours");
	double highest = 0;

	for (const auto &[cell, contenders] : results) {
		if (cell.group != c.group || cell.kind != c.kind || cell.mtu != c.mtu || cell.crc != c.crc ||
			cell.hosts != c.hosts || cell.cpus != c.cpus || cell.octets < 65536)
			continue;
		const auto &runs = find(results, cell, "ours");
		const auto s = spread(runs);

		if (s && s->median > highest) {
			highest = s->median;
			peak = runs;
		}
	}
	return peak;
}

} // namespace

std::string Target::text() const
{
	std::ostringstream out;

	out << (at_least ? ">= " : "<= ") << factor;
	if (plus > 0)
		out << " x + " << plus;
	return out.str();
}

std::vector<Rival> rivals(const Results &results, const Cell &c)
{
	std::vector<Rival> all;
	const auto add = [&](const char *id, const std::string &name, Runs runs) {
		const auto target = target_of(c, id);

		if (target || runs.problem != "not run")
			all.push_back({id, name, std::move(runs), target});
	};
	const bool curve = c.group == "sizes" || c.group == "qps";

	add("siw", "siw", find(results, c, "siw"));
	add("rxe", "rxe (RoCE)", find(results, rxe_cell(c), "rxe"));
	add("tcp", tcp_name(c), tcp_runs(results, c));
	if (c.group == "rate" && c.kind == "write_list") {
		Cell single = c;

		single.kind = "write_single";
		add("single", single_sends, tcp_runs(results, single));
	}
	if (c.group == "pipe")
		add("pipe", "what the link carries", find(results, stream_cell(c), "pipe"));
	// Which of the others compete is up to what was run: they have a cell of their own there.
	if (c.group == "bandwidth" && c.crc == "off" && c.kind != "read") {
		add("zerocopy", "TCP, MSG_ZEROCOPY", find(results, stream_cell(c), "zerocopy"));
		add("probe", "probe", find(results, stream_cell(c), "probe"));
	}
	if (c.group == "bandwidth" && c.kind == "read") {
		Cell write = c;

		write.kind = "write";
		add("write", "our own Write", find(results, write, "ours"));
	}
	if (c.group == "user-latency" && c.kind == "send") {
		Cell blocking = stream_cell(c);

		blocking.kind = "stream_events";
		add("blocking", "TCP, blocking", find(results, blocking, "tcp"));
	}
	if (c.group == "user-latency" && c.kind == "write") {
		Cell send = c;

		send.kind = "send";
		add("send", "our own Send", find(results, send, "ours"));
	}
	add("rc", connected_name(c), connected_runs(results, c));
	add("plain", plain_name(c), find(results, c, "plain"));
	add("module", "the module", find(results, c, "module"));
	add("whole", "UD Sends, whole", find(results, c, "whole"));
	add("udp", "UDP, sendmmsg", find(results, c, "udp"));
	add("udp_segment", "UDP_SEGMENT", find(results, c, "udp_segment"));
	add("udp_join", "UDP_SEGMENT, UDP_GRO", find(results, c, "udp_join"));
	if (curve && c.octets >= 65536)
		add("peak", "our own peak", peak_runs(results, c));
	return all;
}

std::optional<bool> met(const Runs &ours, const Rival &rival)
{
	if (!rival.target)
		return std::nullopt;
	const auto s = spread(ratios(ours, rival.runs, rival.target->factor, rival.target->plus));
	if (!s)
		return std::nullopt;
	return rival.target->at_least ? s->median >= 1 : s->median <= 1;
}

} // namespace bench
