// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What two ends without a module do to each other.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <numeric>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "pair.hpp"

namespace user {
namespace {

void fill(std::vector<std::uint8_t> &bytes, unsigned seed)
{
	for (std::size_t i = 0; i < bytes.size(); i++)
		bytes[i] = static_cast<std::uint8_t>((i * 2654435761U + seed) >> 13);
}

TEST(Traffic, SendsArriveInOrder)
{
	Pair pair;
	Memory from(pair.client.id->pd, 4096), to(pair.server.id->pd, 4096);

	fill(from.bytes, 1);
	for (std::uint64_t i = 0; i < 16; i++)
		ASSERT_EQ(pair.server.receive({to.sge(i * 256, 256)}, i), 0);
	for (std::uint64_t i = 0; i < 16; i++)
		ASSERT_EQ(
			pair.client.post(IBV_WR_SEND, {from.sge(i * 256, static_cast<std::uint32_t>(i + 1))}, 0, 0, i),
			0);
	for (std::uint64_t i = 0; i < 16; i++) {
		const ibv_wc wc = pair.server.received();

		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_EQ(wc.byte_len, i + 1);
		EXPECT_EQ(std::memcmp(&from.bytes[i * 256], &to.bytes[i * 256], i + 1), 0);
		EXPECT_EQ(pair.client.sent().wr_id, i);
	}
}

TEST(Traffic, LargeWritesArriveWhole)
{
	constexpr std::uint32_t length = 9 << 20;
	Pair pair;
	Memory from(pair.client.id->pd, length), to(pair.server.id->pd, length + 64);

	fill(from.bytes, 2);
	// Three buffers, none of them aligned
	ASSERT_EQ(pair.client.post(IBV_WR_RDMA_WRITE,
			  {from.sge(0, 4097), from.sge(4097, 3 << 20),
				  from.sge(4097 + (3 << 20), length - 4097 - (3 << 20))},
			  to.address(13), to.mr->rkey),
		0);
	EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
	// The server never polls.
	ASSERT_TRUE(eventually([&] { return has_become(to.bytes, 13, from.bytes); }));
}

TEST(Traffic, ReadsBringWhatIsThere)
{
	constexpr std::uint32_t length = 3 << 20;
	Pair pair;
	Memory to(pair.client.id->pd, length), from(pair.server.id->pd, length);

	fill(from.bytes, 3);
	for (int i = 0; i < 5; i++) {
		std::fill(to.bytes.begin(), to.bytes.end(), 0);
		ASSERT_EQ(pair.client.post(IBV_WR_RDMA_READ, {to.sge(0, length)}, from.address(), from.mr->rkey), 0);
		EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
		EXPECT_EQ(to.bytes, from.bytes);
	}
}

TEST(Traffic, AtomicsAreCarriedOut)
{
	Pair pair;
	Memory to(pair.client.id->pd, 8), from(pair.server.id->pd, 8);
	std::uint64_t value = 5, old = 0;

	std::memcpy(from.bytes.data(), &value, sizeof(value));
	ASSERT_EQ(pair.client.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {to.sge(0, 8)}, from.address(), from.mr->rkey), 0);
	EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
	std::memcpy(&old, to.bytes.data(), sizeof(old));
	EXPECT_EQ(old, 5U);
	ASSERT_EQ(pair.client.post(IBV_WR_ATOMIC_CMP_AND_SWP, {to.sge(0, 8)}, from.address(), from.mr->rkey), 0);
	EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
	std::memcpy(&old, to.bytes.data(), sizeof(old));
	std::memcpy(&value, from.bytes.data(), sizeof(value));
	EXPECT_EQ(old, 10U);
	EXPECT_EQ(value, 10U) << "5 isn't there any more";
}

TEST(Traffic, ImmediateDataTellOfAWrite)
{
	Pair pair;
	Memory from(pair.client.id->pd, 100000), to(pair.server.id->pd, 100000);

	fill(from.bytes, 4);
	ASSERT_EQ(pair.server.receive({}), 0);
	ASSERT_EQ(pair.client.post(IBV_WR_RDMA_WRITE_WITH_IMM, {from.sge(0, 100000)}, to.address(), to.mr->rkey, 1,
			  htonl(0x12345678)),
		0);
	const ibv_wc wc = pair.server.received();
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.byte_len, 100000U);
	EXPECT_EQ(ntohl(wc.imm_data), 0x12345678U);
	EXPECT_EQ(from.bytes, to.bytes);
}

TEST(Traffic, AMessageWaitsForItsReceive)
{
	Pair pair;
	Memory from(pair.client.id->pd, 1 << 20), to(pair.server.id->pd, 1 << 20);

	fill(from.bytes, 5);
	ASSERT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, 1 << 20)}), 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(200));
	ASSERT_EQ(pair.server.receive({to.sge(0, 1 << 20)}), 0);
	EXPECT_EQ(pair.server.received().status, IBV_WC_SUCCESS);
	EXPECT_EQ(from.bytes, to.bytes);
}

