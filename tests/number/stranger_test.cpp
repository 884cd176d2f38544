// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a program without RDMA can do to the port that devices listen on.
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../verbs/link.hpp"
#include "end.hpp"

namespace {

using namespace number;
using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint16_t port = 19287;

void put32(Bytes &bytes, std::uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

struct Said {
	std::uint32_t from, to, sq_psn, rq_psn;
	std::uint8_t flags = 1;
};

/// Private data, as Documentation/protocol.md has them
Bytes private_data(const Said &said)
{
	Bytes bytes{'k', 'i', 'w', 'N', 1, said.flags, 0, 0};

	for (const std::uint32_t field : {said.from, said.to, said.sq_psn, said.rq_psn})
		put32(bytes, field);
	return bytes;
}

/// A Request of MPA revision 2, peer-to-peer, with an RTR message that is a Write
Bytes request(const Bytes &data)
{
	const std::string key = "MPA ID Req Frame";
	Bytes bytes(key.begin(), key.end());
	const std::size_t length = data.size() + 4;

	bytes.insert(bytes.end(), {0x10, 2, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
	bytes.insert(bytes.end(), {0x80, 1, 0x80, 1});
	bytes.insert(bytes.end(), data.begin(), data.end());
	return bytes;
}

/// A TCP connection from a host to the other one's port
class Stranger {
public:
	explicit Stranger(const std::string &host = "left", const char *to = "10.77.0.2")
	{
		const vt::InNamespace in(host);
		sockaddr_in address{};

		address.sin_family = AF_INET;
		address.sin_port = htons(port);
		inet_pton(AF_INET, to, &address.sin_addr);
		fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		connected_ = connect(fd_, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0;
	}
	~Stranger() { close(fd_); }
	Stranger(const Stranger &) = delete;
	Stranger &operator=(const Stranger &) = delete;

	bool connected() const { return connected_; }
	void say(const Bytes &bytes) const { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
	/// All that comes until the other side closes, or nothing more comes
	Bytes answer(int milliseconds = 3000) const
	{
		std::array<std::uint8_t, 1024> buffer{};
		pollfd p{fd_, POLLIN, 0};
		Bytes all;

		while (poll(&p, 1, milliseconds) == 1) {
			const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
			if (n <= 0)
				break;
			all.insert(all.end(), buffer.begin(), buffer.begin() + n);
		}
		return all;
	}

private:
	int fd_ = -1;
	bool connected_ = false;
};

bool is_rejection(const Bytes &answer)
{
	return answer.size() >= 20 && !std::memcmp(answer.data(), "MPA ID Rep Frame", 16) && (answer[16] & 0x20);
}

class Strangers : public testing::Test {
protected:
	End left{"kiw0", ipv4.left}, right{"kiw1", ipv4.right};
	// The greater address dials.
	End &dialed = left;
	End &dials = right;

	void SetUp() override { ASSERT_EQ(dialed.rtr(dials.name()), 0); }
	/// The right peer comes after all.
	void connect_after_all() const
	{
		ASSERT_EQ(dialed.rts(), 0);
		dials.connect(dialed.name());
		exchange(left, right);
	}
	Said truth() const { return {dials.name().qpn, dialed.name().qpn, dials.name().psn, dialed.name().psn}; }
	static Bytes ask(const Bytes &bytes)
	{
		const Stranger stranger("right", "10.77.0.1");

		EXPECT_TRUE(stranger.connected());
		stranger.say(bytes);
		return stranger.answer();
	}
};

TEST_F(Strangers, GuessesAreRejected)
{
	for (std::uint32_t Said::*field : {&Said::from, &Said::to, &Said::sq_psn}) {
		Said wrong = truth();

		wrong.*field ^= 1;
		EXPECT_TRUE(is_rejection(ask(request(private_data(wrong)))));
	}
	// Neither end may send: there is nothing to tell them by.
	Said unready = truth();
	unready.flags = 0;
	unready.sq_psn = 0;
	EXPECT_TRUE(is_rejection(ask(request(private_data(unready)))));
	connect_after_all();
}

TEST_F(Strangers, MalformedDataIsRejected)
{
	const Bytes good = private_data(truth());

	for (const std::size_t at : {0, 4, 5, 6, 7, 8, 12, 16, 20}) {
		Bytes bad = good;
		bad.at(at) ^= 0x80;
		EXPECT_TRUE(is_rejection(ask(request(bad)))) << at;
	}
	for (const std::size_t length : {0, 1, 23, 25, 500}) {
		Bytes bad = good;
		bad.resize(length);
		EXPECT_TRUE(is_rejection(ask(request(bad)))) << length;
	}
	connect_after_all();
}

TEST_F(Strangers, AnotherAddressIsRejected)
{
	ASSERT_TRUE(vt::run("ip -n right addr replace 10.77.0.99/24 dev veth1"));
	{
		const vt::InNamespace in("right");
		sockaddr_in from{}, to{};
		const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		std::array<std::uint8_t, 64> answer{};

		from.sin_family = to.sin_family = AF_INET;
		inet_pton(AF_INET, "10.77.0.99", &from.sin_addr);
		inet_pton(AF_INET, "10.77.0.1", &to.sin_addr);
		to.sin_port = htons(port);
		ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&from), sizeof(from)), 0);
		ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof(to)), 0);
		const Bytes bytes = request(private_data(truth()));
		ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
		const ssize_t n = recv(fd, answer.data(), answer.size(), 0);
		EXPECT_TRUE(n > 0 && is_rejection(Bytes(answer.begin(), answer.begin() + n)));
		close(fd);
	}
	ASSERT_TRUE(vt::run("ip -n right addr del 10.77.0.99/24 dev veth1"));
	connect_after_all();
}

TEST_F(Strangers, GarbageEndsItsOwnConnectionOnly)
{
	EXPECT_TRUE(ask(Bytes(200, 'x')).empty());
	EXPECT_FALSE(is_rejection(ask({'M', 'P', 'A'})));
	connect_after_all();
}

TEST_F(Strangers, SilentOnesDontKeepThePeerOut)
{
	std::vector<std::unique_ptr<Stranger>> silent;

	for (int i = 0; i < 500; i++)
		silent.push_back(std::make_unique<Stranger>("right", "10.77.0.1"));
	connect_after_all();
}

// Each of them is kept for a moment, as a peer's early dial is.
TEST_F(Strangers, AFloodOfWrongDialsKeepsNobodyOut)
{
	constexpr std::array fields = {&Said::from, &Said::to, &Said::sq_psn};
	const End a("kiw0", ipv4.left), b("kiw1", ipv4.right);
	std::vector<std::unique_ptr<Stranger>> strangers;

	a.connect(b.name());
	b.connect(a.name());
	for (std::uint32_t i = 0; i < 600; i++) {
		Said wrong = truth();

		wrong.*fields[i % fields.size()] ^= 1 + i;
		strangers.push_back(std::make_unique<Stranger>("right", "10.77.0.1"));
		strangers.back()->say(request(private_data(wrong)));
		if (i % 50 == 0)
			exchange(a, b);
	}
	connect_after_all();
	exchange(a, b);
	for (const auto &stranger : strangers)
		EXPECT_TRUE(is_rejection(stranger->answer()));
}

// It says what the peer would have said before its RTS, which is kept, and hangs up.
TEST_F(Strangers, ADialThatIsGivenUpIsForgotten)
{
	Said early = truth();

	early.flags = 0;
	early.sq_psn = 0;
	for (int i = 0; i < 20; i++)
		Stranger("right", "10.77.0.1").say(request(private_data(early)));
	connect_after_all();
}

// As `ss -K` does. Loading the module fails even so.
TEST_F(Strangers, TheDeviceListensAgainAfterItsSocketWasEnded)
{
	ASSERT_TRUE(vt::run(vt::in(vt::client_end()) +
			    "insmod /usr/lib/kiwarp/guest/sockets.ko what=kill port=19287 listening=1 2>&1 | "
			    "grep -q 'temporarily unavailable'"));
	vt::wait_until([] { return !Stranger("right", "10.77.0.1").connected(); }, "the port to be closed");
	ASSERT_EQ(dialed.reset(), 0);
	ASSERT_EQ(dialed.init(), 0);
	ASSERT_EQ(dialed.rtr(dials.name()), 0);
	connect_after_all();
}

// The receive request that the message has taken isn't lost.
TEST_F(Strangers, AMessageWithoutAnEndFails)
{
	// An empty Write as ready-to-receive message, and a Send that isn't the last segment; both without a CRC
	const Bytes rtr{0, 14, 0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	const Bytes segment{
		0, 24, 0x01, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0};

	dialed.receive(1);
	dialed.receive(2);
	ASSERT_EQ(dialed.rts(), 0);
	{
		const Stranger stranger("right", "10.77.0.1");

		stranger.say(request(private_data(truth())));
		const Bytes answer = stranger.answer(500);
		ASSERT_FALSE(answer.empty() || is_rejection(answer));
		stranger.say(rtr);
		stranger.say(segment);
		vt::wait_until([&] { return dialed.memory().bytes(4096, 6)[5] == 6; }, "the segment");
	}
	EXPECT_WC(dialed.completion("the message"), 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_WC(dialed.completion("the next"), 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(dialed.state(), IBV_QPS_ERR);
}

/// A Send of 8 bytes in one segment, without a CRC. Its header alone is the first 20 bytes.
const Bytes whole_send{
	0, 26, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0};
const Bytes send_header(whole_send.begin(), whole_send.begin() + 20);

class Headers : public Strangers {
protected:
	/// Connects, with an empty Write as ready-to-receive message, and sends the header of a Send.
	void begin(const Stranger &stranger) const
	{
		ASSERT_EQ(dialed.rts(), 0);
		stranger.say(request(private_data(truth())));
		const Bytes answer = stranger.answer(500);
		ASSERT_FALSE(answer.empty() || is_rejection(answer));
		stranger.say({0, 14, 0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
		stranger.say(send_header);
		std::this_thread::sleep_for(200ms);
	}
};

// It is the last that TCP has when a receive request comes.
TEST_F(Headers, OfAMessageThatWaitsIsLookedAtAgain)
{
	const vt::Parameters parameters("receive_wait", "300");
	const Stranger stranger("right", "10.77.0.1");

	begin(stranger);
	dialed.receive(1);
	std::this_thread::sleep_for(200ms);
	stranger.say(Bytes(whole_send.begin() + 20, whole_send.end()));
	EXPECT_WC(dialed.completion("the message"), 1, IBV_WC_SUCCESS);
}

TEST_F(Headers, OfAMessageThatNobodyReceivesWaitsNoLongerThanThat)
{
	const vt::Parameters parameters("receive_wait", "1");
	const Stranger stranger("right", "10.77.0.1");

	begin(stranger);
	vt::wait_until([&] { return dialed.state() == IBV_QPS_ERR; }, "the message's end");
}

TEST_F(Headers, OfAMessageWaitsNoLongerWhereThePeerHasGone)
{
	const vt::Parameters parameters("receive_wait", "1");

	begin(Stranger("right", "10.77.0.1"));
	vt::wait_until([&] { return dialed.state() == IBV_QPS_ERR; }, "the message's end");
}

TEST_F(Strangers, AConnectedQueuePairIsNotAnswered)
{
	connect_after_all();
	EXPECT_TRUE(is_rejection(ask(request(private_data(truth())))));
	exchange(left, right);
}

} // namespace
