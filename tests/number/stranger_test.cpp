// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a program without RDMA can do to the port that devices listen on.
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/by_number.hpp"
#include "../lib/link.hpp"
#include "../lib/stranger.hpp"

namespace {

using namespace number;
using namespace std::chrono_literals;

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
	/// What the peer says in RTS, and what it says before
	Said truth() const { return {dials.name().qpn, dialed.name().qpn, dials.name().psn}; }
	Said early_truth() const { return {dials.name().qpn, dialed.name().qpn, dialed.name().psn, 0}; }
	/// Is a Request answered at the event that it waits for? The peer of one that is ready has not been named yet,
	/// and that of the other may not send yet. Without an answer then, its wait ends behind that of an older
	/// Request. On a slow machine both may have ended, so there are several attempts.
	bool is_woken(bool ready) const
	{
		for (int attempt = 0; attempt < 10; attempt++) {
			const End end{"kiw0", ipv4.left};
			const Stranger older("right", "10.77.0.1"), waiting("right", "10.77.0.1");
			const std::uint32_t from = dials.name().qpn, to = end.name().qpn;

			if (!ready) {
				EXPECT_EQ(end.rtr(dials.name()), 0);
			}
			older.say(request(private_data({from, to ^ 0x800000, dials.name().psn})));
			std::this_thread::sleep_for(500ms);
			waiting.say(request(private_data(
				ready ? Said{from, to, dials.name().psn} : Said{from, to, end.name().psn, 0})));
			std::this_thread::sleep_for(200ms);
			EXPECT_EQ(ready ? end.rtr(dials.name()) : end.rts(), 0);
			if (is_acceptance(waiting.first(52)) && older.first(1, 0).empty())
				return true;
		}
		return false;
	}
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
	for (std::uint32_t Said::*field : {&Said::from, &Said::to, &Said::psn}) {
		Said wrong = truth();

		wrong.*field ^= 1;
		EXPECT_TRUE(is_rejection(ask(request(private_data(wrong)))));
	}
	// The PSN of one direction is none of the other.
	Said wrong = early_truth();
	wrong.flags = truth().flags;
	EXPECT_TRUE(is_rejection(ask(request(private_data(wrong)))));
	// Neither end may send: there is nothing to tell them by.
	EXPECT_TRUE(is_rejection(ask(request(private_data(early_truth())))));
	connect_after_all();
}

TEST_F(Strangers, GuessesOfAnEndThatIsntReadyAreRejected)
{
	ASSERT_EQ(dialed.rts(), 0);
	for (const std::uint32_t psn : {early_truth().psn ^ 1, truth().psn}) {
		Said wrong = early_truth();

		wrong.psn = psn;
		EXPECT_TRUE(is_rejection(ask(request(private_data(wrong)))));
	}
	dials.connect(dialed.name());
	exchange(left, right);
}

// All rejections are alike, and say the version, whatever is wrong.
TEST_F(Strangers, ARejectionTellsNothing)
{
	const Bytes version{'k', 'i', 'w', 'N', 2, 0, 0, 0};
	Said nobody = truth(), guess = truth();

	nobody.to ^= 0x800000;
	guess.psn ^= 1;
	const Bytes first = ask(request(private_data(nobody)));
	ASSERT_EQ(first.size(), 32U);
	EXPECT_EQ(Bytes(first.begin() + 24, first.end()), version);
	EXPECT_EQ(ask(request(private_data(guess))), first);
	connect_after_all();
	EXPECT_EQ(ask(request(private_data(truth()))), first);
}

TEST_F(Strangers, ARequestIsAnsweredWhenItsPeerIsNamed)
{
	EXPECT_TRUE(is_woken(true));
}

TEST_F(Strangers, ARequestIsAnsweredWhenItsPeerMaySend)
{
	EXPECT_TRUE(is_woken(false));
}

// The Request tells one PSN, and the Reply the other one.
TEST_F(Strangers, TheReplyProvesWhatTheRequestDidntTell)
{
	ASSERT_EQ(dialed.rts(), 0);
	{
		const Stranger stranger("right", "10.77.0.1");

		stranger.say(request(private_data(truth())));
		const Bytes answer = stranger.first(52);
		ASSERT_TRUE(is_acceptance(answer));
		EXPECT_EQ(said(answer).from, dialed.name().qpn);
		EXPECT_EQ(said(answer).to, dials.name().qpn);
		EXPECT_EQ(said(answer).psn, dialed.name().psn);
		EXPECT_EQ(said(answer).nonce, truth().nonce);
	}
	// It hung up before the connection stood.
	{
		const Stranger stranger("right", "10.77.0.1");

		stranger.say(request(private_data(early_truth())));
		const Bytes answer = stranger.first(52);
		ASSERT_TRUE(is_acceptance(answer));
		EXPECT_EQ(said(answer).psn, dials.name().psn);
	}
	dials.connect(dialed.name());
	exchange(left, right);
}

// Whose numbers would be right
TEST_F(Strangers, AnotherVersionIsRejected)
{
	ASSERT_EQ(dialed.rts(), 0);
	for (const std::uint8_t version : {0, 1, 3, 255}) {
		Said other = truth();

		other.version = version;
		EXPECT_TRUE(is_rejection(ask(request(private_data(other))))) << +version;
	}
	// As version 1 was
	Bytes old = private_data(truth());
	old.resize(24);
	old.at(4) = 1;
	EXPECT_TRUE(is_rejection(ask(request(old))));
	EXPECT_TRUE(vt::run("dmesg | grep -q '10.77.0.2.*number in version 1, this kiwarp in version 2'"));
	dials.connect(dialed.name());
	exchange(left, right);
}