TEST(Traffic, EventsWakeASleeper)
{
	Pair pair;
	Memory from(pair.client.id->pd, 64), to(pair.server.id->pd, 64);
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(pair.server.receive({to.sge(0, 64)}), 0);
		ASSERT_EQ(ibv_req_notify_cq(pair.server.id->recv_cq, 0), 0);
		std::thread sender([&] {
			EXPECT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, 64)}), 0);
			EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
		});
		ASSERT_EQ(ibv_get_cq_event(pair.server.id->recv_cq_channel, &cq, &context), 0);
		sender.join();
		EXPECT_EQ(cq, pair.server.id->recv_cq);
		EXPECT_EQ(context, pair.server.id);
		ibv_ack_cq_events(cq, 1);
		ibv_wc wc{};
		ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
	}
	pollfd descriptor = {.fd = pair.server.id->recv_cq_channel->fd, .events = POLLIN, .revents = 0};
	EXPECT_EQ(poll(&descriptor, 1, 0), 0) << "all events were fetched";
}

TEST(Traffic, ThreadsShareAQueue)
{
	constexpr int messages = 4000;
	Pair pair(512);
	Memory from(pair.client.id->pd, 64), to(pair.server.id->pd, 64);
	std::atomic<int> got = 0;
	std::atomic<bool> stop = false;

	std::vector<std::thread> pollers;
	for (int i = 0; i < 3; i++)
		pollers.emplace_back([&] {
			ibv_wc wc{};

			while (!stop) {
				if (ibv_poll_cq(pair.server.id->recv_cq, 1, &wc) != 1)
					continue;
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(pair.server.receive({to.sge(0, 64)}), 0);
				got++;
			}
		});
	for (int i = 0; i < 256; i++)
		ASSERT_EQ(pair.server.receive({to.sge(0, 64)}), 0);
	for (int i = 0; i < messages; i++) {
		ASSERT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, 64)}), 0);
		EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
	}
	EXPECT_TRUE(eventually([&] { return got == messages; })) << got;
	stop = true;
	for (std::thread &poller : pollers)
		poller.join();
}

// --- what is refused ------------------------------------------------------------------------------

TEST(Violation, AWriteBeyondARegionEndsTheConnection)
{
	Pair pair;
	Memory from(pair.client.id->pd, 4096), to(pair.server.id->pd, 4096);

	fill(from.bytes, 6);
	ASSERT_EQ(pair.client.post(IBV_WR_RDMA_WRITE, {from.sge(0, 4096)}, to.address(1), to.mr->rkey), 0);
	EXPECT_TRUE(eventually([&] {
		ibv_qp_attr attr{};
		ibv_qp_init_attr init{};

		return !ibv_query_qp(pair.server.id->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR;
	}));
	EXPECT_EQ(std::accumulate(to.bytes.begin(), to.bytes.end(), 0), 0);
}

TEST(Violation, AReadOfARegionThatIsGoneFails)
{
	Pair pair;
	Memory to(pair.client.id->pd, 64), from(pair.server.id->pd, 64);
	const std::uint64_t address = from.address();
	const std::uint32_t rkey = from.mr->rkey;

	ASSERT_EQ(ibv_dereg_mr(from.mr), 0);
	from.mr = nullptr;
	ASSERT_EQ(pair.client.post(IBV_WR_RDMA_READ, {to.sge(0, 64)}, address, rkey), 0);
	EXPECT_EQ(pair.client.sent().status, IBV_WC_REM_ACCESS_ERR);
}

// A deregistration that returns while the answer to a Read is under way: TCP has the region's bytes, or nobody gets
// any.
TEST(Violation, ARegionThatGoesIsNotReadAnyMore)
{
	constexpr std::uint32_t length = 256 << 10;

	for (unsigned round = 0; round < 200; round++) {
		Pair pair;
		Memory to(pair.client.id->pd, length), from(pair.server.id->pd, length);

		std::fill(from.bytes.begin(), from.bytes.end(), std::uint8_t{1});
		ASSERT_EQ(pair.client.post(IBV_WR_RDMA_READ, {to.sge(0, length)}, from.address(), from.mr->rkey), 0);
		for (std::atomic<unsigned> i = 0; i < 500 * (round % 40); i++)
			;
		ASSERT_EQ(ibv_dereg_mr(from.mr), 0);
		from.mr = nullptr;
		std::fill(from.bytes.begin(), from.bytes.end(), std::uint8_t{2});
		const ibv_wc wc = pair.client.sent();
		EXPECT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR)
			<< ibv_wc_status_str(wc.status);
		EXPECT_EQ(std::count(to.bytes.begin(), to.bytes.end(), std::uint8_t{2}), 0) << round;
	}
}

TEST(Violation, ARegionGoesInTheMidstOfASend)
{
	constexpr std::uint32_t length = 64 << 20;
	Pair pair;
	Memory from(pair.client.id->pd, length), to(pair.server.id->pd, 64);

	// More than TCP's buffers hold, and no receive: what is on its way is the process's own memory.
	ASSERT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, length)}), 0);
	ASSERT_EQ(ibv_dereg_mr(from.mr), 0);
	from.mr = nullptr;
	std::vector<std::uint8_t>().swap(from.bytes);
	// The message is cut off at what the receive has no room for.
	ASSERT_EQ(pair.server.receive({to.sge(0, 64)}), 0);
	EXPECT_NE(pair.client.sent().status, IBV_WC_SUCCESS);
}

