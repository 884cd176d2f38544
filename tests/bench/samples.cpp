// SPDX-License-Identifier: GPL-2.0
#include "samples.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <tuple>

namespace bench {

namespace {

constexpr std::array groups{
	Group{"bandwidth", "Bandwidth", "MB/s", true},
	Group{"pipe", "Bandwidth of a slower link", "MB/s", true},
	Group{"latency", "Latency", "us", false},
	Group{"rate", "Small messages", "thousand/s", true},
	Group{"connections", "Connections made and closed", "1/s", true},
	Group{"cpu", "Processor time for data moved", "s/GB", false},
	Group{"memory", "Kernel memory of one end of an idle connection", "KB", false},
	Group{"regions", "Memory regions registered and deregistered", "us for each", false},
	Group{"clients", "Requests to a server of one thread", "thousand/s", true},
	Group{"sizes", "Bandwidth by message size", "MB/s", true},
	Group{"qps", "Bandwidth by number of queue pairs", "MB/s", true},
	Group{"counters", "Counts", "for each message", false},
	Group{"datagram-latency", "Latency of datagrams", "us", false},
	Group{"datagram-rate", "Datagrams, posted in lists", "thousand/s", true},
	Group{"datagram-bandwidth", "Bandwidth of datagrams", "MB/s", true},
	Group{"verbs-connections", "Connections by number, made and closed", "1/s", true},
	Group{"verbs-latency", "Latency of atomics", "us", false},
	Group{"verbs-rate", "Small messages by other calls, posted in lists", "thousand/s", true},
	Group{"loss", "Bandwidth of what arrives where packets are lost", "MB/s", true},
	Group{"library-bandwidth", "Bandwidth without the module", "MB/s", true},
	Group{"library-connections", "Connections without the module, made and closed", "1/s", true},
	Group{"user-cpu", "Without the module: processor time of both ends", "us for each message", false},
	Group{"user-lists", "Without the module: processor time of small messages, posted in lists",
		"us for each message", false},
	Group{"user-latency", "Without the module: latency", "us", false},
	Group{"storage", "NVMe and NFS", "MB/s", true},
	Group{"storage-cpu", "NVMe and NFS: processor time for data moved", "s/GB", false},
	Group{"broadcast", "Bandwidth of messages to all receivers, together", "MB/s", true},
};

constexpr std::array<std::string_view, 20> kinds{"write", "send", "read", "write_events", "send_events", "read_events",
	"write_list", "write_single", "ud_send", "record", "srq_send", "extended_send", "extended_write",
	"nvme_randread_1", "nvme_randread_16", "nvme_read_16", "nvme_write_16", "nfs_read_4", "nfs_write_4",
	"nfs_randread_16"};

template <typename Range, typename Value>
auto rank(const Range &range, const Value &value)
{
	return std::find(range.begin(), range.end(), value) - range.begin();
}

auto group_rank(const std::string &name)
{
	return std::find_if(groups.begin(), groups.end(), [&](const Group &g) { return name == g.name; }) -
	       groups.begin();
}

auto order(const Cell &c)
{
	return std::tuple(group_rank(c.group), -c.hosts, c.link, c.crc == "on", -c.cpus, c.mtu, c.qps, c.octets,
		rank(kinds, c.kind), c.kind, c.counter);
}

} // namespace

bool Cell::operator<(const Cell &other) const
{
	return order(*this) < order(other);
}

const Group &group_of(const std::string &name)
{
	const auto i = std::size_t(group_rank(name));

	if (i >= groups.size())
		throw std::invalid_argument("samples of an unknown group " + name);
	return groups[i];
}

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

std::vector<double> ratios(const Runs &ours, const Runs &peer, double factor, double plus)
{
	std::vector<double> v;

	for (const auto &[rep, value] : ours.values) {
		const auto other = peer.values.find(rep);

		if (other != peer.values.end() && other->second * factor + plus > 0)
			v.push_back(value / (other->second * factor + plus));
	}
	return v;
}

Json read_about(const std::filesystem::path &folder)
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

Json read_samples(const std::filesystem::path &folder)
{
	Json samples = Json::array();
	std::ifstream file(folder / "samples.jsonl");

	for (std::string line; std::getline(file, line);) {
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
		const Cell cell{s.at("group"), s.at("hosts"), s.at("kind"), s.at("octets"), s.at("mtu"), s.at("crc"),
			s.at("qps"), s.at("cpus"), s.value("link", ""), s.value("counter", "")};
		auto &runs = results[cell][s.at("contender")];

		if (s.contains("note"))
			runs.note = s.at("note");
		if (s.contains("value"))
			runs.values[s.at("rep")] = s.at("value");
		else if (s.contains("absent"))
			runs.problem = "can't run here: " + s.at("absent").get<std::string>();
		else
			runs.problem = "failed: " + s.at("failed").get<std::string>();
		if (s.contains("mean")) {
			runs.means.push_back(s.at("mean"));
			runs.p99s.push_back(s.at("p99"));
		}
	}
	return results;
}

const Runs &find(const Results &results, const Cell &cell, const std::string &contender)
{
	static const Runs none{.values = {}, .means = {}, .p99s = {}, .problem = "not run", .note = ""};
	const auto contenders = results.find(cell);

	if (contenders == results.end() || !contenders->second.contains(contender))
		return none;
	return contenders->second.at(contender);
}

std::string size_name(int octets)
{
	if (octets % (1 << 30) == 0)
		return std::to_string(octets >> 30) + " GB";
	if (octets % (1 << 20) == 0)
		return std::to_string(octets >> 20) + " MB";
	if (octets % 1024 == 0)
		return std::to_string(octets / 1024) + " KB";
	return std::to_string(octets) + " B";
}

std::string hosts_name(int hosts)
{
	return hosts == 2 ? "two hosts" : "one host";
}

namespace {

/// "NVMe randread, depth 16" for nvme_randread_16
std::string storage_name(const std::string &kind)
{
	const auto depth = kind.rfind('_');
	auto name = kind.substr(0, depth) + ", depth " + kind.substr(depth + 1);

	name.replace(0, name.find('_') + 1, kind.starts_with("nvme_") ? "NVMe " : "NFS ");
	return name;
}

} // namespace

std::string kind_name(const std::string &kind)
{
	if (kind.starts_with("nvme_") || kind.starts_with("nfs_"))
		return storage_name(kind);
	const auto events = kind.find("_events");

	if (kind == "ud_send")
		return "UD Send";
	if (kind == "record")
		return "Write-Record";
	if (kind == "fetch_add")
		return "FetchAdd";
	if (kind == "srq_send")
		return "send to a shared receive queue";
	if (kind == "write_imm")
		return "write with immediate data";
	if (kind == "write_list")
		return "write, posted in lists of 32";
	if (kind == "write_single")
		return "write, posted one by one";
	if (kind.starts_with("extended_"))
		return kind.substr(kind.find('_') + 1) + " by ibv_wr_* and ibv_start_poll";
	return events == std::string::npos ? kind : kind.substr(0, events) + ", events";
}

std::string short_name(const Cell &c)
{
	if (c.group.ends_with("connections"))
		return "connections";
	if (c.group == "memory")
		return std::to_string(c.qps) + (c.kind == "peers" ? " peers of a UD queue pair" : " connections");
	if (c.group == "regions")
		return (c.kind == "exit" ? "exit with " : "") + std::to_string(c.qps) +
		       (c.qps == 1 ? " region of " : " regions of ") + size_name(c.octets);
	auto name = c.octets ? size_name(c.octets) + " " + kind_name(c.kind) : kind_name(c.kind);
	if (c.group == "qps")
		name += ", " + std::to_string(c.qps) + (c.qps == 1 ? " QP, " : " QPs, ") + std::to_string(c.cpus) +
			(c.cpus == 1 ? " CPU" : " CPUs");
	if (c.group == "broadcast")
		name += " to " + std::to_string(c.qps) + (c.qps == 1 ? " receiver" : " receivers");
	if (c.group == "clients")
		name += ", " + std::to_string(c.qps) + " clients";
	if (!c.link.empty())
		name += ", " + c.link;
	if (!c.counter.empty())
		name += ", " + c.counter;
	return name;
}

std::string row_name(const Cell &c)
{
	return std::string(group_of(c.group).title) + ", " + hosts_name(c.hosts) + ": " + short_name(c) + ", MTU " +
	       std::to_string(c.mtu) + ", CRC " + c.crc;
}

} // namespace bench
