// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections by queue pair number between two ends of one process, and with a program without RDMA at one end. What
// the module's suite tests as well runs there (tests/number), and by numbers_test on this device.
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.hpp"

namespace user {
namespace {

using namespace std::chrono_literals;

/// An open device and a protection domain, for all ends of a test
struct Device {
	Device()
	{
		int count = 0;
		ibv_device **list = ibv_get_device_list(&count);

		for (int i = 0; i < count; i++)
			if (std::string("kiwu0") == ibv_get_device_name(list[i]))
				context = ibv_open_device(list[i]);
		ibv_free_device_list(list);
		if (!context)
			throw std::runtime_error("kiwu0");
		pd = ibv_alloc_pd(context);
	}
	~Device()
	{
		EXPECT_EQ(ibv_dealloc_pd(pd), 0);
		EXPECT_EQ(ibv_close_device(context), 0);
	}

	/// The slot of an address
	std::uint8_t slot_of(const char *address) const
	{
		in6_addr wanted{};
		ibv_gid gid;

		inet_pton(AF_INET6, address, &wanted);
		for (int i = 1; i < 255; i++)
			if (!ibv_query_gid(context, 1, i, &gid) && !std::memcmp(gid.raw, &wanted, sizeof(wanted)))
				return static_cast<std::uint8_t>(i);
		throw std::runtime_error(address);
	}

	ibv_context *context = nullptr;
	ibv_pd *pd = nullptr;
};

/// One end: a queue pair, its completion queue and its memory
struct Numbered {
	Numbered(const Device &device, const char *address) : device(device), memory(device.pd, 8192)
	{
		slot = device.slot_of(address);
		ibv_query_gid(device.context, 1, slot, &gid);
		cq = ibv_create_cq(device.context, 256, nullptr, nullptr, 0);
		make();
	}
	~Numbered()
	{
		end();
		EXPECT_EQ(ibv_destroy_cq(cq), 0);
	}
	Numbered(const Numbered &) = delete;
	Numbered &operator=(const Numbered &) = delete;

	void make()
	{
		ibv_qp_init_attr attr = attributes(64);

		attr.send_cq = attr.recv_cq = cq;
		qp = ibv_create_qp(device.pd, &attr);
		if (!qp)
			throw std::runtime_error("ibv_create_qp");
		EXPECT_EQ(init(), 0);
	}
	void end()
	{
		if (qp) {
			EXPECT_EQ(ibv_destroy_qp(qp), 0);
		}
		qp = nullptr;
	}
	int modify(ibv_qp_attr attr, int mask) const { return ibv_modify_qp(qp, &attr, mask); }
	int to(ibv_qp_state state) const
	{
		ibv_qp_attr attr{};

		attr.qp_state = state;
		return modify(attr, IBV_QP_STATE);
	}
	int init() const
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = all_rights & ~IBV_ACCESS_MW_BIND;
		return modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	}
	ibv_qp_attr rtr_attr(const Numbered &peer) const
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer.qp->qp_num;
		attr.rq_psn = peer.psn;
		attr.max_dest_rd_atomic = 4;
		attr.min_rnr_timer = 12;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh.dgid = peer.gid;
		attr.ah_attr.grh.sgid_index = slot;
		return attr;
	}
	static constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int rtr(const Numbered &peer) const { return modify(rtr_attr(peer), rtr_mask); }
	int rts(std::uint8_t timeout = 14) const
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = timeout;
		attr.retry_cnt = 7;
		attr.rnr_retry = 6;
		attr.sq_psn = psn;
		attr.max_rd_atomic = 4;
		return modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	}
	void connect(const Numbered &peer) const
	{
		ASSERT_EQ(rtr(peer), 0);
		ASSERT_EQ(rts(), 0);
	}
	ibv_qp_state state() const
	{
		ibv_qp_attr attr{};
		ibv_qp_init_attr init{};

		EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
		return attr.qp_state;
	}
	int post(ibv_wr_opcode opcode, std::uint64_t id, std::uint32_t length, std::uint64_t remote = 0,
		std::uint32_t rkey = 0) const
	{
		ibv_sge sge = memory.sge(0, length);
		ibv_send_wr wr{}, *bad = nullptr;

		wr.wr_id = id;
		wr.opcode = opcode;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = remote;
			wr.wr.atomic.compare_add = 1;
			wr.wr.atomic.rkey = rkey;
		} else {
			wr.wr.rdma.remote_addr = remote;
			wr.wr.rdma.rkey = rkey;
		}
		return ibv_post_send(qp, &wr, &bad);
	}
	int receive(std::uint64_t id) const
	{
		ibv_sge sge = memory.sge(4096, 4096);
		ibv_recv_wr wr{}, *bad = nullptr;

		wr.wr_id = id;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		return ibv_post_recv(qp, &wr, &bad);
	}
	ibv_wc completion() const
	{
		ibv_wc wc{};

		if (!eventually([&] { return ibv_poll_cq(cq, 1, &wc) > 0; }))
			throw std::runtime_error("no completion");
		return wc;
	}
	bool nothing_completes() const
	{
		ibv_wc wc{};

		return ibv_poll_cq(cq, 1, &wc) == 0;
	}
	std::uint16_t port() const { return static_cast<std::uint16_t>(qp->qp_num >> 8); }

	const Device &device;
	Memory memory;
	std::uint8_t slot = 0;
	ibv_gid gid{};
	ibv_cq *cq = nullptr;
	ibv_qp *qp = nullptr;
	std::uint32_t psn = static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count() ^
						       reinterpret_cast<std::uintptr_t>(this) >> 4) &
			    0xffffff;
};