TEST(Violation, ACompletionQueueThatOverflowsTells)
{
	ibv_context **devices = rdma_get_devices(nullptr);
	ibv_cq *cq = ibv_create_cq(devices[0], 2, nullptr, nullptr, 0);
	ibv_async_event event{};

	ASSERT_NE(cq, nullptr);
	{
		Pair pair(16, cq);
		Memory from(pair.client.id->pd, 64), to(pair.server.id->pd, 64);

		for (int i = 0; i < 3; i++)
			ASSERT_EQ(pair.client.post(IBV_WR_RDMA_WRITE, {from.sge(0, 64)}, to.address(), to.mr->rkey), 0);
		ASSERT_EQ(ibv_get_async_event(devices[0], &event), 0);
		EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
		EXPECT_EQ(event.element.cq, cq);
		ibv_ack_async_event(&event);
		// Of both ends: the peer gets a Terminate.
		for (int i = 0; i < 2; i++) {
			ASSERT_EQ(ibv_get_async_event(devices[0], &event), 0);
			EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
			EXPECT_TRUE(event.element.qp == pair.client.id->qp || event.element.qp == pair.server.id->qp);
			ibv_ack_async_event(&event);
		}
	}
	EXPECT_EQ(ibv_destroy_cq(cq), 0);
	rdma_free_devices(devices);
}

// --- the end --------------------------------------------------------------------------------------

TEST(End, ADisconnectFlushesReceives)
{
	Pair pair;
	Memory to(pair.server.id->pd, 64);

	ASSERT_EQ(pair.server.receive({to.sge(0, 64)}, 77), 0);
	ASSERT_EQ(rdma_disconnect(pair.client.id), 0);
	const ibv_wc wc = pair.server.received();
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(wc.wr_id, 77U);
}

TEST(End, WhatWasSentArrivesBeforeTheEnd)
{
	constexpr std::uint32_t length = 8 << 20;

	for (int i = 0; i < 10; i++) {
		auto pair = std::make_unique<Pair>();
		auto from = std::make_unique<Memory>(pair->client.id->pd, length);
		Memory to(pair->server.id->pd, length);

		fill(from->bytes, static_cast<unsigned>(i));
		const std::uint8_t last = static_cast<std::uint8_t>(from->bytes.back() | 1);
		from->bytes.back() = last;
		ASSERT_EQ(pair->client.post(IBV_WR_RDMA_WRITE, {from->sge(0, length)}, to.address(), to.mr->rkey), 0);
		ASSERT_EQ(pair->client.sent().status, IBV_WC_SUCCESS);
		const std::vector<std::uint8_t> sent = from->bytes;
		rdma_destroy_qp(pair->client.id);
		from.reset();
		EXPECT_TRUE(eventually([&] { return has_become(to.bytes, 0, sent); }));
	}
}

/// A responder by TCP alone, with the terms of MPA's revision 1, that reads nothing before it is told to.
class Responder {
public:
	Responder()
	{
		sockaddr_in address = {.sin_family = AF_INET};
		socklen_t length = sizeof(address);

		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		auto *any = reinterpret_cast<sockaddr *>(&address);
		if (listener_ < 0 || bind(listener_, any, length) || listen(listener_, 4) ||
			getsockname(listener_, any, &length))
			throw std::runtime_error("listen");
		port = std::to_string(ntohs(address.sin_port));
		answering_ = std::thread([this] { answer(); });
	}
	~Responder()
	{
		// Its accept() returns even where nobody has connected.
		shutdown(listener_, SHUT_RDWR);
		await();
		close(listener_);
		close(fd_);
	}

	/// It has answered.
	void await()
	{
		if (answering_.joinable())
			answering_.join();
	}

	/// Sends so many bytes at once, and waits until the other side's TCP has them, unless they are urgent. Throws
	/// if it can't.
	void send_part(const std::uint8_t *bytes, std::size_t n, int flags = 0) const
	{
		if (send(fd_, bytes, n, flags | MSG_NOSIGNAL) != static_cast<ssize_t>(n))
			throw std::runtime_error("send");
		if (!flags && !eventually([this] {
			    int queued = 0;

			    return ioctl(fd_, SIOCOUTQ, &queued) == 0 && !queued;
		    }))
			throw std::runtime_error("the bytes are not acknowledged");
	}

	/// The FPDU of a whole Write, without a CRC
	static std::vector<std::uint8_t> write(
		std::uint32_t rkey, std::uint64_t to, const std::uint8_t *payload, std::size_t n)
	{
		std::vector<std::uint8_t> fpdu = {0, 0, 0xc1, 0x40};

		fpdu[0] = static_cast<std::uint8_t>((n + 14) >> 8);
		fpdu[1] = static_cast<std::uint8_t>(n + 14);
		for (int shift = 24; shift >= 0; shift -= 8)
			fpdu.push_back(static_cast<std::uint8_t>(rkey >> shift));
		for (int shift = 56; shift >= 0; shift -= 8)
			fpdu.push_back(static_cast<std::uint8_t>(to >> shift));
		fpdu.insert(fpdu.end(), payload, payload + n);
		fpdu.resize((fpdu.size() + 3) / 4 * 4 + 4);
		return fpdu;
	}

	/// All bytes up to the end; throws if that isn't a FIN.
	std::vector<std::uint8_t> read_all()
	{
		std::vector<std::uint8_t> bytes;
		std::array<std::uint8_t, 65536> part{};
		ssize_t got = 0;

		await();
		while ((got = recv(fd_, part.data(), part.size(), 0)) > 0)
			bytes.insert(bytes.end(), part.begin(), part.begin() + got);
		if (got < 0)
			throw std::runtime_error(std::strerror(errno));
		return bytes;
	}

