// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Listeners: their namespaces, the order of their requests, and sockets that other programs end, hold or take. The
// module sockets.ko (tests/life/sockets) does what an administrator or a BPF program does.
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <list>
#include <netinet/tcp.h>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"

namespace vt {
namespace {

std::string module_command(const Where &where, const std::string &what, std::uint16_t port, bool listening)
{
	return in(where) + "insmod /usr/lib/kiwarp/guest/sockets.ko what=" + what + " port=" + std::to_string(port) +
	       " listening=" + (listening ? "1" : "0");
}

/// How often the module did what it was loaded for; -1 if it isn't loaded.
int done()
{
	std::ifstream file("/sys/module/sockets/parameters/done");
	int times = -1;

	file >> times;
	return file ? times : -1;
}

/// Ends a socket, as `ss -K` does. Loading the module fails even so.
void end_socket(const Where &where, std::uint16_t port, bool listening)
{
	if (!run(module_command(where, "kill", port, listening) + " 2>&1 | grep -q 'temporarily unavailable'"))
		fail("the socket couldn't be ended");
}

/// Ends the connection's socket at the client's end. Only the peer knows the port that TCP gave it.
void end_initiator(Pair &pair)
{
	end_socket(client_end(), ntohs(rdma_get_dst_port(pair.b().id())), false);
}

/// A socket of the client's end that speaks as little MPA as it likes.
class Raw {
public:
	explicit Raw(std::uint16_t port) : Raw()
	{
		if (connect(fd_, to_.sa(port), length_))
			fail("connect", errno);
	}
	~Raw() { close(fd_); }
	Raw(const Raw &) = delete;
	Raw &operator=(const Raw &) = delete;