void send(const Numbered &from, const Numbered &to)
{
	for (std::size_t i = 0; i < 4096; i++)
		const_cast<Numbered &>(from).memory.bytes[i] = static_cast<std::uint8_t>(i + from.qp->qp_num);
	ASSERT_EQ(to.receive(2), 0);
	ASSERT_EQ(from.post(IBV_WR_SEND, 1, 4096), 0);
	const ibv_wc sent = from.completion(), received = to.completion();
	EXPECT_EQ(sent.wr_id, 1U);
	EXPECT_EQ(sent.status, IBV_WC_SUCCESS) << ibv_wc_status_str(sent.status);
	EXPECT_EQ(received.wr_id, 2U);
	EXPECT_EQ(received.status, IBV_WC_SUCCESS);
	EXPECT_EQ(received.byte_len, 4096U);
	EXPECT_EQ(std::memcmp(&from.memory.bytes[0], &to.memory.bytes[4096], 4096), 0);
}

void exchange(const Numbered &a, const Numbered &b)
{
	send(a, b);
	send(b, a);
}

/// The connecting end of a TCP connection, as a program without RDMA has it
int tcp_to(const char *address, std::uint16_t port)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in to{};

	to.sin_family = AF_INET;
	to.sin_port = htons(port);
	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

std::vector<std::uint8_t> all_of(int fd)
{
	std::vector<std::uint8_t> all(256);
	std::size_t have = 0;
	pollfd wait{fd, POLLIN, 0};
	ssize_t got = 1;

	while (got > 0 && have < all.size() && poll(&wait, 1, 20000) == 1)
		if ((got = recv(fd, &all[have], all.size() - have, 0)) > 0)
			have += static_cast<std::size_t>(got);
	all.resize(have);
	return all;
}

/// Private data of version 2 in a Request of MPA revision 2
std::vector<std::uint8_t> request(std::uint32_t from, std::uint32_t to, std::uint32_t psn)
{
	std::vector<std::uint8_t> bytes{'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a', 'm', 'e',
		0x10, 2, 0, 32, 0x80, 1, 0xc0, 1, 'k', 'i', 'w', 'N', 2, 1, 0, 0};

	for (const std::uint32_t field : {from, to, psn, 1U, 2U})
		for (int shift = 24; shift >= 0; shift -= 8)
			bytes.push_back(static_cast<std::uint8_t>(field >> shift));
	return bytes;
}