	std::string port;

private:
	void answer()
	{
		std::array<char, 20> frame{};

		// One that knows revision 2 tries again with revision 1 then.
		while ((fd_ = accept(listener_, nullptr, nullptr)) >= 0) {
			recv(fd_, frame.data(), frame.size(), MSG_WAITALL);
			if (frame[17] == 1)
				break;
			close(fd_);
		}
		std::memcpy(frame.data(), "MPA ID Rep Frame", 16);
		frame[16] &= 0x40; // no markers, and CRCs as the other side wants them
		frame[18] = frame[19] = 0;
		send(fd_, frame.data(), frame.size(), 0);
	}

	int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd_ = -1;
	std::thread answering_;
};

/// Connects to it.
void connect(End &end, Responder &peer)
{
	ibv_qp_init_attr attr = attributes(16);
	rdma_addrinfo *active = resolve(peer.port.c_str(), 0);
	const int error = rdma_create_ep(&end.id, active, nullptr, &attr);

	rdma_freeaddrinfo(active);
	if (error || rdma_connect(end.id, nullptr))
		throw std::runtime_error("rdma_connect");
	peer.await();
}

TEST(Traffic, LongPayloadsArriveInPieces)
{
	constexpr std::size_t length = 60000, small = 20;
	Responder peer;
	End end;

	connect(end, peer);
	Memory to(end.id->pd, length + 64);
	for (unsigned round = 0; round < 40; round++) {
		std::vector<std::uint8_t> payload(length + small);
		const std::size_t first = 1 + round * 701 % 2000, second = first + 16000 + round * 997 % 30000;

		fill(payload, round);
		std::vector<std::uint8_t> bytes =
			Responder::write(to.mr->rkey, to.address(round), payload.data(), length);
		const std::vector<std::uint8_t> next =
			Responder::write(to.mr->rkey, to.address(round + length), payload.data() + length, small);
		bytes.insert(bytes.end(), next.begin(), next.end());
		peer.send_part(bytes.data(), first);
		// TCP hands out no more than what is before urgent data, in one go.
		peer.send_part(bytes.data() + first, second - first, round % 3 ? 0 : MSG_OOB);
		peer.send_part(bytes.data() + second, bytes.size() - second);
		ASSERT_TRUE(eventually([&] { return has_become(to.bytes, round, payload); })) << round;
	}
}

TEST(Violation, AWriteIntoMemoryThatIsUnmapped)
{
	constexpr std::size_t page = 4096, length = 15 * page, gone = 5 * page;
	std::vector<std::uint8_t> payload(length);
	Responder peer;
	End end;
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	connect(end, peer);
	void *memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(memory, MAP_FAILED);
	ibv_mr *mr = ibv_reg_mr(end.id->pd, memory, length, all_rights);
	ASSERT_NE(mr, nullptr);
	fill(payload, 1);
	const auto address = reinterpret_cast<std::uintptr_t>(memory);
	const std::vector<std::uint8_t> bytes = Responder::write(mr->rkey, address, payload.data(), length);
	peer.send_part(bytes.data(), bytes.size());
	volatile const std::uint8_t *last = static_cast<std::uint8_t *>(memory) + length - 1;
	ASSERT_TRUE(eventually([&] { return *last == payload.back(); }));
	// Behind one long payload the next one is received into its place, where TCP finds no memory.
	ASSERT_EQ(munmap(static_cast<std::uint8_t *>(memory) + page, gone), 0);
	peer.send_part(bytes.data(), bytes.size());
	EXPECT_TRUE(eventually(
		[&] { return !ibv_query_qp(end.id->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state != IBV_QPS_RTS; }));
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	munmap(memory, length);
}

TEST(End, ATerminateFollowsWhatIsCutOff)
{
	constexpr std::uint32_t length = 64 << 20;
	Responder peer;
	End end;
	unsigned fpdus = 0;

	connect(end, peer);
	// More than TCP has room for
	Memory from(end.id->pd, length);
	ASSERT_EQ(end.post(IBV_WR_SEND, {from.sge(0, length)}), 0);
	rdma_destroy_qp(end.id);
	const std::vector<std::uint8_t> bytes = peer.read_all();
	EXPECT_LT(bytes.size(), length);
	std::size_t at = 0;
	unsigned opcode = 0;
	for (; at + 4 <= bytes.size(); fpdus++) {
		const unsigned ulpdu = bytes[at] << 8 | bytes[at + 1];

		opcode = bytes[at + 3] & 15;
		at += (2 + ulpdu + 3) / 4 * 4 + 4;
	}
	EXPECT_EQ(at, bytes.size()) << "the end is between FPDUs";
	EXPECT_GT(fpdus, 1U);
	EXPECT_EQ(opcode, 7U) << "a Terminate";
}

TEST(End, AChildHasNothingOfItsParents)
{
	Pair pair;
	Memory from(pair.client.id->pd, 64);
	int status = 0;

	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		ibv_wc wc{};

		_exit(pair.client.post(IBV_WR_SEND, {from.sge(0, 64)}) == EPERM &&
					ibv_poll_cq(pair.client.id->send_cq, 1, &wc) == -EPERM &&
					!ibv_alloc_pd(pair.client.id->verbs) && errno == EPERM
				? 0
				: 1);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	// The parent's connection goes on.
	Memory to(pair.server.id->pd, 64);
	ASSERT_EQ(pair.server.receive({to.sge(0, 64)}), 0);
	ASSERT_EQ(pair.client.post(IBV_WR_SEND, {from.sge(0, 64)}), 0);
	EXPECT_EQ(pair.server.received().status, IBV_WC_SUCCESS);
}

// --- connections ----------------------------------------------------------------------------------

TEST(Connect, NobodyListens)
{
	ibv_qp_init_attr attr = attributes(16);
	rdma_cm_id *listener = nullptr, *id = nullptr;
	rdma_addrinfo *passive = resolve(nullptr, RAI_PASSIVE);

	// A port that is taken, and that nobody listens on
	ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, nullptr), 0);
	rdma_freeaddrinfo(passive);
	rdma_addrinfo *active = resolve(port_of(listener).c_str(), 0);
	ASSERT_EQ(rdma_create_ep(&id, active, nullptr, &attr), 0);
	rdma_freeaddrinfo(active);
	EXPECT_EQ(rdma_connect(id, nullptr), -1);
	EXPECT_EQ(errno, ECONNREFUSED);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

