// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// For how long a buffer belongs to a request: from the post to the completion, and not an octet of what the process
// writes later leaves it.
#include <algorithm>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"

namespace vt {
namespace {

constexpr std::uint8_t before = 0xa5; // what is sent
constexpr std::uint8_t after = 0x5a;  // what is written when the request is done

/// A packet socket on the server's interface, as tcpdump has one; what it queues shares pages with what TCP has.
class Tap {
public:
	Tap()
	{
		const InNamespace inside(server_end().netns);
		sockaddr_ll address{};
		const int room = 16 << 20;

		fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
		if (fd_ < 0)
			fail("a packet socket", errno);
		address.sll_family = AF_PACKET;
		address.sll_protocol = htons(ETH_P_ALL);
		address.sll_ifindex = static_cast<int>(if_nametoindex(interface_of(server_end()).c_str()));
		if (bind(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) ||
			setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
			fail("a packet socket of the interface", errno);
	}
	~Tap() { close(fd_); }
	Tap(const Tap &) = delete;
	Tap &operator=(const Tap &) = delete;

	/// How many octets of a value are in what it has queued, not counting those that stand alone.
	std::pair<std::size_t, std::size_t> read_all(std::uint8_t first, std::uint8_t second) const
	{
		std::vector<std::uint8_t> packet(1 << 18);
		std::pair<std::size_t, std::size_t> found;

		for (;;) {
			const ssize_t n = recv(fd_, packet.data(), packet.size(), MSG_DONTWAIT);
			if (n < 0)
				return found;
			const std::span<const std::uint8_t> octets(packet.data(), static_cast<std::size_t>(n));
			found.first += in_runs(octets, first);
			found.second += in_runs(octets, second);
		}
	}

private:
	static std::size_t in_runs(std::span<const std::uint8_t> octets, std::uint8_t value)
	{
		constexpr std::size_t least = 8; // headers have single ones of any value
		std::size_t sum = 0, run = 0;

		for (const std::uint8_t octet : octets) {
			run = octet == value ? run + 1 : 0;
			sum += run == least ? least : run > least ? 1 : 0;
		}
		return sum;
	}

	int fd_ = -1;
};

class OnTheWire : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Lifetime, OnTheWire, testing::Bool(),
	[](const auto &parameter) { return parameter.param ? "Deregistered" : "Registered"; });

TEST_P(OnTheWire, APacketSocketSeesOnlyWhatWasSent)
{
	constexpr std::size_t octets = 64 << 10;
	Pair pair;
	Region from(pair.a().pd(), octets);
	Region to(pair.b().pd(), octets);
	const Tap tap;

	from.fill(before);
	to.fill(0);
	ASSERT_EQ(pair.a().write({from.sge()}, {.id = 1, .remote = to.address(), .rkey = to.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
	if (GetParam())
		from.deregister();
	from.fill(after);
	pair.sync();
	EXPECT_TRUE(all_equal(to.bytes(), before));
	const auto [sent, later] = tap.read_all(before, after);
	EXPECT_GE(sent, octets * 9 / 10);
	EXPECT_EQ(later, 0U);
}

// A region that has nothing to do with what is under way goes. The other's Write is neither disturbed nor cut short.
TEST(Lifetime, DeregisteringAnIdleRegionDisturbsNothing)
{
	constexpr std::size_t octets = 2 << 20;
	Pair pair;
	Region idle(pair.a().pd(), 64 << 10);
	Region from(pair.a().pd(), octets);
	Region to(pair.b().pd(), octets);

	ASSERT_EQ(pair.a().write({idle.sge()}, {.id = 0, .remote = to.address(), .rkey = to.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	from.fill_pattern(3);
	{
		const HeldBack slow(client_end(), "tbf rate 4mbit burst 128k limit 16m");

		to.fill(0);
		ASSERT_EQ(pair.a().write({from.sge()}, {.id = 1, .remote = to.address(), .rkey = to.rkey()}), 0);
		// TCP has more under way by then than the link carries in half a second.
		const volatile std::uint8_t *far = to.data() + (256 << 10);
		wait_until([=] { return !std::all_of(far, far + 64, [](std::uint8_t octet) { return octet == 0; }); },
			"a part of the Write");
		idle.deregister();
		EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_EQ(pair.a().state(), IBV_QPS_RTS);
	}
	pair.sync();
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

// Two requests are all that the ring holds. The Read is answered while the long Write behind it is still being sent;
// what is posted then gets the Read's slot, and completes when all of it was sent.
TEST(Lifetime, ACompletionIsThatOfItsOwnRequest)
{
	constexpr std::size_t long_write = 600 << 10, last = 2 << 20, last_at = 2 << 20;
	Options options;
	options.cap.max_send_wr = 2;
	Pair pair(options, Options{});
	Region from(pair.a().pd(), 8 << 20);
	Region to(pair.b().pd(), 8 << 20);
	ibv_send_wr read{}, write{}, *bad = nullptr;
	ibv_sge read_sge = from.sge(0, 8), write_sge = from.sge(1 << 20, long_write);

	ASSERT_EQ(pair.a().cap().max_send_wr, 2U);
	from.fill(0);
	std::fill_n(from.data() + last_at, last, before);
	read.wr_id = 0;
	read.opcode = IBV_WR_RDMA_READ;
	read.sg_list = &read_sge;
	read.num_sge = 1;
	read.send_flags = IBV_SEND_SIGNALED;
	read.wr.rdma = {to.address(), to.rkey()};
	read.next = &write;
	write = read;
	write.wr_id = 1;
	write.opcode = IBV_WR_RDMA_WRITE;
	write.sg_list = &write_sge;
	write.wr.rdma = {to.address(1 << 20), to.rkey()};
	write.next = nullptr;
	{
		const HeldBack slow(client_end(), "tbf rate 100mbit burst 128k limit 16m");

		ASSERT_EQ(ibv_post_send(pair.a().qp(), &read, &bad), 0);
		EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
		ASSERT_EQ(pair.a().write({from.sge(last_at, last)},
				  {.id = 2, .remote = to.address(last_at), .rkey = to.rkey()}),
			0);
		EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_WC(pair.a().sent(), 2, IBV_WC_SUCCESS);
		std::fill_n(from.data() + last_at, last, after);
		pair.sync();
	}
	EXPECT_TRUE(all_equal(to.bytes(last_at, last), before));
}

} // namespace
} // namespace vt
