// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections through rdma_cm: start, refusal, end.
#include <arpa/inet.h>
#include <cerrno>
#include <fstream>
#include <netinet/tcp.h>
#include <numeric>
#include <sstream>
#include <unistd.h>

#include "../lib/connection.hpp"

namespace vt {
namespace {

std::vector<std::uint8_t> octets(std::size_t count)
{
	std::vector<std::uint8_t> data(count);

	std::iota(data.begin(), data.end(), std::uint8_t{1});
	return data;
}

// Around the ends, and where one-octet sums of length and header could wrap.
const std::vector<std::size_t> private_lengths = {
	0, 1, 2, 3, 4, 5, 8, 20, 63, 64, 127, 128, 200, 247, 248, 250, 251, 252, 253, 254, 255};

/// A TCP socket of the server's end, listening on a port of its own or on the one given.
class TcpListener {
public:
	explicit TcpListener(std::uint16_t wanted = 0)
	{
		Where where = server_end();
		const InNamespace inside(where.netns);
		const socklen_t length =
			where.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);

		fd_ = socket(where.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		const int on = 1;
		setsockopt(fd_, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on));
		// As kiwarp's listeners: connections in TIME_WAIT may have the same port.
		setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd_, where.sa(wanted), length) || listen(fd_, 16))
			error = errno;
		sockaddr_storage name{};
		socklen_t size = sizeof(name);
		getsockname(fd_, reinterpret_cast<sockaddr *>(&name), &size);
		port = ntohs(reinterpret_cast<sockaddr_in *>(&name)->sin_port);
	}
	~TcpListener()
	{
		for (const int fd : taken_)
			close(fd);
		close(fd_);
	}
	/// Takes the next connection, and returns what its SYN was, from the IP header on. The connection stays:
	/// callers without an answer try again.
	std::vector<std::uint8_t> next_syn()
	{
		std::vector<std::uint8_t> syn(200);
		socklen_t size = syn.size();
		wait_readable(fd_, "a connection");
		taken_.push_back(::accept(fd_, nullptr, nullptr));
		if (getsockopt(taken_.back(), IPPROTO_TCP, TCP_SAVED_SYN, syn.data(), &size))
			fail("TCP_SAVED_SYN", errno);
		syn.resize(size);
		return syn;
	}
	TcpListener(const TcpListener &) = delete;
	TcpListener &operator=(const TcpListener &) = delete;

	int error = 0;
	std::uint16_t port = 0;

private:
	int fd_ = -1;
	std::vector<int> taken_;
};

TEST(Connect, PrivateDataOfEveryLengthBothWays)
{
	Listener listener;

	for (const std::size_t length : private_lengths) {
		SCOPED_TRACE(length);
		Options options;
		options.request_data = octets(length);
		const auto a = start_connecting(listener.port(), options);
		auto [id, request] = listener.request();
		// rdma_cm may pad with zeros, never add anything else.
		EXPECT_EQ(request.private_data, octets(length));
		Side b(std::move(id), listener.shared_events(), options);
		const std::vector<std::uint8_t> reply = octets(length);
		rdma_conn_param param = parameters(reply, 16);
		ASSERT_EQ(rdma_accept(b.id(), &param), 0);
		const Event established = a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id());
		EXPECT_EQ(established.private_data, reply);
		EXPECT_EQ(established.status, 0);
		b.events().wait(RDMA_CM_EVENT_ESTABLISHED, b.id());
	}
}

TEST(Connect, RejectionWithPrivateDataOfEveryLength)
{
	Listener listener;

	for (const std::size_t length : private_lengths) {
		SCOPED_TRACE(length);
		const auto a = start_connecting(listener.port(), {});
		const auto [id, request] = listener.request();
		const std::vector<std::uint8_t> reason = octets(length);
		ASSERT_EQ(rdma_reject(id.get(), reason.data(), static_cast<std::uint8_t>(length)), 0);
		const Event event = a->events().wait(RDMA_CM_EVENT_REJECTED, a->id());
		EXPECT_EQ(event.private_data, reason);
		EXPECT_NE(event.status, 0);
	}
}

TEST(Connect, RequestTellsTheDepths)
{
	Listener listener;
	Options options;
	options.reads = 5;
	const auto a = start_connecting(listener.port(), options);
	const auto [id, request] = listener.request();

	EXPECT_EQ(request.responder_resources, 5);
	EXPECT_EQ(request.initiator_depth, 5);
	EXPECT_EQ(rdma_reject(id.get(), nullptr, 0), 0);
	a->events().wait(RDMA_CM_EVENT_REJECTED, a->id());
}