TEST(Connect, ARejectionBringsItsPrivateData)
{
	ibv_qp_init_attr attr = attributes(16);
	rdma_cm_id *listener = nullptr, *request = nullptr, *id = nullptr;
	rdma_addrinfo *passive = resolve(nullptr, RAI_PASSIVE);

	ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, nullptr), 0);
	ASSERT_EQ(rdma_listen(listener, 1), 0);
	rdma_freeaddrinfo(passive);
	rdma_addrinfo *active = resolve(port_of(listener).c_str(), 0);
	ASSERT_EQ(rdma_create_ep(&id, active, nullptr, &attr), 0);
	rdma_freeaddrinfo(active);
	std::thread rejecting([&] {
		ASSERT_EQ(rdma_get_request(listener, &request), 0);
		EXPECT_EQ(rdma_reject(request, "no thanks", 10), 0);
	});
	EXPECT_EQ(rdma_connect(id, nullptr), -1);
	EXPECT_EQ(errno, ECONNREFUSED);
	rejecting.join();
	ASSERT_NE(id->event, nullptr);
	EXPECT_EQ(id->event->event, RDMA_CM_EVENT_REJECTED);
	ASSERT_GE(id->event->param.conn.private_data_len, 10);
	EXPECT_STREQ(static_cast<const char *>(id->event->param.conn.private_data), "no thanks");
	rdma_destroy_ep(request);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

// A peer's first FPDU is wrong: the queue pair ends with a Terminate and a FIN, and the connection when the peer has
// closed its side, later.
TEST(Connect, AStartUpThatEndsInTwoStepsIsToldOf)
{
	constexpr std::array<std::uint8_t, 24> request = {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F',
		'r', 'a', 'm', 'e', 0x10, 2, 0, 4, 0x80, 4, 0x80, 4};
	// A Terminate on a queue that isn't there
	constexpr std::array<std::uint8_t, 24> wrong = {0, 18, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1};
	std::array<std::uint8_t, 256> answer{};
	// Without the ready-to-receive message of revision 2 there is no state between the Reply and the connection.
	const char *options = std::getenv("KIWARP_USER");
	if (options && std::strstr(options, "mpa_rev=1"))
		GTEST_SKIP() << "revision 1 has no ready-to-receive message";
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *listener = nullptr;
	rdma_cm_event *event = nullptr;
	sockaddr_in address{};
	const auto next = [&] {
		pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};

		event = nullptr;
		return poll(&descriptor, 1, 20000) == 1 && !rdma_get_cm_event(channel, &event);
	};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), 0);
	ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&address)), 0);
	ASSERT_EQ(rdma_listen(listener, 1), 0);
	address.sin_port = rdma_get_src_port(listener);
	const int peer = socket(AF_INET, SOCK_STREAM, 0);
	ASSERT_EQ(connect(peer, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
	ASSERT_EQ(write(peer, request.data(), request.size()), static_cast<ssize_t>(request.size()));
	ASSERT_TRUE(next());
	ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_cm_id *id = event->id;
	rdma_ack_cm_event(event);
	ibv_qp_init_attr attr = attributes(16);
	ASSERT_EQ(rdma_create_qp(id, nullptr, &attr), 0);
	ASSERT_EQ(rdma_accept(id, nullptr), 0);
	ASSERT_EQ(recv(peer, answer.data(), 24, MSG_WAITALL), 24);
	ASSERT_EQ(write(peer, wrong.data(), wrong.size()), static_cast<ssize_t>(wrong.size()));
	while (recv(peer, answer.data(), answer.size(), 0) > 0)
		;
	std::this_thread::sleep_for(std::chrono::milliseconds(200));
	close(peer);
	for (const rdma_cm_event_type expected : {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED}) {
		ASSERT_TRUE(next()) << "no event " << expected;
		EXPECT_EQ(event->event, expected);
		EXPECT_EQ(event->id, id);
		rdma_ack_cm_event(event);
	}
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

TEST(Connect, ARequestThatWaitsMovesWithItsListener)
{
	ibv_qp_init_attr attr = attributes(16);
	rdma_event_channel *before = rdma_create_event_channel(), *after = rdma_create_event_channel();
	rdma_cm_id *listener = nullptr, *id = nullptr;
	rdma_cm_event *event = nullptr;
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(rdma_create_id(before, &listener, nullptr, RDMA_PS_TCP), 0);
	ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&address)), 0);
	ASSERT_EQ(rdma_listen(listener, 1), 0);
	rdma_addrinfo *active = resolve(port_of(listener).c_str(), 0);
	ASSERT_EQ(rdma_create_ep(&id, active, nullptr, &attr), 0);
	rdma_freeaddrinfo(active);
	std::thread connecting([&] { EXPECT_EQ(rdma_connect(id, nullptr), -1); });
	pollfd descriptor = {.fd = before->fd, .events = POLLIN, .revents = 0};
	EXPECT_EQ(poll(&descriptor, 1, 20000), 1);
	EXPECT_EQ(rdma_migrate_id(listener, after), 0);
	rdma_destroy_event_channel(before);
	EXPECT_EQ(rdma_get_cm_event(after, &event), 0);
	EXPECT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_cm_id *request = event->id;
	EXPECT_EQ(request->channel, after);
	rdma_ack_cm_event(event);
	EXPECT_EQ(rdma_reject(request, nullptr, 0), 0);
	connecting.join();
	rdma_destroy_id(request);
	rdma_destroy_ep(id);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(after);
}

