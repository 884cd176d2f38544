// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A child of fork(2) that goes on with rdma_cm and verbs, though its parent keeps the devices open: librdmacm opens
// each once for a process, and gives the child what the parent had opened.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <optional>
#include <rdma/rsocket.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"
#include "child.hpp"

namespace vt {

namespace {

constexpr std::size_t size = 100000;

/// Writes, sends and receives over a pair of the calling process.
void expect_traffic(Pair &pair)
{
	const Region from(pair.a().pd(), size);
	const Region to(pair.b().pd(), size);

	from.fill_pattern(1);
	ASSERT_EQ(pair.b().receive({to.sge()}, 1), 0);
	ASSERT_EQ(pair.a().send({from.sge()}, {.id = 1}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
	from.fill_pattern(2);
	ASSERT_EQ(pair.a().write({from.sge()}, {.id = 2, .remote = to.address(), .rkey = to.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

bool traffic_of_its_own(const Options &options = {})
{
	Pair pair(options);

	expect_traffic(pair);
	return true;
}

/// Whether a process holds objects of a kind
bool has_objects(const std::string &kind, pid_t process)
{
	return run("rdma resource show " + kind + " | grep -q 'pid " + std::to_string(process) + " '");
}

TEST(Fork, ChildConnects)
{
	Pair pair;

	EXPECT_EQ(forked([] { return traffic_of_its_own(); }), 0);
	expect_traffic(pair);
	// Another one begins as the first did.
	EXPECT_EQ(forked([] { return traffic_of_its_own() && traffic_of_its_own(); }), 0);
	expect_traffic(pair);
}

TEST(Fork, GrandchildConnects)
{
	Pair pair;

	EXPECT_EQ(forked([] { return forked([] { return traffic_of_its_own(); }) == 0; }), 0);
	EXPECT_EQ(forked([] {
		Pair own;

		expect_traffic(own);
		const int status = forked([] { return traffic_of_its_own(); });
		expect_traffic(own);
		return status == 0;
	}),
		0);
	expect_traffic(pair);
}

TEST(Fork, ChildHasWhatItMakesForItself)
{
	Pair pair;
	const std::size_t before = pinned();
	std::array<int, 2> go{};
	std::array<int, 2> made{};
	ASSERT_EQ(pipe2(go.data(), O_CLOEXEC), 0);
	ASSERT_EQ(pipe2(made.data(), O_CLOEXEC), 0);

	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		char octet = 0;
		const std::size_t mine = pinned();
		// In the parent's protection domain, as far as the program can tell
		const Region region(pair.a().pd(), size);
		const Cq cq = make_cq(pair.a().context(), 10);
		const Srq srq = make_srq(pair.a().pd(), 10);
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq.get();
		init.srq = srq.get();
		init.cap = {.max_send_wr = 1, .max_send_sge = 1};
		init.qp_type = IBV_QPT_RC;
		const Qp qp(ibv_create_qp(pair.a().pd(), &init));
		const bool good = qp && pinned() >= mine + size;

		(void)!write(made[1], good ? "y" : "n", 1);
		// It is killed here.
		close(go[1]);
		(void)!read(go[0], &octet, 1);
		_exit(1);
	}
	char good = 0;
	ASSERT_EQ(read(made[0], &good, 1), 1);
	EXPECT_EQ(good, 'y');
	EXPECT_EQ(pinned(), before);
	for (const char *kind : {"mr", "cq", "qp"})
		EXPECT_TRUE(has_objects(kind, child)) << kind;
	EXPECT_EQ(kill(child, SIGKILL), 0);
	int status = 0;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	// They have gone with the child, while the parent's file is open.
	for (const char *kind : {"mr", "cq", "qp"})
		wait_until([&] { return !has_objects(kind, child); }, std::string("the end of a child's ") + kind);
	expect_traffic(pair);
	for (const int end : {go[0], go[1], made[0], made[1]})
		close(end);
}

TEST(Fork, EventsComeToTheProcessWhoseTheyAre)
{
	Options options;
	options.completion_channel = true;
	Pair pair(options);
	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);

	EXPECT_EQ(forked([&] {
		// Once with channels that are new, and once with one that is inherited
		for (ibv_comp_channel *inherited : {static_cast<ibv_comp_channel *>(nullptr), pair.b().channel()}) {
			Pair own(options);
			const Cq cq = make_cq(own.b().context(), 10, inherited ? inherited : own.b().channel());

			if (ibv_req_notify_cq(own.b().recv_cq(), 0))
				return false;
			own.sync();
			if (take_event(own.b()) != own.b().recv_cq())
				return false;
			if (inherited && readable(inherited->fd))
				return false;
		}
		// An asynchronous one: a queue pair without receives of its own used its last.
		const Srq srq = make_srq(pair.b().pd(), 1);
		Options with_srq;
		with_srq.srq = srq.get();
		Pair own({}, with_srq);
		if (own.b().modify(IBV_QPS_ERR))
			return false;
		const ibv_async_event event = wait_async(own.b().context(),
			[](const ibv_async_event &one) { return one.event_type == IBV_EVENT_QP_LAST_WQE_REACHED; });
		return event.element.qp == own.b().qp();
	}),
		0);
	EXPECT_FALSE(readable(pair.b().context()->async_fd));
	EXPECT_FALSE(readable(pair.b().channel()->fd));
	pair.sync();
	EXPECT_EQ(take_event(pair.b()), pair.b().recv_cq());
}

TEST(Fork, ChildOfAThreadFindsNoLockHeld)
{
	Pair pair;
	std::atomic<bool> stop = false;
	// Threads that the child doesn't have, and that take all locks of libibverbs and of the provider over and over
	std::vector<std::thread> threads;

	for (int i = 0; i < 2; i++)
		threads.emplace_back([&] {
			while (!stop) {
				const CompletionChannel channel(ibv_create_comp_channel(pair.a().context()));
				const Cq cq = make_cq(pair.a().context(), 10, channel.get());
				const Region region(pair.a().pd(), 4096);
			}
		});
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(std::async(std::launch::async, [] { return forked([] { return traffic_of_its_own(); }); })
				  .get(),
			0);
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	expect_traffic(pair);
}

TEST(Fork, ServerForksBeforeItListens)
{
	Pair pair;
	std::vector<std::future<int>> servers;

	servers.reserve(4);
	for (int i = 0; i < 4; i++)
		servers.push_back(std::async(std::launch::async,
			[] { return forked([] { return traffic_of_its_own() && traffic_of_its_own(); }); }));
	for (std::future<int> &server : servers)
		EXPECT_EQ(server.get(), 0);
	expect_traffic(pair);
}

// rdma_cm serves a channel of events to the process that opened it, so the child takes the connection over to its own.
TEST(Fork, ServerForksForEachConnection)
{
	const Listener listener;

	for (int i = 0; i < 3; i++) {
		const auto caller = start_connecting(listener.port(), {});
		auto [id, request] = listener.request();

		auto serving = std::async(std::launch::async, [&] {
			return forked([&, id = id.get()] {
				auto events = std::make_shared<EventChannel>();
				if (rdma_migrate_id(id, events->get()))
					fail("rdma_migrate_id", errno);
				Side side(Id(id), events, {});
				const Region message(side.pd(), 64);
				side.receive_empty(1);
				rdma_conn_param param = parameters({}, 1);
				if (rdma_accept(id, &param))
					fail("rdma_accept", errno);
				events->wait(RDMA_CM_EVENT_ESTABLISHED, id);
				return side.received().status == IBV_WC_SUCCESS && side.send({message.sge()}) == 0 &&
				       side.sent().status == IBV_WC_SUCCESS;
			});
		});
		const Region answer(caller->pd(), 64);
		ASSERT_EQ(caller->receive({answer.sge()}, 7), 0);
		caller->events().wait(RDMA_CM_EVENT_ESTABLISHED, caller->id());
		ASSERT_EQ(caller->send(), 0);
		EXPECT_EQ(caller->sent().status, IBV_WC_SUCCESS);
		EXPECT_WC(caller->received(), 7, IBV_WC_SUCCESS);
		EXPECT_EQ(serving.get(), 0);
		// It was the child's to destroy.
		(void)id.release();
	}
}

/// Sends some octets through a connection of rsockets, whose ends are two threads of the calling process.
bool socket_of_its_own()
{
	Where here = server_end();
	Where there = client_end();
	const socklen_t length = here.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
	const auto open = [&](Where &where) {
		const InNamespace inside(where.netns);
		const int fd = rsocket(where.address.ss_family, SOCK_STREAM, 0);

		if (fd < 0 || rbind(fd, where.sa(0), length))
			fail("rsocket", errno);
		return fd;
	};
	const int listening = open(here);
	sockaddr_storage name{};
	socklen_t name_length = sizeof(name);
	if (rlisten(listening, 4) || rgetsockname(listening, reinterpret_cast<sockaddr *>(&name), &name_length))
		fail("rlisten", errno);
	const std::uint16_t port = ntohs(reinterpret_cast<sockaddr_in *>(&name)->sin_port);
	const std::string text = "by an rsocket";

	auto server = std::async(std::launch::async, [&] {
		const int fd = raccept(listening, nullptr, nullptr);
		std::string heard(text.size(), 0);
		const bool good = fd >= 0 && rrecv(fd, heard.data(), heard.size(), MSG_WAITALL) == heard.size();

		if (fd >= 0)
			rclose(fd);
		return good && heard == text;
	});
	const int fd = open(there);
	if (rconnect(fd, here.sa(port), length) || rsend(fd, text.data(), text.size(), 0) != text.size())
		fail("rconnect", errno);
	const bool good = server.get();
	rclose(fd);
	rclose(listening);
	return good;
}

TEST(Fork, ChildUsesRsockets)
{
	EXPECT_TRUE(socket_of_its_own());
	EXPECT_EQ(forked([] { return socket_of_its_own() && socket_of_its_own(); }), 0);
	EXPECT_TRUE(socket_of_its_own());
}

TEST(Fork, ChildMayBecomeAnotherUserFirst)
{
	Pair pair;

	EXPECT_EQ(forked([] {
		if (setgid(65534) || setuid(65534))
			fail("setuid", errno);
		// It can't enter namespaces any more, and needs none for this.
		const Context context = open_device(ibv_get_device_name(server_device()->device));
		return bool(make_pd(context.get())) && bool(make_pd(server_device())) &&
		       bool(make_cq(server_device(), 1));
	}),
		0);
	expect_traffic(pair);
}

} // namespace

} // namespace vt
