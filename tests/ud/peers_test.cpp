// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// One queue pair hears from very many peers, of which the kernel remembers nothing.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <utility>

#include "../lib/datagram.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

constexpr unsigned int peers = 10000;
constexpr unsigned int batch = 50;
constexpr std::size_t stride = 128;

/// Where a peer is: 200 addresses, none of which is a host's, and as many ports as there are peers
std::string address_of(unsigned int peer)
{
	return "10.77.0." + std::to_string(10 + peer / batch % 200);
}
std::uint16_t port_of(unsigned int peer)
{
	return static_cast<std::uint16_t>(2000 + peer);
}

/// Bytes that the kernel has for itself and can't give back at once
std::int64_t kernel_memory()
{
	std::ifstream file("/proc/meminfo");
	std::string name, unit;
	std::int64_t value = 0, sum = 0;

	while (file >> name >> value && std::getline(file, unit))
		if (name == "SUnreclaim:" || name == "KernelStack:" || name == "VmallocUsed:" || name == "Percpu:")
			sum += value * 1024;
	if (sum == 0)
		vt::fail("/proc/meminfo doesn't tell");
	return sum;
}

/// KASAN keeps what has been freed for a while, to find those that still use it.
bool freed_memory_is_kept()
{
	std::ifstream symbols("/proc/kallsyms");
	std::string line;

	while (std::getline(symbols, line))
		if (line.ends_with(" kasan_report"))
			return true;
	return false;
}

class Peers : public testing::Test {
protected:
	/// Each of so many sends a datagram, which arrives, and says where it is from.
	void hear(unsigned int first, unsigned int count)
	{
		for (unsigned int i = first; i < first + count; i += batch) {
			for (unsigned int k = 0; k < batch; k++)
				right.receive(k, k * stride, stride - grh);
			for (unsigned int k = 0; k < batch; k++)
				sender.send(address_of(i + k), port_of(i + k), "10.77.0.2", right.number(),
					datagram(some_key, payload_of(i + k)));
			for (unsigned int k = 0; k < batch; k++)
				expect(i + k, k);
			ASSERT_FALSE(HasFailure()) << "peer " << i;
		}
	}

	static Bytes payload_of(unsigned int peer)
	{
		Bytes payload(sizeof(peer));

		std::memcpy(payload.data(), &peer, sizeof(peer));
		return payload;
	}

	void expect(unsigned int peer, unsigned int slot)
	{
		const ibv_wc wc = right.received();
		const Bytes payload = payload_of(peer);
		char text[16];

		EXPECT_WC(wc, slot, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.byte_len, grh + payload.size());
		EXPECT_EQ(wc.src_qp, port_of(peer));
		EXPECT_TRUE(vt::same(right.bytes(slot * stride + grh, payload.size()), payload)) << peer;
		// The end of the GRH's source
		const auto source = right.bytes(slot * stride + 20, 4);
		std::snprintf(text, sizeof(text), "%u.%u.%u.%u", source[0], source[1], source[2], source[3]);
		EXPECT_EQ(text, address_of(peer));
		heard.emplace(text, wc.src_qp);
	}

	End right{"kiw1"};
	Spoofer sender{"left"};
	std::set<std::pair<std::string, std::uint32_t>> heard;
};

TEST_F(Peers, TenThousandAreHeardAndNoneIsRemembered)
{
	// Less than an address and a port in a list take, for each
	constexpr std::int64_t allowed = peers * std::int64_t{48};

	// Others before them: caches grow to what such traffic takes.
	hear(peers, peers);
	heard.clear();
	const std::int64_t before = kernel_memory();
	hear(0, peers);
	EXPECT_EQ(heard.size(), peers);
	EXPECT_EQ(right.state(), IBV_QPS_RTS);
	const std::int64_t grown = kernel_memory() - before;
	std::printf("the kernel's memory has grown by %d bytes\n", static_cast<int>(grown));
	if (freed_memory_is_kept())
		return;
	// What has been freed goes home in its own time.
	vt::wait_until(
		[&] { return kernel_memory() - before < allowed; }, "the kernel to have no memory of 10,000 peers");
}

} // namespace
} // namespace ud