TEST(Connect, AddressesAreKnownAtBothEnds)
{
	bool same_port = false;

	// TCP gives another port than rdma_cm's if a connection, perhaps in TIME_WAIT, has that one.
	for (int tries = 0; tries < 10 && !same_port; tries++) {
		Pair pair;

		EXPECT_EQ(rdma_get_dst_port(pair.a().id()), rdma_get_src_port(pair.b().id()));
		EXPECT_EQ(rdma_get_peer_addr(pair.b().id())->sa_family, rdma_get_local_addr(pair.a().id())->sa_family);
		same_port = rdma_get_src_port(pair.a().id()) == rdma_get_dst_port(pair.b().id());
	}
	EXPECT_TRUE(same_port);
}

/// Connections of the client's end that TCP could not make
std::uint64_t failed_attempts()
{
	const InNamespace inside(client_end().netns);
	std::ifstream counters("/proc/thread-self/net/snmp");
	std::string names, values, name;
	std::uint64_t value = 0;

	while (std::getline(counters, names) && std::getline(counters, values)) {
		std::istringstream name_of(names), value_of(values);

		name_of >> name;
		value_of >> name;
		if (name != "Tcp:")
			continue;
		while (name_of >> name && value_of >> value)
			if (name == "AttemptFails")
				return value;
	}
	ADD_FAILURE() << "no AttemptFails";
	return 0;
}

// A listener may be about to come: TCP's refusal is believed when it came four times.
TEST(Connect, NobodyListensMeansRejected)
{
	std::uint16_t unused = 0;
	{
		const TcpListener listener;
		unused = listener.port;
	}
	const std::uint64_t before = failed_attempts();
	const auto a = start_connecting(unused, {});
	const Event event = a->events().wait(RDMA_CM_EVENT_REJECTED, a->id());
	EXPECT_EQ(event.status, -ECONNREFUSED);
	EXPECT_TRUE(event.private_data.empty());
	EXPECT_EQ(failed_attempts() - before, 4);
}

TEST(Connect, TypeOfServiceIsOnTheWire)
{
	TcpListener mute;

	for (const std::uint8_t wanted : {0x00, 0x28, 0xb8}) {
		const auto a = start_connecting(mute.port, {.type_of_service = wanted});
		const auto syn = mute.next_syn();
		ASSERT_GE(syn.size(), 40);
		// Behind the version, the traffic class of IPv6; the second octet of IPv4
		EXPECT_EQ(syn[0] >> 4 == 6 ? (syn[0] << 4 | syn[1] >> 4) & 0xff : syn[1], wanted);
	}
}

TEST(Connect, AttemptAtAMutePeerCanBeGivenUp)
{
	const TcpListener mute;

	for (int i = 0; i < 10; i++) {
		const auto a = start_connecting(mute.port, {});
		a->receive_empty(2);
	}
}

TEST(Connect, QpCanBeDestroyedWhileConnecting)
{
	const TcpListener mute;
	const auto a = start_connecting(mute.port, {});

	a->destroy_qp();
}

TEST(Connect, QpCanBeDestroyedBetweenTwoAttempts)
{
	for (int i = 0; i < 20; i++) {
		std::uint16_t unused = 0;
		{
			const TcpListener listener;
			unused = listener.port;
		}
		const auto a = start_connecting(unused, {});

		// The pauses take 42 ms together.
		usleep(static_cast<useconds_t>(i) * 2000);
		a->destroy_qp();
	}
}

TEST(Connect, ErrorEndsTheAttempt)
{
	const TcpListener mute;
	const auto a = start_connecting(mute.port, {});

	a->receive_empty(1);
	ASSERT_EQ(a->modify(IBV_QPS_ERR), 0);
	EXPECT_WC(a->received(), 0, IBV_WC_WR_FLUSH_ERR);
	EXPECT_NE(a->events().wait_any(a->id()).type, RDMA_CM_EVENT_ESTABLISHED);
}

