// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Descriptors and memory that there aren't: the call fails with that errno, and other connections go on.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "allocation.hpp"
#include "pair.hpp"

namespace user {
namespace {

/// A limit of descriptors, for a scope
class Descriptors {
public:
	Descriptors() { ::getrlimit(RLIMIT_NOFILE, &before_); }
	~Descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
	Descriptors(const Descriptors &) = delete;
	Descriptors &operator=(const Descriptors &) = delete;

	/// So many more can be opened.
	static void leave(unsigned more)
	{
		rlimit limit{};
		int fd = 0;

		::getrlimit(RLIMIT_NOFILE, &limit);
		for (;; fd++)
			if (::fcntl(fd, F_GETFD) < 0 && !more--)
				break;
		limit.rlim_cur = static_cast<rlim_t>(fd);
		::setrlimit(RLIMIT_NOFILE, &limit);
	}
	/// As many as are allowed. Returns how many those are.
	static rlim_t leave_all()
	{
		rlimit limit{};

		::getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = limit.rlim_max;
		::setrlimit(RLIMIT_NOFILE, &limit);
		return limit.rlim_cur;
	}

private:
	rlimit before_{};
};

/// Each object that there is, made and destroyed. Returns 0, or the errno value of the first call that failed.
int make_objects(ibv_device *device)
{
	std::vector<std::uint8_t> bytes(4096);
	ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .channel = nullptr, .wc_flags = IBV_WC_STANDARD_FLAGS};
	ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 2}};
	ibv_qp_init_attr attr = attributes(16);
	ibv_srq_attr more = {.max_wr = 32};
	ibv_comp_channel *channel = nullptr;
	ibv_cq *cq = nullptr;
	ibv_cq_ex *ex = nullptr;
	ibv_pd *pd = nullptr;
	ibv_mr *mr = nullptr;
	ibv_mw *mw = nullptr;
	ibv_srq *srq = nullptr;
	ibv_qp *qp = nullptr;
	int error = 0;

	ibv_context *context = ibv_open_device(device);
	if (!context)
		return errno;
	// Each is made once all before it were.
	const auto make = [&](auto *&object, auto function) {
		if (error)
			return;
		errno = 0;
		object = function();
		if (!object)
			error = errno ? errno : ENODATA;
	};
	make(channel, [&] { return ibv_create_comp_channel(context); });
	make(pd, [&] { return ibv_alloc_pd(context); });
	make(cq, [&] { return ibv_create_cq(context, 16, nullptr, channel, 0); });
	make(ex, [&] { return ibv_create_cq_ex(context, &cq_attr); });
	make(mr, [&] { return ibv_reg_mr(pd, bytes.data(), bytes.size(), all_rights); });
	make(mw, [&] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); });
	make(srq, [&] { return ibv_create_srq(pd, &srq_attr); });
	attr.send_cq = attr.recv_cq = cq;
	make(qp, [&] { return ibv_create_qp(pd, &attr); });
	if (!error)
		error = ibv_resize_cq(cq, 64);
	if (!error && ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR))
		error = errno;
	if (!error)
		error = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data() + 8, 64, 0) ? errno : 0;
	if (qp) {
		EXPECT_EQ(ibv_destroy_qp(qp), 0);
	}
	if (srq) {
		EXPECT_EQ(ibv_destroy_srq(srq), 0);
	}
	if (mw) {
		EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	}
	if (mr) {
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
	}
	if (ex) {
		EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	}
	if (cq) {
		EXPECT_EQ(ibv_destroy_cq(cq), 0);
	}
	if (pd) {
		EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	}
	if (channel) {
		EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
	}
	EXPECT_EQ(ibv_close_device(context), 0);
	return error;
}