/// A thread fetches a channel's event, and comes back a millisecond later, when the channel goes. Returns whether it
/// waits there for ever, as rping's does; it is refused if it takes longer than the channel's end waits for it.
static bool waits_for_a_thread_on_its_way()
{
	static std::atomic<bool> acknowledged, refused;
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *id = nullptr;
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	acknowledged = refused = false;
	EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
	std::thread([channel] {
		rdma_cm_event *event = nullptr;

		if (rdma_get_cm_event(channel, &event) == 0 && rdma_ack_cm_event(event) == 0) {
			acknowledged = true;
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
			rdma_get_cm_event(channel, &event);
		}
		refused = true;
	}).detach();
	EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 1000), 0);
	EXPECT_TRUE(eventually([] { return acknowledged.load(); }));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	return !refused;
}

TEST(Connect, AChannelGoesWhileItsThreadIsOnTheWayThere)
{
	bool waits = false;

	// A thread that shares its CPU with others may be later.
	for (int i = 0; i < 100 && !waits; i++)
		waits = waits_for_a_thread_on_its_way();
	EXPECT_TRUE(waits);
}

/// poll() tells a thread of an event, whose identifier goes before the thread fetches it. Returns whether the thread
/// fetched it. If not, it waits for nothing where the channel blocks.
static bool an_event_goes_under_its_thread(bool blocks)
{
	static std::atomic<bool> acknowledged, told, fetched, done;
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *id = nullptr;
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	acknowledged = told = fetched = done = false;
	EXPECT_EQ(fcntl(channel->fd, F_SETFL, blocks ? 0 : O_NONBLOCK), 0);
	EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 1000), 0);
	std::thread([channel] {
		pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};
		rdma_cm_event *event = nullptr;

		EXPECT_EQ(rdma_get_cm_event(channel, &event), 0);
		EXPECT_EQ(rdma_ack_cm_event(event), 0);
		acknowledged = true;
		EXPECT_EQ(poll(&descriptor, 1, -1), 1);
		told = true;
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		if (rdma_get_cm_event(channel, &event) == 0) {
			EXPECT_EQ(rdma_ack_cm_event(event), 0);
			fetched = true;
		}
		done = true;
	}).detach();
	EXPECT_TRUE(eventually([] { return acknowledged.load(); }));
	EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
	EXPECT_TRUE(eventually([] { return told.load(); }));
	rdma_destroy_id(id);
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	const bool was_fetched = fetched;
	EXPECT_TRUE(blocks || eventually([] { return done.load(); }));
	rdma_destroy_event_channel(channel);
	return was_fetched;
}

// As rping's thread does since rdma-core 61.
TEST(Connect, AnIdentifierGoesWhileItsThreadIsOnTheWayToItsEvent)
{
	bool fetched = false, waited = true;

	// A thread that shares its CPU with others may be later, the end of an identifier too.
	for (int i = 0; i < 100 && !fetched; i++)
		fetched = an_event_goes_under_its_thread(true);
	EXPECT_TRUE(fetched);
	// A thread of a channel that doesn't block isn't waited for: it finds nothing.
	for (int i = 0; i < 100 && waited; i++)
		waited = an_event_goes_under_its_thread(false);
	EXPECT_FALSE(waited);
}

// As rping's thread does where it is late. The memory of what has gone is not read.
TEST(Connect, AThreadIsInItsChannelWhenThatGoes)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 500; i++) {
		rdma_event_channel *channel = rdma_create_event_channel();
		rdma_cm_id *id = nullptr;

		ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
		std::thread fetching([channel] {
			rdma_cm_event *event = nullptr;

			do {
				errno = 0;
				if (!rdma_get_cm_event(channel, &event))
					rdma_ack_cm_event(event);
			} while (errno == 0 || errno == EAGAIN);
			EXPECT_EQ(errno, EBADF);
		});
		EXPECT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
		EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 1000), 0);
		EXPECT_EQ(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(channel);
		fetching.join();
	}
}