TEST_F(Strangers, MalformedDataIsRejected)
{
	const Bytes good = private_data(truth());

	for (const std::size_t at : {0, 4, 5, 6, 7, 8, 12, 16}) {
		Bytes bad = good;
		bad.at(at) ^= 0x80;
		EXPECT_TRUE(is_rejection(ask(request(bad)))) << at;
	}
	for (const std::size_t length : {0, 1, 7, 8, 27, 29, 500}) {
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
	constexpr std::array fields = {&Said::from, &Said::to, &Said::psn};
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
	for (int i = 0; i < 20; i++)
		Stranger("right", "10.77.0.1").say(request(private_data(early_truth())));
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
	// A Send that isn't the last segment, without a CRC
	const Bytes segment{
		0, 24, 0x01, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0};

	dialed.receive(1);
	dialed.receive(2);
	ASSERT_EQ(dialed.rts(), 0);
	{
		const Stranger stranger("right", "10.77.0.1");

		stranger.say(request(private_data(truth())));
		ASSERT_TRUE(is_acceptance(stranger.first(52)));
		stranger.say(rtr_message);
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
		ASSERT_TRUE(is_acceptance(stranger.first(52)));
		stranger.say(rtr_message);
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

// InfiniBand's PSNs would have moved on; a replay of the first Request would place what nobody sent.
TEST_F(Strangers, AQueuePairWhosePeerHasGoneIsNotAnswered)
{
	const Said before = truth();

	connect_after_all();
	dials.renew();
	std::this_thread::sleep_for(300ms);
	EXPECT_TRUE(is_rejection(ask(request(private_data(before)))));
	EXPECT_EQ(dialed.state(), IBV_QPS_RTS);
	ASSERT_EQ(dialed.reset(), 0);
	ASSERT_EQ(dialed.init(), 0);
	dialed.connect(dials.name());
	dials.connect(dialed.name());
	exchange(left, right);
}

/// A program without RDMA binds the port of the end that is dialed, whose link is off.
class Squatters : public testing::TestWithParam<bool> {
protected:
	const vt::LinkOption off{"kiw0", "number", "0"};
	const vt::LinkOption strict{"kiw1", "number", GetParam() ? "2" : "1"};
	End left{"kiw0", ipv4.left}, dials{"kiw1", ipv4.right};
	const Squatter squatter{"left", "10.77.0.1"};

	/// Takes a Request, and sends a Reply; was it believed?
	bool fools(const std::function<Said(const Said &)> &answer) const
	{
		const Stranger peer(squatter.accept());
		const Bytes req = peer.first(52);

		EXPECT_EQ(req.size(), 52U);
		if (req.size() != 52)
			return false;
		peer.say(reply(private_data(answer(said(req)))));
		return !peer.first(20).empty();
	}
};

TEST_P(Squatters, LearnOnePsnAndGuessTheOtherInVain)
{
	ASSERT_EQ(squatter.error(), 0);
	dials.connect(left.name());
	for (int round = 0; round < 4; round++) {
		Said told{};

		EXPECT_FALSE(fools([&](const Said &req) {
			told = req;
			Said rep{.from = req.to, .to = req.from, .psn = req.psn, .nonce = req.nonce};
			switch (round) {
			case 1: // with the right one, for another attempt
				rep.psn = left.name().psn;
				rep.nonce ^= 1;
				break;
			case 2:
				rep.psn = left.name().psn ^ 1;
				break;
			case 3: // none, and a claim of one
				rep.flags = 0;
				break;
			}
			return rep;
		}));
		EXPECT_EQ(told.psn, dials.name().psn);
	}
}

// It says that it isn't ready, as the server of ib_send_bw, which never is. Nothing but the port speaks for it.
TEST_P(Squatters, AreBelievedWithoutAProofUnlessTheLinkWantsOne)
{
	const bool wants_one = GetParam();

	ASSERT_EQ(squatter.error(), 0);
	dials.connect(left.name());
	EXPECT_EQ(fools([](const Said &req) {
		return Said{.from = req.to, .to = req.from, .psn = 0, .flags = 0, .nonce = req.nonce};
	}),
		!wants_one);
}

INSTANTIATE_TEST_SUITE_P(
	Links, Squatters, testing::Bool(), [](const auto &which) { return which.param ? "Strict" : "Plain"; });

/// A process without a module on the left host: its numbers tell the port on which it listens.
class Processes : public testing::Test {
protected:
	static constexpr std::uint16_t own_port = 41000;
	End left{"kiw0", ipv4.left}, dials{"kiw1", ipv4.right};
	Name process = left.name();

	Processes() { process.qpn = own_port << 8 | 3; }
};

TEST_F(Processes, AreDialedAtThePortOfTheirNumber)
{
	const vt::LinkOption off{"kiw0", "number", "0"};
	const Squatter there{"left", "10.77.0.1", own_port};

	ASSERT_EQ(there.error(), 0);
	dials.connect(process);
	// In turn with the port that all hosts know
	for (int round = 0; round < 2; round++) {
		const Stranger peer(there.accept());
		const Bytes req = peer.first(52);

		ASSERT_EQ(req.size(), 52U);
		EXPECT_EQ(said(req).to, process.qpn);
		if (round == 0)
			continue;
		peer.say(reply(private_data(
			{.from = process.qpn, .to = dials.name().qpn, .psn = process.psn, .nonce = said(req).nonce})));
		EXPECT_FALSE(peer.first(20).empty());
	}
}

// Whoever holds the port that the number tells isn't asked.
TEST_F(Processes, AreNotLookedForWhereTheLinkRejects)
{
	const Squatter there{"left", "10.77.0.1", own_port};

	ASSERT_EQ(there.error(), 0);
	dials.connect(process);
	EXPECT_EQ(there.accept(5000), -1);
}

} // namespace