class ByNumber : public testing::TestWithParam<const char *> {
protected:
	Device device;
	Numbered a{device, GetParam()}, b{device, GetParam()};
};

TEST_P(ByNumber, EitherEndMayBeFirst)
{
	a.connect(b);
	std::this_thread::sleep_for(50ms);
	b.connect(a);
	exchange(a, b);
	for (const Numbered *end : {&a, &b}) {
		ASSERT_EQ(end->to(IBV_QPS_RESET), 0);
		ASSERT_EQ(end->init(), 0);
	}
	b.connect(a);
	std::this_thread::sleep_for(50ms);
	a.connect(b);
	exchange(a, b);
	EXPECT_EQ(a.state(), IBV_QPS_RTS);
	EXPECT_EQ(b.state(), IBV_QPS_RTS);
}

TEST_P(ByNumber, AnEndThatOnlyReceivesStaysInRtr)
{
	for (const auto &[stays, goes] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
		ASSERT_EQ(stays->rtr(*goes), 0);
		goes->connect(*stays);
		send(*goes, *stays);
		EXPECT_EQ(stays->state(), IBV_QPS_RTR);
		ASSERT_EQ(stays->rts(), 0);
		send(*stays, *goes);
		for (const Numbered *end : {&a, &b}) {
			ASSERT_EQ(end->to(IBV_QPS_RESET), 0);
			ASSERT_EQ(end->init(), 0);
		}
	}
}

TEST_P(ByNumber, ResetOfOneEndLeavesTheOtherWaiting)
{
	a.connect(b);
	b.connect(a);
	exchange(a, b);
	ASSERT_EQ(a.receive(7), 0);
	ASSERT_EQ(b.to(IBV_QPS_RESET), 0);
	std::this_thread::sleep_for(200ms);
	EXPECT_TRUE(a.nothing_completes());
	EXPECT_EQ(a.state(), IBV_QPS_RTS);
	// The peer doesn't come back to a connection that it has left.
	ASSERT_EQ(b.init(), 0);
	b.connect(a);
	ASSERT_EQ(a.post(IBV_WR_SEND, 8, 16), 0);
	ibv_wc wc = a.completion();
	EXPECT_EQ(wc.wr_id, 8U);
	EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
	wc = a.completion();
	EXPECT_EQ(wc.wr_id, 7U);
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.state(), IBV_QPS_ERR);
	ASSERT_EQ(a.to(IBV_QPS_RESET), 0);
	ASSERT_EQ(a.init(), 0);
	a.connect(b);
	exchange(a, b);
}

TEST_P(ByNumber, RequestsOfBothKindsAreCarriedOut)
{
	a.connect(b);
	b.connect(a);
	for (int round = 0; round < 50; round++) {
		a.memory.bytes[0] = static_cast<std::uint8_t>(round);
		ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, 8, b.memory.address(4096), b.memory.mr->rkey), 0);
		ASSERT_EQ(a.completion().status, IBV_WC_SUCCESS);
		a.memory.bytes[0] = 255;
		ASSERT_EQ(a.post(IBV_WR_RDMA_READ, 2, 8, b.memory.address(4096), b.memory.mr->rkey), 0);
		ASSERT_EQ(a.completion().status, IBV_WC_SUCCESS);
		ASSERT_EQ(a.memory.bytes[0], round);
	}
	ASSERT_EQ(a.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 8, b.memory.address(4096), b.memory.mr->rkey), 0);
	EXPECT_EQ(a.completion().status, IBV_WC_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Addresses, ByNumber, testing::Values("::ffff:127.0.0.1", "::1"),
	[](const auto &which) { return std::string(which.param) == "::1" ? "IPv6" : "IPv4"; });

class Numbers : public testing::Test {
protected:
	static constexpr const char *host = "::ffff:127.0.0.1";
	Device device;
};