TEST(Connect, AChannelGoesBeforeItsIdentifiers)
{
	rdma_event_channel *gone = rdma_create_event_channel(), *other = rdma_create_event_channel();
	rdma_cm_id *id = nullptr, *moved = nullptr, *refused = nullptr;
	rdma_cm_event *event = nullptr;
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(rdma_create_id(gone, &id, nullptr, RDMA_PS_TCP), 0);
	ASSERT_EQ(rdma_create_id(other, &moved, nullptr, RDMA_PS_TCP), 0);
	rdma_destroy_event_channel(gone);
	rdma_destroy_event_channel(gone);
	// Another channel isn't in its place.
	rdma_event_channel *next = rdma_create_event_channel();
	EXPECT_NE(next, gone);
	EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 1000), 0);
	EXPECT_EQ(rdma_get_cm_event(gone, &event), -1);
	EXPECT_EQ(errno, EBADF);
	EXPECT_EQ(rdma_create_id(gone, &refused, nullptr, RDMA_PS_TCP), -1);
	EXPECT_EQ(errno, EBADF);
	EXPECT_EQ(rdma_migrate_id(moved, gone), -1);
	EXPECT_EQ(errno, EBADF);
	// Its identifier can still go to another one, with its event.
	EXPECT_EQ(rdma_migrate_id(id, other), 0);
	ASSERT_EQ(rdma_get_cm_event(other, &event), 0);
	EXPECT_EQ(event->id, id);
	rdma_ack_cm_event(event);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(moved), 0);
	rdma_destroy_event_channel(other);
	rdma_destroy_event_channel(next);
}

TEST(Connect, ACancelledThreadKeepsNoDescriptor)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	const int fd = channel->fd;
	std::atomic<bool> there = false;
	std::thread fetching([&] {
		rdma_cm_event *event = nullptr;

		there = true;
		rdma_get_cm_event(channel, &event);
	});

	EXPECT_TRUE(eventually([&] { return there.load(); }));
#ifdef __SANITIZE_ADDRESS__
	// libc opens libgcc_s for the first one, and keeps what it has allocated.
	const __lsan::ScopedDisabler libc_allocates;
#endif
	pthread_cancel(fetching.native_handle());
	fetching.join();
	rdma_destroy_event_channel(channel);
	EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

// One thread fetches the events that another one's identifiers have, until they go.
TEST(Connect, AnIdentifierGoesWhileItsEventIsFetched)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	std::atomic<bool> over = false;
	sockaddr_in address{};
	std::thread fetching([&] {
		while (!over) {
			pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};
			rdma_cm_event *event = nullptr;

			if (poll(&descriptor, 1, 10) == 1 && !rdma_get_cm_event(channel, &event))
				rdma_ack_cm_event(event);
		}
	});

	ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 20000; i++) {
		rdma_cm_id *id = nullptr;

		ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
		EXPECT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), 100), 0);
		EXPECT_EQ(rdma_destroy_id(id), 0);
	}
	over = true;
	fetching.join();
	rdma_destroy_event_channel(channel);
}

TEST(Connect, AListenerThatGoesRejectsWhatNobodyHasHeardOf)
{
	ibv_qp_init_attr attr = attributes(16);
	rdma_cm_id *listener = nullptr, *id = nullptr;
	rdma_addrinfo *passive = resolve(nullptr, RAI_PASSIVE);

	ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, nullptr), 0);
	ASSERT_EQ(rdma_listen(listener, 1), 0);
	rdma_freeaddrinfo(passive);
	rdma_addrinfo *active = resolve(port_of(listener).c_str(), 0);
	ASSERT_EQ(rdma_create_ep(&id, active, nullptr, &attr), 0);
	rdma_freeaddrinfo(active);
	std::thread going([&] {
		pollfd descriptor = {.fd = listener->channel->fd, .events = POLLIN, .revents = 0};

		EXPECT_EQ(poll(&descriptor, 1, 30000), 1);
		rdma_destroy_ep(listener);
	});
	EXPECT_EQ(rdma_connect(id, nullptr), -1);
	EXPECT_EQ(errno, ECONNREFUSED);
	going.join();
	rdma_destroy_ep(id);
}

TEST(Connect, BadArgumentsAreRefused)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *id = nullptr;
	rdma_conn_param param{};

	ASSERT_NE(channel, nullptr);
	ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(id, nullptr, nullptr, 100), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_bind_addr(id, nullptr), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_connect(id, &param), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_accept(id, &param), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_disconnect(id), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_resolve_route(id, 100), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(Connect, ManyAtOnce)
{
	std::vector<std::unique_ptr<Pair>> pairs;

	for (int i = 0; i < 50; i++)
		pairs.push_back(std::make_unique<Pair>(8));
	for (const auto &pair : pairs) {
		Memory from(pair->client.id->pd, 8), to(pair->server.id->pd, 8);

		ASSERT_EQ(pair->server.receive({to.sge(0, 8)}), 0);
		ASSERT_EQ(pair->client.post(IBV_WR_SEND, {from.sge(0, 8)}), 0);
		EXPECT_EQ(pair->server.received().status, IBV_WC_SUCCESS);
	}
}

// --- the device -----------------------------------------------------------------------------------

TEST(Device, IsListedAndHasNoFileOfTheKernels)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	ibv_device_attr attr{};

	ASSERT_NE(list, nullptr);
	ASSERT_GE(count, 1);
	ibv_device *device = list[count - 1];
	EXPECT_STREQ(ibv_get_device_name(device), "kiwu0");
	EXPECT_EQ(device->transport_type, IBV_TRANSPORT_IWARP);
	ibv_context *context = ibv_open_device(device);
	ASSERT_NE(context, nullptr);
	EXPECT_EQ(ibv_query_device(context, &attr), 0);
	EXPECT_EQ(attr.max_qp_wr, 16384);
	EXPECT_EQ(attr.max_sge, 16);
	EXPECT_EQ(ibv_close_device(context), 0);
	ibv_free_device_list(list);
}