/// A client's part of a connection up to its attempt. Returns 0, or the errno value of the first call that failed.
int prepare(const std::string &port, rdma_event_channel *&channel, rdma_cm_id *&id)
{
	sockaddr_in address = {.sin_family = AF_INET};
	rdma_cm_event *event = nullptr;
	ibv_qp_init_attr attr = attributes(16);

	address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
		rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 1000) ||
		rdma_get_cm_event(channel, &event))
		return errno;
	const int status = -event->status;
	rdma_ack_cm_event(event);
	if (status)
		return status;
	if (rdma_resolve_route(id, 1000) || rdma_get_cm_event(channel, &event))
		return errno;
	rdma_ack_cm_event(event);
	return rdma_create_qp(id, nullptr, &attr) ? errno : 0;
}

void undo(rdma_event_channel *channel, rdma_cm_id *id)
{
	if (id && id->qp)
		rdma_destroy_qp(id);
	if (id) {
		EXPECT_EQ(rdma_destroy_id(id), 0);
	}
	if (channel)
		rdma_destroy_event_channel(channel);
}

/// A whole connection, with a message. Returns 0, or the errno value of the first call of a client that failed.
int make_connection()
{
	rdma_event_channel *channel = nullptr, *of_listener = nullptr;
	rdma_cm_id *id = nullptr, *listener = nullptr;
	rdma_cm_event *event = nullptr;
	sockaddr_in any = {.sin_family = AF_INET};
	ibv_qp_init_attr attr = attributes(16);
	rdma_conn_param param{};
	int error = 0;

	of_listener = rdma_create_event_channel();
	if (!of_listener || rdma_create_id(of_listener, &listener, nullptr, RDMA_PS_TCP) ||
		rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&any)) || rdma_listen(listener, 4))
		error = errno;
	if (!error)
		error = prepare(std::to_string(ntohs(rdma_get_src_port(listener))), channel, id);
	if (!error && rdma_connect(id, &param))
		error = errno;
	if (!error) {
		// The attempt may end without the listener's having heard of it.
		std::atomic<bool> over = false;
		std::thread serving([&] {
			pollfd ready = {.fd = of_listener->fd, .events = POLLIN, .revents = 0};
			rdma_cm_id *served = nullptr;

			while (!over || served) {
				if (poll(&ready, 1, 10) != 1 || rdma_get_cm_event(of_listener, &event))
					continue;
				if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
					served = event->id;
					rdma_ack_cm_event(event);
					if (!rdma_create_qp(served, nullptr, &attr) && !rdma_accept(served, &param))
						continue;
				} else {
					const bool established = event->event == RDMA_CM_EVENT_ESTABLISHED;

					rdma_ack_cm_event(event);
					if (established)
						continue;
				}
				if (served->qp)
					rdma_destroy_qp(served);
				rdma_destroy_id(served);
				served = nullptr;
			}
		});
		rdma_cm_event *own = nullptr;
		if (rdma_get_cm_event(channel, &own)) {
			error = errno;
		} else {
			error = own->event == RDMA_CM_EVENT_ESTABLISHED ? 0 : ECONNREFUSED;
			rdma_ack_cm_event(own);
		}
		undo(channel, id);
		channel = nullptr;
		id = nullptr;
		over = true;
		serving.join();
	}
	undo(channel, id);
	undo(of_listener, listener);
	return error;
}

struct Shortage : testing::Test {
	Shortage()
	{
		// The real library's, too, where it has devices.
		list = ibv_get_device_list(&count);
		device = list[count - 1];
		// What is made once, and stays, is made.
		EXPECT_EQ(make_objects(device), 0);
		EXPECT_EQ(make_connection(), 0);
	}
	~Shortage() override { ibv_free_device_list(list); }

	ibv_device **list = nullptr, *device = nullptr;
	int count = 0;
	Pair other;
};

TEST_F(Shortage, OfDescriptorsForObjects)
{
	Descriptors descriptors;
	int error = EMFILE;
	unsigned more = 0;

	for (; error && more < 16; more++) {
		Descriptors::leave(more);
		error = make_objects(device);
		if (error) {
			EXPECT_EQ(error, EMFILE) << more;
			EXPECT_TRUE(sends_and_receives(other)) << more;
		}
	}
	EXPECT_EQ(error, 0);
	EXPECT_GT(more, 2U);
}

