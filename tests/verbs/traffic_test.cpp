// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the counters of a port say about its traffic.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "../lib/connection.hpp"

namespace vt {
namespace {

std::filesystem::path counters_of(const ibv_context *context)
{
	return std::filesystem::path("/sys/class/infiniband") / ibv_get_device_name(context->device) /
	       "ports/1/counters";
}

/// A counter; throws where it can't be read or is no number.
std::uint64_t counter(const std::filesystem::path &file)
{
	std::ifstream in(file);
	std::string text;
	std::uint64_t value = 0;

	if (!(in >> text))
		fail("read " + file.string());
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
	if (error != std::errc{} || end != text.data() + text.size())
		fail("counter " + file.string() + " says " + text);
	return value;
}

struct Traffic {
	std::uint64_t words; // of four octets
	std::uint64_t fpdus;

	static Traffic sent(const ibv_context *context) { return read(context, "port_xmit_data", "port_xmit_packets"); }
	static Traffic received(const ibv_context *context)
	{
		return read(context, "port_rcv_data", "port_rcv_packets");
	}

	Traffic operator-(const Traffic &other) const { return {words - other.words, fpdus - other.fpdus}; }
	bool operator==(const Traffic &other) const = default;

private:
	static Traffic read(const ibv_context *context, const char *data, const char *packets)
	{
		return {counter(counters_of(context) / data), counter(counters_of(context) / packets)};
	}
};

// node_exporter gives up on all devices of a machine where one has no such folder, or a file in it is no number.
TEST(Traffic, EveryCounterIsANumber)
{
	const std::set<std::string> wanted = {"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed",
		"link_error_recovery", "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets",
		"port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors", "port_rcv_packets",
		"port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
		"port_xmit_data", "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error",
		"unicast_rcv_packets", "unicast_xmit_packets"};
	std::set<std::string> found;

	for (const auto &file : std::filesystem::directory_iterator(counters_of(server_device()))) {
		counter(file.path());
		found.insert(file.path().filename());
	}
	EXPECT_EQ(found, wanted);
}

TEST(Traffic, CountersGrowByWhatIsSent)
{
	constexpr std::size_t size = 1000000;
	constexpr int rounds = 8;
	Pair pair;
	const ibv_context *a = pair.a().context();
	const ibv_context *b = pair.b().context();
	const Region from{pair.a().pd(), size};
	const Region to{pair.b().pd(), size};

	// Neither end owes the other anything after this.
	pair.sync();
	wait_until([&] { return Traffic::received(b).fpdus > 0; }, "the first message to be counted");
	const Traffic sent_before = Traffic::sent(a);
	const Traffic received_before = Traffic::received(b);
	for (int i = 0; i < rounds; i++) {
		ASSERT_EQ(pair.a().write({from.sge()}, {.remote = to.address(), .rkey = to.rkey()}), 0);
		EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	}
	const Traffic sent = Traffic::sent(a) - sent_before;

	// An FPDU has at most 64 KB of payload, and of a 1,500 octet segment at least 1,300; headers are less than a
	// tenth.
	constexpr std::size_t payload = size * rounds;
	EXPECT_GE(sent.words, payload / 4);
	EXPECT_LE(sent.words, payload / 4 * 11 / 10);
	EXPECT_GE(sent.fpdus, payload / 65536);
	EXPECT_LE(sent.fpdus, payload / 1300);
	wait_until([&] { return Traffic::received(b) - received_before == sent; }, "the other end to count the same");
	EXPECT_EQ(counter(counters_of(a) / "unicast_xmit_packets"), Traffic::sent(a).fpdus);
	EXPECT_EQ(counter(counters_of(b) / "unicast_rcv_packets"), Traffic::received(b).fpdus);
}

TEST(Traffic, AReadIsCountedByBothEnds)
{
	constexpr std::size_t size = 500000;
	Pair pair;
	const ibv_context *a = pair.a().context();
	const ibv_context *b = pair.b().context();
	const Region to{pair.a().pd(), size};
	const Region from{pair.b().pd(), size};

	pair.sync();
	const Traffic sent_before = Traffic::sent(b);
	ASSERT_EQ(pair.a().read({to.sge()}, {.remote = from.address(), .rkey = from.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	wait_until(
		[&] { return (Traffic::sent(b) - sent_before).words >= size / 4; }, "the Read Response to be counted");
	wait_until([&] { return Traffic::received(a).words >= size / 4; }, "the other end to count it");
}

} // namespace
} // namespace vt