TEST(Device, HasCrcsComputedByIsaLWhereItIsInstalled)
{
	ibv_device **list = ibv_get_device_list(nullptr);
	ibv_context *context = nullptr;
	for (ibv_device **device = list; *device && !context; device++)
		if (ibv_get_device_name(*device) == std::string("kiwu0"))
			context = ibv_open_device(*device);
	ASSERT_NE(context, nullptr);
	void *loaded = dlopen("libisal.so.2", RTLD_NOW | RTLD_NOLOAD), *there = dlopen("libisal.so.2", RTLD_NOW);

	EXPECT_EQ(loaded, there);
	for (void *library : {loaded, there})
		if (library)
			dlclose(library);
	EXPECT_EQ(ibv_close_device(context), 0);
	ibv_free_device_list(list);
}

/// A name that headers may lack
template <typename Function>
Function *newer(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

TEST(Device, AllocatesBuffers)
{
	constexpr std::size_t size = 10001;
	// As struct ibv_mr_init_attr
	struct {
		std::size_t length;
		int access;
		std::uint64_t mask, iova;
		void *address;
		int fd;
		std::uint64_t fd_offset;
		void *dma, *buffer;
	} attr{};
	constexpr std::uint64_t has_iova = 1, has_address = 2, has_file = 4, has_buffer = 32;
	auto *const alloc = newer<void *(ibv_pd *, std::size_t, void **)>("ibv_alloc_buf");
	auto *const reg = newer<ibv_mr *(ibv_pd *, void *, void *, std::size_t, int)>("ibv_reg_buf_mr");
	auto *const reg_ex = newer<ibv_mr *(ibv_pd *, void *)>("ibv_reg_mr_ex");
	auto *const give_back = newer<void(void *)>("ibv_free_buf");
	auto *const file_of = newer<int(void *)>("ibv_export_buf_dmabuf_fd");
	Pair pair;
	ibv_pd *pd = pair.client.id->pd;
	void *buffer = nullptr;

	ASSERT_TRUE(alloc && reg && reg_ex && give_back && file_of);
	EXPECT_EQ(alloc(pd, 0, &buffer), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(alloc(pd, SIZE_MAX, &buffer), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	auto *bytes = static_cast<std::uint8_t *>(alloc(pd, size, &buffer));
	ASSERT_NE(bytes, nullptr);
	EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)), 0U);
	for (const std::size_t at : {std::size_t{1}, size + 1, SIZE_MAX}) {
		EXPECT_EQ(reg(pd, buffer, bytes + at, size, all_rights), nullptr) << at;
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_EQ(reg(pd, &attr, bytes, size, all_rights), nullptr) << "it is no buffer";
	EXPECT_EQ(file_of(buffer), -1);
	EXPECT_EQ(errno, EOPNOTSUPP);
	ibv_mr *mr = reg(pd, buffer, bytes + 1, size - 1, all_rights);
	ASSERT_NE(mr, nullptr);
	attr = {.length = 64, .access = all_rights, .mask = has_iova | has_address | has_buffer, .iova = 4096};
	attr.address = bytes + 64;
	attr.buffer = buffer;
	ibv_mr *at_4096 = reg_ex(pd, &attr);
	ASSERT_NE(at_4096, nullptr);
	bytes[64] = 7;
	Memory to(pair.server.id->pd, 1);
	EXPECT_EQ(pair.client.post(IBV_WR_RDMA_WRITE, {{4096, 1, at_4096->lkey}}, to.address(), to.mr->rkey), 0);
	EXPECT_EQ(pair.client.sent().status, IBV_WC_SUCCESS);
	EXPECT_TRUE(eventually([&] { return has_become(to.bytes, 0, {7}); }));
	EXPECT_EQ(ibv_dereg_mr(at_4096), 0);
	attr.length = size;
	EXPECT_EQ(reg_ex(pd, &attr), nullptr) << "beyond its end";
	EXPECT_EQ(errno, EINVAL);
	attr.mask = has_iova;
	EXPECT_EQ(reg_ex(pd, &attr), nullptr) << "without an address";
	EXPECT_EQ(errno, EINVAL);
	attr.mask = has_address | has_file;
	EXPECT_EQ(reg_ex(pd, &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	give_back(buffer);
}

TEST(Device, WhatItHasntIsRefused)
{
	Pair pair;
	ibv_pd *pd = pair.client.id->pd;
	ibv_qp_init_attr attr = attributes(16);

	attr.send_cq = attr.recv_cq = pair.client.id->send_cq;
	attr.qp_type = IBV_QPT_UC;
	EXPECT_EQ(ibv_create_qp(pd, &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_reg_mr(pd, reinterpret_cast<void *>(0x1000), 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(ibv_reg_mr(pd, &attr, sizeof(attr), IBV_ACCESS_REMOTE_WRITE), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_reg_mr(pd, &attr, sizeof(attr), IBV_ACCESS_ON_DEMAND), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_reg_mr(pd, &attr, sizeof(attr), 1 << 19), nullptr);
	EXPECT_EQ(errno, EINVAL) << "there is no such right";
	EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
}

} // namespace
} // namespace user