TEST_F(Shortage, OfDescriptorsForConnections)
{
	Descriptors descriptors;
	rdma_cm_id *listener = other.listener;
	int error = EMFILE;
	unsigned more = 0;

	for (; error && more < 16; more++) {
		rdma_event_channel *channel = nullptr;
		rdma_cm_id *id = nullptr;

		Descriptors::leave(more);
		error = prepare(port_of(listener), channel, id);
		undo(channel, id);
		if (error) {
			EXPECT_EQ(error, EMFILE) << more;
			EXPECT_TRUE(sends_and_receives(other)) << more;
		}
	}
	EXPECT_EQ(error, 0);
	EXPECT_GT(more, 2U);
}

TEST_F(Shortage, OfDescriptorsForAListener)
{
	Descriptors descriptors;
	rdma_event_channel *channel = nullptr;
	rdma_cm_id *id = nullptr;
	rdma_cm_event *event = nullptr;
	rdma_conn_param param{};

	ASSERT_EQ(prepare(port_of(other.listener), channel, id), 0);
	Descriptors::leave(0);
	ASSERT_EQ(rdma_connect(id, &param), 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(200));
	EXPECT_TRUE(sends_and_receives(other));
	// TCP has the connection meanwhile.
	Descriptors::leave(16);
	rdma_cm_id *served = nullptr;
	ASSERT_EQ(rdma_get_request(other.listener, &served), 0);
	ASSERT_EQ(rdma_accept(served, nullptr), 0);
	ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
	EXPECT_EQ(event->event, RDMA_CM_EVENT_ESTABLISHED);
	rdma_ack_cm_event(event);
	rdma_destroy_ep(served);
	undo(channel, id);
}

/// Connects so many times to the ports in turn, says nothing, and waits to be killed.
[[noreturn]] void be_strangers(const std::array<std::uint16_t, 3> &ports, unsigned count)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	Descriptors::leave_all();
	while (count-- > 0) {
		address.sin_port = ports[count % ports.size()];
		const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

		::connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address));
	}
	for (;;)
		::pause();
}

TEST_F(Shortage, StrangersLeaveDescriptors)
{
	Descriptors descriptors;
	constexpr unsigned room = 200;
	Pair second, third;
	const std::array<std::uint16_t, 3> ports = {rdma_get_src_port(other.listener),
		rdma_get_src_port(second.listener), rdma_get_src_port(third.listener)};
	rlimit limit{};

	Descriptors::leave(room);
	::getrlimit(RLIMIT_NOFILE, &limit);
	const pid_t strangers = ::fork();
	if (strangers == 0)
		be_strangers(ports, room + 64);
	std::this_thread::sleep_for(std::chrono::milliseconds(300));
	unsigned left = 0;
	std::vector<int> taken;
	for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0; left++)
		taken.push_back(fd);
	for (const int fd : taken)
		::close(fd);
	EXPECT_GE(left + limit.rlim_cur / 4, room);
	EXPECT_LT(left, room);
	EXPECT_TRUE(sends_and_receives(other));
	::kill(strangers, SIGKILL);
	ASSERT_EQ(::waitpid(strangers, nullptr, 0), strangers);
	EXPECT_EQ(make_connection(), 0);
}

TEST_F(Shortage, OfMemoryForObjects)
{
	int n = 1;

	for (;; n++) {
		fail_allocation(n);
		const int error = make_objects(device);
		if (!allocation_failed())
			break;
		EXPECT_EQ(error, ENOMEM) << n;
		EXPECT_TRUE(sends_and_receives(other)) << n;
		ASSERT_LT(n, 1000);
	}
	EXPECT_GT(n, 10);
}

TEST_F(Shortage, OfMemoryForConnections)
{
	unsigned refused = 0;
	int n = 1;

	for (;; n++) {
		fail_allocation(n);
		const int error = make_connection();
		if (!allocation_failed())
			break;
		// What the other side lacks is a refusal, and what can wait is had later.
		EXPECT_TRUE(error == ENOMEM || error == ECONNREFUSED || error == 0) << n << ": " << error;
		refused += error == ENOMEM;
		EXPECT_TRUE(sends_and_receives(other)) << n;
		ASSERT_LT(n, 1000);
	}
	EXPECT_GT(refused, 10U);
}