	/// A Request of revision 1, with one octet of private data.
	static std::vector<std::uint8_t> request(std::uint8_t number)
	{
		std::vector<std::uint8_t> frame;
		for (const char c : std::string("MPA ID Req Frame"))
			frame.push_back(static_cast<std::uint8_t>(c));
		for (const int octet : {0x40, 1, 0, 1, int{number}})
			frame.push_back(static_cast<std::uint8_t>(octet));
		return frame;
	}
	void say(const std::vector<std::uint8_t> &octets) const
	{
		if (send(fd_, octets.data(), octets.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(octets.size()))
			fail("send", errno);
	}
	/// Connects, with data in the SYN (TCP Fast Open); waits for nothing.
	static std::unique_ptr<Raw> with_syn(std::uint16_t port, const std::vector<std::uint8_t> &octets)
	{
		std::unique_ptr<Raw> raw(new Raw());
		const ssize_t n = sendto(raw->fd_, octets.data(), octets.size(),
			MSG_FASTOPEN | MSG_DONTWAIT | MSG_NOSIGNAL, raw->to_.sa(port), raw->length_);
		if (n < 0 && errno != EINPROGRESS)
			fail("sendto", errno);
		return raw;
	}
	std::uint16_t port() const
	{
		sockaddr_storage name{};
		socklen_t size = sizeof(name);
		getsockname(fd_, reinterpret_cast<sockaddr *>(&name), &size);
		return ntohs(reinterpret_cast<sockaddr_in *>(&name)->sin_port);
	}

private:
	Raw() : to_(server_end())
	{
		Where from = client_end();
		const InNamespace inside(from.netns);
		to_.seen_from(from);
		length_ = to_.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
		fd_ = socket(to_.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd_ < 0 || bind(fd_, from.sa(0), length_))
			fail("socket", errno);
	}

	Where to_;
	socklen_t length_ = 0;
	int fd_ = -1;
};

// --- order ----------------------------------------------------------------------------------------

std::uint8_t number_of(const Event &request)
{
	return request.private_data.empty() ? 0 : request.private_data[0];
}

/// Three connections, the last of which sends its Request first: the order in which the listener is told of them
std::vector<int> told_in_order(const Listener &listener)
{
	const Raw first(listener.port());
	const Raw second(listener.port());
	const Raw third(listener.port());
	std::vector<Id> ids;
	std::vector<int> order;

	third.say(Raw::request(3));
	second.say(Raw::request(2));
	first.say(Raw::request(1));
	for (int i = 0; i < 3; i++) {
		auto [id, request] = listener.request();
		order.push_back(number_of(request));
		ids.push_back(std::move(id));
	}
	return order;
}

TEST(Order, IsThatOfTheConnectionsNotOfTheirRequests)
{
	const Listener listener;
	int right = 0;

	// A Request that comes later than those of other connections by more than a moment isn't waited for: the
	// process is sometimes kept from running in between.
	for (int i = 0; i < 20; i++)
		right += told_in_order(listener) == std::vector<int>{1, 2, 3};
	EXPECT_GE(right, 15);
}

TEST(Order, SilentConnectionsCostTheOthersNothing)
{
	const Parameters patient("mpa_timeout", "100");
	const Listener listener;
	std::vector<std::unique_ptr<Raw>> silent;
	const auto begin = std::chrono::steady_clock::now();

	for (int i = 0; i < 20; i++) {
		silent.push_back(std::make_unique<Raw>(listener.port()));
		const Raw speaks(listener.port());

		speaks.say(Raw::request(2));
		const auto [id, request] = listener.request();
		EXPECT_EQ(number_of(request), 2);
	}
	// Half a second for each would be 10 s.
	EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
}

// --- namespaces -----------------------------------------------------------------------------------

/// Listens on the wildcard; retries are the caller's.
class Anywhere {
public:
	Anywhere(const Where &where, std::uint16_t port) : events(std::make_shared<EventChannel>())
	{
		const InNamespace inside(where.netns);
		rdma_cm_id *raw = nullptr;
		sockaddr_in any{};

		if (rdma_create_id(events->get(), &raw, nullptr, RDMA_PS_TCP))
			fail("rdma_create_id", errno);
		id.reset(raw);
		any.sin_family = AF_INET;
		any.sin_port = htons(port);
		if (rdma_bind_addr(raw, reinterpret_cast<sockaddr *>(&any)) || rdma_listen(raw, 4))
			error = errno;
	}