TEST(Connect, QueuePairWithANamedPeerIsRefused)
{
	const Listener listener;
	Caller caller(listener.port());
	Side side(std::move(caller.id), caller.events, {});
	ibv_qp_attr attr{};

	// Any address of this end will do, for another queue pair than its own.
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = side.qp()->qp_num ^ 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = 1;
	ASSERT_EQ(ibv_query_gid(side.context(), 1, 1, &attr.ah_attr.grh.dgid), 0);
	ASSERT_EQ(ibv_modify_qp(side.qp(), &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		0);
	rdma_conn_param param = parameters({}, 1);
	EXPECT_NE(rdma_connect(side.id(), &param), 0);
	EXPECT_EQ(errno, EISCONN);
	EXPECT_EQ(side.state(), IBV_QPS_RTR);
}

TEST(Connect, CallerThatLeavesBeforeTheAnswer)
{
	Listener listener;

	for (int i = 0; i < 10; i++) {
		auto a = start_connecting(listener.port(), {});
		auto [id, request] = listener.request();
		a.reset();
		Side b(std::move(id), listener.shared_events(), {});
		rdma_conn_param param = parameters({}, 1);
		// Either it is known by now, or an event tells.
		if (rdma_accept(b.id(), &param) == 0) {
			Event event = b.events().wait_any(b.id());
			if (event.type == RDMA_CM_EVENT_ESTABLISHED)
				event = b.events().wait_any(b.id());
			EXPECT_NE(event.type, RDMA_CM_EVENT_ESTABLISHED);
		}
	}
}

TEST(Connect, ListenerCanGoWithRequestsPending)
{
	for (int i = 0; i < 5; i++) {
		std::vector<std::unique_ptr<Side>> callers;
		{
			Listener listener;
			for (int n = 0; n < 4; n++)
				callers.push_back(start_connecting(listener.port(), {}));
			listener.request();
		}
		for (const auto &caller : callers)
			EXPECT_NE(caller->events().wait_any(caller->id()).type, RDMA_CM_EVENT_ESTABLISHED);
	}
}

TEST(Connect, ConnectionOutlivesItsListener)
{
	auto listener = std::make_unique<Listener>();
	const auto a = start_connecting(listener->port(), {});
	const auto b = accept(*listener, {});

	a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id());
	b->events().wait(RDMA_CM_EVENT_ESTABLISHED, b->id());
	listener.reset();
	b->receive_empty(1);
	ASSERT_EQ(a->send(), 0);
	EXPECT_EQ(b->received().status, IBV_WC_SUCCESS);
}

TEST(Connect, PortCannotBeListenedOnTwice)
{
	const Listener listener;
	Where where = server_end();
	const InNamespace inside(where.netns);
	const EventChannel events;
	rdma_cm_id *raw = nullptr;

	ASSERT_EQ(rdma_create_id(events.get(), &raw, nullptr, RDMA_PS_TCP), 0);
	const Id id(raw);
	const bool bound = rdma_bind_addr(id.get(), where.sa(listener.port())) == 0;
	if (bound) {
		EXPECT_NE(rdma_listen(id.get(), 1), 0);
	}
	EXPECT_EQ(errno, EADDRINUSE);
}

TEST(Connect, PortIsATcpPortOfTheSystem)
{
	const TcpListener tcp;
	Where where = server_end();
	const InNamespace inside(where.netns);
	const EventChannel events;
	rdma_cm_id *raw = nullptr;

	ASSERT_EQ(rdma_create_id(events.get(), &raw, nullptr, RDMA_PS_TCP), 0);
	const Id id(raw);
	ASSERT_EQ(rdma_bind_addr(id.get(), where.sa(tcp.port)), 0);
	EXPECT_NE(rdma_listen(id.get(), 1), 0);
	EXPECT_EQ(errno, EADDRINUSE);

	const Listener listener;
	EXPECT_EQ(TcpListener(listener.port()).error, EADDRINUSE);
}

TEST(Connect, PortIsFreeAgainAfterTheListener)
{
	std::uint16_t port = 0;
	{
		const Listener listener;
		port = listener.port();
	}
	EXPECT_EQ(TcpListener(port).error, 0);
}

TEST(Connect, WildcardListenerServes)
{
	Where where = server_end();
	auto events = std::make_shared<EventChannel>();
	Id listener;
	{
		const InNamespace inside(where.netns);
		rdma_cm_id *raw = nullptr;
		ASSERT_EQ(rdma_create_id(events->get(), &raw, nullptr, RDMA_PS_TCP), 0);
		listener.reset(raw);
	}
	sockaddr_storage any{};
	any.ss_family = where.address.ss_family;
	ASSERT_EQ(rdma_bind_addr(listener.get(), reinterpret_cast<sockaddr *>(&any)), 0);
	ASSERT_EQ(rdma_listen(listener.get(), 4), 0);
	const auto a = start_connecting(ntohs(rdma_get_src_port(listener.get())), {});
	const Event request = events->wait(RDMA_CM_EVENT_CONNECT_REQUEST);
	const Side b(Id(request.id), events, {});
	rdma_conn_param param = parameters({}, 1);
	ASSERT_EQ(rdma_accept(b.id(), &param), 0);
	a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id());
	events->wait(RDMA_CM_EVENT_ESTABLISHED, b.id());
}

class Disconnect : public testing::Test {
protected:
	void expect_the_end()
	{
		for (Side *side : {&pair.a(), &pair.b()}) {
			side->wait_disconnected();
			for (int i = 0; i < 4; i++)
				EXPECT_WC(side->received(), i, IBV_WC_WR_FLUSH_ERR);
			EXPECT_NE(side->state(), IBV_QPS_RTS);
			EXPECT_TRUE(poll_all(side->recv_cq()).empty());
			EXPECT_TRUE(poll_all(side->send_cq()).empty());
		}
	}