TEST_F(Shortage, OfMemoryForTraffic)
{
	constexpr std::uint32_t length = 8 << 20;
	// More of them wait for TCP at a time than the library keeps spare memory for.
	std::array<Pair, 6> pairs;
	Memory from(other.client.id->pd, length), to(other.client.id->pd, length);
	unsigned failures = 0;

	for (int n = 1; n < 20; n++) {
		std::fill(from.bytes.begin(), from.bytes.end(), static_cast<std::uint8_t>(n));
		fail_allocation(n);
		for (Pair &pair : pairs)
			ASSERT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, length)}), 0);
		for (Pair &pair : pairs) {
			std::fill(to.bytes.begin(), to.bytes.end(), std::uint8_t{0});
			ASSERT_EQ(pair.server.receive({to.sge(0, length)}), 0);
			EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS) << n;
			EXPECT_EQ(pair.server.received().status, IBV_WC_SUCCESS) << n;
			EXPECT_EQ(from.bytes, to.bytes) << n;
		}
		failures += allocation_failed();
	}
	EXPECT_GT(failures, 0U);
}

// --- many connections -----------------------------------------------------------------------------

std::size_t heap()
{
	const struct mallinfo2 info = ::mallinfo2();

	return info.uordblks + info.hblkhd;
}

TEST_F(Shortage, ThousandQueuePairsTakeLittle)
{
	constexpr unsigned pairs = 500;
	constexpr std::size_t most = 16 << 10;
	Descriptors descriptors;

	// A connection takes three descriptors of this process, which has both ends: its hard limit is the user's to
	// set.
	if (Descriptors::leave_all() < 4096)
		GTEST_SKIP() << "fewer than 4096 descriptors";
	rdma_addrinfo *active = resolve(port_of(other.listener).c_str(), 0);
	ibv_context *context = other.client.id->verbs;
	ibv_cq *cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
	ASSERT_NE(cq, nullptr);
	std::vector<std::array<End, 2>> ends(pairs);
	ibv_qp_init_attr attr = attributes(4);
	const std::size_t before = heap();

	attr.send_cq = attr.recv_cq = cq;
	for (auto &[client, server] : ends) {
		std::thread accepting([&] {
			rdma_cm_id *id = nullptr;

			ASSERT_EQ(rdma_get_request(other.listener, &id), 0);
			// The listener's attributes are those of its own pair.
			rdma_destroy_qp(id);
			ibv_qp_init_attr own = attr;
			ASSERT_EQ(rdma_create_qp(id, nullptr, &own), 0);
			ASSERT_EQ(rdma_accept(id, nullptr), 0);
			server.id = id;
		});
		ibv_qp_init_attr own = attr;
		ASSERT_EQ(rdma_create_ep(&client.id, active, nullptr, &own), 0);
		ASSERT_EQ(rdma_connect(client.id, nullptr), 0);
		accepting.join();
	}
	const std::size_t each = (heap() - before) / (2 * pairs);
	RecordProperty("bytes", static_cast<int>(each));
	std::printf("%zu bytes for an idle connection\n", each);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	EXPECT_GT(each, 0U);
	EXPECT_LE(each, most);
#else
	(void)most;
#endif
	// All of them carry something.
	Memory from(other.client.id->pd, 8), to(other.client.id->pd, 8);
	for (auto &[client, server] : ends) {
		ASSERT_EQ(server.receive({to.sge(0, 8)}), 0);
		ASSERT_EQ(client.post(IBV_WR_SEND, {from.sge(0, 8)}), 0);
		EXPECT_EQ(client.completion(cq).status, IBV_WC_SUCCESS);
		EXPECT_EQ(client.completion(cq).status, IBV_WC_SUCCESS);
	}
	ends.clear();
	rdma_freeaddrinfo(active);
	EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

} // namespace
} // namespace user