TEST_F(Numbers, TellThePortOfTheProcess)
{
	std::set<std::uint32_t> numbers;
	std::set<std::uint16_t> ports;
	std::uint16_t port = 0;
	{
		std::vector<std::unique_ptr<Numbered>> ends;

		for (int i = 0; i < 300; i++) {
			ends.push_back(std::make_unique<Numbered>(device, host));
			numbers.insert(ends.back()->qp->qp_num);
			ports.insert(ends.back()->port());
		}
		EXPECT_EQ(numbers.size(), 300U);
		EXPECT_EQ(ports.size(), 2U) << "256 numbers each";
		for (const std::uint16_t each : ports) {
			const int fd = tcp_to("127.0.0.1", each);

			EXPECT_GE(fd, 0);
			close(fd);
		}
		port = *ports.begin();
		// One of the second port, and one of the first
		ends.front()->connect(*ends.back());
		ends.back()->connect(*ends.front());
		exchange(*ends.front(), *ends.back());
	}
	EXPECT_TRUE(eventually([&] {
		const int fd = tcp_to("127.0.0.1", port);

		close(fd);
		return fd < 0;
	})) << "nobody can be dialed any more";
}

// One that fails has taken nothing of its queues.
TEST_F(Numbers, WithoutADescriptorThereAreNone)
{
	ibv_cq *cq = ibv_create_cq(device.context, 16, nullptr, nullptr, 0);
	ibv_qp_init_attr attr = attributes(4);
	rlimit before{}, none{};

	ASSERT_TRUE(cq);
	attr.send_cq = attr.recv_cq = cq;
	for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UD}) {
		attr.qp_type = type;
		getrlimit(RLIMIT_NOFILE, &before);
		none = before;
		none.rlim_cur = static_cast<rlim_t>(dup(0));
		close(static_cast<int>(none.rlim_cur));
		setrlimit(RLIMIT_NOFILE, &none);
		ibv_qp *qp = ibv_create_qp(device.pd, &attr);
		const int error = errno;
		setrlimit(RLIMIT_NOFILE, &before);
		EXPECT_EQ(qp, nullptr);
		EXPECT_EQ(error, EMFILE);
	}
	attr.qp_type = IBV_QPT_RC;
	ibv_qp *qp = ibv_create_qp(device.pd, &attr);
	ASSERT_TRUE(qp);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Numbers, AreOfTwoQueuePairs)
{
	const Numbered a(device, host);

	EXPECT_EQ(a.rtr(a), EINVAL);
	EXPECT_EQ(a.state(), IBV_QPS_INIT);
}

TEST_F(Numbers, WhatCantBeIsRefused)
{
	const Numbered a(device, host), b(device, host);
	const auto but = [&](const std::function<void(ibv_qp_attr &)> &change, int without = 0) {
		ibv_qp_attr attr = a.rtr_attr(b);

		change(attr);
		return a.modify(attr, Numbered::rtr_mask & ~without);
	};
	const auto nothing = [](ibv_qp_attr &) {
	};

	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.is_global = 0; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.grh.sgid_index = 255; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.grh.sgid_index = 250; }), ENODATA);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.grh.dgid = {}; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.grh.dgid.raw[0] = 0xff; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.ah_attr.grh.dgid.raw[12] = 224; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.dest_qp_num = 0x1000000; }), EINVAL);
	EXPECT_EQ(but([](ibv_qp_attr &attr) { attr.max_dest_rd_atomic = 129; }), EINVAL);
	for (const int needed : {IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN})
		EXPECT_EQ(but(nothing, needed), EINVAL);
	EXPECT_EQ(a.state(), IBV_QPS_INIT);
	EXPECT_NE(a.post(IBV_WR_SEND, 1, 8), 0);
	EXPECT_EQ(but(nothing), 0);
	EXPECT_NE(a.post(IBV_WR_SEND, 1, 8), 0);
	EXPECT_EQ(a.rts(), 0);
	for (const ibv_qp_state drains : {IBV_QPS_SQD, IBV_QPS_SQE})
		EXPECT_EQ(a.to(drains), EINVAL);
	EXPECT_EQ(a.state(), IBV_QPS_RTS);
}