	std::shared_ptr<EventChannel> events;
	Id id;
	int error = 0;
};

TEST(Wildcard, ListensInItsOwnNamespaceOnly)
{
	constexpr std::uint16_t port = 4711;
	if (client_end().netns.empty() || client_end().address.ss_family != AF_INET)
		GTEST_SKIP() << "needs two namespaces and IPv4";
	const Where here = server_end();
	const Where there = client_end();

	const Anywhere one(here, port);
	ASSERT_EQ(one.error, 0);
	EXPECT_EQ(tcp_listeners(here, port), 1);
	EXPECT_EQ(tcp_listeners(there, port), 0);
	const Anywhere other(there, port);
	EXPECT_EQ(other.error, 0);
	EXPECT_EQ(tcp_listeners(here, port), 1);
	EXPECT_EQ(tcp_listeners(there, port), 1);

	// A further device belongs to one of them; rdma_cm tells it of both.
	ASSERT_TRUE(run("ip -n " + here.netns + " link add kiwt0 type dummy && ip -n " + here.netns +
			" link set kiwt0 up && " + in(here) + "rdma link add kiwt type kiwarp netdev kiwt0"));
	EXPECT_EQ(tcp_listeners(here, port), 2);
	EXPECT_EQ(tcp_listeners(there, port), 1);
	EXPECT_TRUE(run("ip -n " + here.netns + " link delete kiwt0"));
	wait_until([&] { return tcp_listeners(here, port) == 1; }, "the device's listener to go");

	// And each serves its own.
	const auto caller = start_connecting(port, {});
	const Event request = one.events->wait(RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_reject(request.id, nullptr, 0), 0);
	EXPECT_EQ(rdma_destroy_id(request.id), 0);
	caller->events().wait(RDMA_CM_EVENT_REJECTED, caller->id());
	EXPECT_FALSE(other.events->poll(RDMA_CM_EVENT_CONNECT_REQUEST));
}

// --- others at our sockets ------------------------------------------------------------------------

TEST(EndedFromOutside, ListenerStaysDestroyable)
{
	std::uint16_t port = 0;
	{
		const Listener listener;
		port = listener.port();
		end_socket(server_end(), port, true);
		const auto caller = start_connecting(port, {});
		EXPECT_EQ(caller->events().wait_any(caller->id()).status, -ECONNREFUSED);
		// The port is somebody else's to take, though the id is there.
		Where where = server_end();
		const InNamespace inside(where.netns);
		const int fd = socket(where.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		// Connections in TIME_WAIT may have the same port; a listener is an obstacle all the same.
		const int on = 1;
		ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
		wait_until(
			[&] {
				return bind(fd, where.sa(port),
					       where.address.ss_family == AF_INET ? sizeof(sockaddr_in)
										  : sizeof(sockaddr_in6)) == 0;
			},
			"the port");
		close(fd);
	}
	Pair pair;
	pair.sync();
}

TEST(EndedFromOutside, ConnectionIsLost)
{
	Pair pair;

	pair.a().receive_empty(2);
	pair.b().receive_empty(2);
	end_initiator(pair);
	for (Side *side : {&pair.a(), &pair.b()}) {
		EXPECT_WC(side->received(), 0, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(side->received(), 1, IBV_WC_WR_FLUSH_ERR);
		side->wait_disconnected();
	}
	pair.a().wait_state(IBV_QPS_ERR);
}

// A message waits for a receive request, for longer than this test does.
TEST(EndedFromOutside, ConnectionIsLostThoughAMessageWaits)
{
	const Parameters patient("receive_wait", "300");
	Pair pair;

	pair.sync();
	ASSERT_EQ(pair.a().send(), 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	end_initiator(pair);
	pair.b().wait_disconnected();
	pair.b().wait_state(IBV_QPS_ERR);
}

TEST(EndedFromOutside, ConnectionIsLostAfterAMessageHasWaited)
{
	const Parameters patient("receive_wait", "300");
	Pair pair;

	ASSERT_EQ(pair.a().send(), 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	pair.b().receive_empty(1);
	EXPECT_WC(pair.b().received(), 0, IBV_WC_SUCCESS);
	end_initiator(pair);
	pair.b().wait_disconnected();
	pair.b().wait_state(IBV_QPS_ERR);
}

TEST(EndedFromOutside, ConnectionWithoutARequestIsForgotten)
{
	const Parameters patient("mpa_timeout", "100");
	const Listener listener;
	const Raw raw(listener.port());

	end_socket(client_end(), raw.port(), false);
	const auto caller = start_connecting(listener.port(), {});
	EXPECT_NE(listener.request().first, nullptr);
}

/// A process that holds the lock of a connection the listener has accepted; none if that connection went before.
std::optional<pid_t> hold_a_connection(std::uint16_t port)
{
	const pid_t holder = fork();

	// The accepted end is what has the listener's port there.
	if (!holder) {
		const std::string all = "exec " + module_command(server_end(), "hold", port, false);
		execl("/bin/sh", "sh", "-c", all.c_str(), nullptr);
		_exit(1);
	}
	bool ended = false;
	wait_until(
		[&] {
			ended = ended || waitpid(holder, nullptr, WNOHANG) == holder;
			return ended || done() == 1;
		},
		"the lock to be held");
	return ended ? std::nullopt : std::optional(holder);
}

// A kernel thread that was stuck there would serve nobody else.
TEST(Held, SocketStopsNobodyElse)
{
	const Parameters impatient("mpa_timeout", "1");
	Listener listener;
	std::list<Raw> raws;
	std::optional<pid_t> holder;

	// The module may take longer to load than the connection lasts.
	for (int i = 0; i < 20 && !holder; i++) {
		raws.emplace_back(listener.port());
		holder = hold_a_connection(listener.port());
	}
	ASSERT_TRUE(holder);
	const std::uint64_t late = counter(server_device(), "mpa_timeouts");
	wait_until([&] { return counter(server_device(), "mpa_timeouts") > late; }, "the time-out of a Request");
	{
		Pair pair;
		pair.sync();
	}
	EXPECT_EQ(done(), 1);
	EXPECT_EQ(kill(*holder, SIGTERM), 0);
	EXPECT_EQ(waitpid(*holder, nullptr, 0), *holder);
}

TEST(Taken, SocketIsResetNotShared)
{
	Listener listener;
	ASSERT_TRUE(run(module_command(server_end(), "take", listener.port(), true)));
	const std::uint64_t rejects = counter(server_device(), "mpa_rejects");
	{
		const auto caller = start_connecting(listener.port(), {});
		EXPECT_NE(caller->events().wait_any(caller->id()).type, RDMA_CM_EVENT_ESTABLISHED);
	}
	EXPECT_GT(done(), 0);
	wait_until([&] { return counter(server_device(), "mpa_rejects") > rejects; }, "the rejection to be counted");
	EXPECT_FALSE(listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST));
	ASSERT_TRUE(run("rmmod sockets"));
	const auto caller = start_connecting(listener.port(), {});
	const auto side = accept(listener, {});
	caller->events().wait(RDMA_CM_EVENT_ESTABLISHED, caller->id());
	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
}

// --- a peer that isn't there ----------------------------------------------------------------------

/// TCP of both ends takes data with a SYN, also for listeners that didn't ask for it, and without a cookie.
class FastOpen : public testing::Test {
protected:
	FastOpen() { set("0x607"); }
	~FastOpen() override { set("1"); }
	static void set(const std::string &bits)
	{
		for (const Where &where : {client_end(), server_end()})
			EXPECT_TRUE(run(in(where) + "sysctl -qw net.ipv4.tcp_fastopen=" + bits));
	}
};

TEST_F(FastOpen, RequestInTheSynIsGood)
{
	const Listener listener;
	const auto raw = Raw::with_syn(listener.port(), Raw::request(9));
	const auto [id, request] = listener.request();

	EXPECT_EQ(number_of(request), 9);
	EXPECT_EQ(rdma_reject(id.get(), nullptr, 0), 0);
}

// Without the handshake anybody can be the sender.
TEST_F(FastOpen, RequestWithoutAHandshakeIsNotTold)
{
	if (client_end().netns.empty())
		GTEST_SKIP() << "needs a link of its own";
	const Parameters patient("mpa_timeout", "100");
	const Listener listener;
	std::uint16_t port = 0;
	{
		// The caller hears nothing and has gone when it does: the server's TCP then learns that there is
		// nobody.
		const HeldBack answers(server_end(), "netem loss 100%");
		const auto raw = Raw::with_syn(listener.port(), Raw::request(1));
		port = raw->port();
		wait_until([&] { return tcp_state(server_end(), port) == tcp_syn_recv; }, "a connection");
	}
	wait_until([&] { return tcp_state(server_end(), port) == 0; }, "the connection to go");
	EXPECT_FALSE(listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST));
}

TEST(Keepalive, FindsAPeerThatIsGone)
{
	if (client_end().netns.empty())
		GTEST_SKIP() << "needs a link of its own";
	const Parameters asked("keepalive", "1");
	Pair pair;

	pair.sync();
	const HeldBack lost(client_end(), "netem loss 100%");
	for (Side *side : {&pair.a(), &pair.b()}) {
		EXPECT_NO_THROW(side->wait_disconnected());
		EXPECT_EQ(side->state(), IBV_QPS_ERR);
	}
}

} // namespace
} // namespace vt