	void SetUp() override
	{
		pair.sync();
		pair.a().receive_empty(4);
		pair.b().receive_empty(4);
	}

	Pair pair;
};

TEST_F(Disconnect, ByTheCaller)
{
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	expect_the_end();
}

TEST_F(Disconnect, ByTheListener)
{
	ASSERT_EQ(rdma_disconnect(pair.b().id()), 0);
	expect_the_end();
}

TEST_F(Disconnect, ByBoth)
{
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	(void)rdma_disconnect(pair.b().id()); // may come too late
	expect_the_end();
}

TEST(Connect, SixtyFourAtOnce)
{
	constexpr int count = 64;
	Listener listener;
	Options options;
	options.cap.max_send_wr = options.cap.max_recv_wr = 4;
	options.cq_entries = 16;
	std::vector<std::unique_ptr<Side>> callers;
	std::vector<std::unique_ptr<Side>> servers;

	for (int i = 0; i < count; i++) {
		options.request_data = {static_cast<std::uint8_t>(i)};
		callers.push_back(start_connecting(listener.port(), options));
	}
	servers.resize(count);
	for (int i = 0; i < count; i++) {
		auto [id, request] = listener.request();
		ASSERT_EQ(request.private_data.size(), 1);
		auto &server = servers.at(request.private_data[0]);
		ASSERT_EQ(server, nullptr);
		server = std::make_unique<Side>(std::move(id), listener.shared_events(), options);
		rdma_conn_param param = parameters({}, 1);
		ASSERT_EQ(rdma_accept(server->id(), &param), 0);
	}
	for (int i = 0; i < count; i++) {
		callers[i]->events().wait(RDMA_CM_EVENT_ESTABLISHED, callers[i]->id());
		servers[i]->events().wait(RDMA_CM_EVENT_ESTABLISHED, servers[i]->id());
		const Region from(callers[i]->pd(), 1000);
		const Region to(servers[i]->pd(), 1000);
		from.fill_pattern(static_cast<std::uint32_t>(i));
		ASSERT_EQ(servers[i]->receive({to.sge()}), 0);
		ASSERT_EQ(callers[i]->send({from.sge()}), 0);
		EXPECT_EQ(servers[i]->received().status, IBV_WC_SUCCESS);
		EXPECT_TRUE(same(from.bytes(), to.bytes()));
		EXPECT_EQ(callers[i]->sent().status, IBV_WC_SUCCESS);
	}
}

// Programs with several QPs take the first request for that of the first QP.
TEST(Connect, RequestsComeInTheOrderOfTheCalls)
{
	constexpr std::uint8_t count = 32;
	const Listener listener;
	std::vector<std::unique_ptr<Side>> callers;
	std::vector<Id> requested;

	for (int i = 0; i < count; i++) {
		Caller caller(listener.port());
		callers.push_back(std::make_unique<Side>(std::move(caller.id), caller.events, Options{}));
	}
	for (std::uint8_t i = 0; i < count; i++) {
		const std::vector number{i};
		rdma_conn_param param = parameters(number, 1);
		ASSERT_EQ(rdma_connect(callers[i]->id(), &param), 0);
	}
	for (std::uint8_t i = 0; i < count; i++) {
		auto [id, request] = listener.request();
		ASSERT_EQ(request.private_data.size(), 1);
		EXPECT_EQ(request.private_data[0], i);
		requested.push_back(std::move(id));
	}
}

TEST(Connect, SmallBacklogLosesNobodyForGood)
{
	constexpr int count = 32;
	Listener listener(1);
	std::vector<std::unique_ptr<Side>> callers;
	std::vector<std::unique_ptr<Side>> servers;

	for (int i = 0; i < count; i++)
		callers.push_back(start_connecting(listener.port(), {}));
	int established = 0;
	int refused = 0;
	wait_until(
		[&] {
			if (const auto request = listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST)) {
				servers.push_back(
					std::make_unique<Side>(Id(request->id), listener.shared_events(), Options{}));
				rdma_conn_param param = parameters({}, 1);
				EXPECT_EQ(rdma_accept(servers.back()->id(), &param), 0);
			}
			for (const auto &caller : callers) {
				if (!readable(caller->events().get()->fd))
					continue;
				const Event event = caller->events().wait_any(caller->id());
				(event.type == RDMA_CM_EVENT_ESTABLISHED ? established : refused)++;
			}
			return established + refused == count;
		},
		"an answer to every caller");
	EXPECT_GT(established, 0);
	EXPECT_EQ(established, static_cast<int>(servers.size()));
}

TEST(Connect, ManyInARow)
{
	for (int i = 0; i < 100; i++) {
		Pair pair;
		pair.sync();
	}
}

} // namespace
} // namespace vt