TEST_F(Numbers, OfAStrangerAreRejected)
{
	const Numbered a(device, host), b(device, host);
	// The greater number dials.
	const Numbered &dialed = a.qp->qp_num < b.qp->qp_num ? a : b, &dials = &dialed == &a ? b : a;

	ASSERT_EQ(dialed.rtr(dials), 0);
	std::vector<int> strangers;
	for (const auto &[from, to, psn] : {std::array{dials.qp->qp_num ^ 1, dialed.qp->qp_num, dials.psn},
		     std::array{dials.qp->qp_num, dialed.qp->qp_num ^ 0xff, dials.psn},
		     std::array{dials.qp->qp_num, dialed.qp->qp_num, dials.psn ^ 1}}) {
		const std::vector<std::uint8_t> bytes = request(from, to, psn);

		strangers.push_back(tcp_to("127.0.0.1", dialed.port()));
		ASSERT_GE(strangers.back(), 0);
		ASSERT_EQ(::send(strangers.back(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
	}
	std::vector<std::uint8_t> first;
	for (const int fd : strangers) {
		const std::vector<std::uint8_t> answer = all_of(fd);

		close(fd);
		ASSERT_EQ(answer.size(), 32U);
		EXPECT_TRUE(answer[16] & 0x20) << "a rejection";
		// All are alike.
		if (first.empty())
			first = answer;
		EXPECT_EQ(answer, first);
	}
	ASSERT_EQ(dialed.rts(), 0);
	dials.connect(dialed);
	exchange(a, b);
}

TEST_F(Numbers, WaitForAPeerThatNeverComesForTwentySeconds)
{
	const Numbered gone(device, host), a(device, host), b(device, host);
	const auto start = std::chrono::steady_clock::now();

	// Its time comes first, and means nothing any more.
	gone.connect(b);
	ASSERT_EQ(gone.post(IBV_WR_SEND, 1, 8), 0);
	ASSERT_EQ(gone.to(IBV_QPS_ERR), 0);
	a.connect(b);
	ASSERT_EQ(a.receive(2), 0);
	ASSERT_EQ(a.post(IBV_WR_SEND, 1, 8), 0);
	ibv_wc wc = a.completion();
	EXPECT_EQ(wc.wr_id, 1U);
	EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
	EXPECT_EQ(a.completion().status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.state(), IBV_QPS_ERR);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 15s);
	ibv_async_event event{};
	ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	EXPECT_EQ(event.element.qp, a.qp);
	ibv_ack_async_event(&event);
}

TEST_F(Numbers, APsnThatIsWrongAfterAllEndsTheConnection)
{
	const Numbered a(device, host), b(device, host);
	const Numbered &dialed = a.qp->qp_num < b.qp->qp_num ? a : b, &dials = &dialed == &a ? b : a;
	ibv_qp_attr attr = dialed.rtr_attr(dials);

	ASSERT_EQ(dials.rtr(dialed), 0);
	attr.rq_psn ^= 1;
	ASSERT_EQ(dialed.modify(attr, Numbered::rtr_mask), 0);
	ASSERT_EQ(dialed.rts(), 0);
	send(dialed, dials);
	EXPECT_EQ(dials.rts(), EACCES);
	EXPECT_EQ(dials.state(), IBV_QPS_ERR);
}

TEST_F(Numbers, AnEndInRtrIsToldOfTheFirstMessage)
{
	const Numbered a(device, host), b(device, host);
	ibv_async_event event{};

	ASSERT_EQ(a.rtr(b), 0);
	b.connect(a);
	send(b, a);
	ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
	EXPECT_EQ(event.element.qp, a.qp);
	ibv_ack_async_event(&event);
	send(b, a);
	pollfd heard{device.context->async_fd, POLLIN, 0};
	EXPECT_EQ(poll(&heard, 1, 0), 0) << "once";
}

} // namespace
} // namespace user
