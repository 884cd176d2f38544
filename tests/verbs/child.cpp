// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "child.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <rdma/ib_user_verbs.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "cq.hpp"
#include "kiwarp-abi.h"
#include "qp.hpp"
#include "srq.hpp"

namespace vt {

int forked(const std::function<bool()> &work)
{
	const pid_t child = fork();

	if (child < 0)
		fail("fork", errno);
	if (child == 0) {
		bool good = false;

		try {
			good = work();
		} catch (const std::exception &error) {
			std::cerr << "in a child: " << error.what() << '\n';
		}
		_exit(good && !testing::Test::HasFailure() ? 0 : 1);
	}
	int status = -1;
	if (waitpid(child, &status, 0) != child)
		fail("waitpid", errno);
	return status;
}

Child::Child(std::vector<std::string> arguments)
{
	std::vector<char *> argv;
	std::string program = "verbs_test";

	argv.push_back(program.data());
	for (std::string &argument : arguments)
		argv.push_back(argument.data());
	argv.push_back(nullptr);
	if (const int error = posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ))
		fail("posix_spawn", error);
}

Child::~Child()
{
	if (!reaped_)
		kill();
}

bool Child::running()
{
	if (!reaped_)
		reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
	return !reaped_;
}

void Child::wait_stopped()
{
	int status = 0;

	wait_until([&] { return waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_; }, "a child to stop");
	if (WIFSTOPPED(status))
		return;
	reaped_ = true;
	status_ = status;
	fail("the child has ended");
}

void Child::go_on() const
{
	::kill(pid_, SIGCONT);
}

void Child::kill()
{
	::kill(pid_, SIGKILL);
	while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR)
		;
	reaped_ = true;
}

namespace {

/// Posts and polls for ever; the parent is to kill us, we don't leave by ourselves.
[[noreturn]] void flood(const Side &side, const std::function<int()> &post)
{
	for (;;) {
		while (post() == 0)
			;
		if (side.sent().status != IBV_WC_SUCCESS)
			_exit(1);
	}
}

/// Connects to the parent and sends it 64 KB messages for ever, a new one for each empty one that it answers.
[[noreturn]] void part_sender(std::uint16_t port)
{
	const auto side = start_connecting(port, {});
	const Region from(side->pd(), 65536);
	int credit = 32;

	side->receive_empty(static_cast<int>(side->cap().max_recv_wr));
	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
	for (;;) {
		for (; credit > 0; credit--)
			if (side->send({from.sge()}))
				_exit(1);
		credit += side->received().status == IBV_WC_SUCCESS && side->receive() == 0;
		for (const ibv_wc &wc : poll_all(side->send_cq()))
			if (wc.status != IBV_WC_SUCCESS)
				_exit(1);
	}
}

/// Sends the parent a message, stops, and once it goes on sends 64 more; stops again when they are completed.
[[noreturn]] void part_sent(std::uint16_t port)
{
	Options options;
	options.cap.max_send_wr = 128;
	const auto side = start_connecting(port, options);
	const Region from(side->pd(), 2048);

	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
	for (const int count : {1, 64}) {
		for (int i = 0; i < count; i++)
			if (side->send({from.sge()}))
				_exit(1);
		for (int i = 0; i < count; i++)
			if (side->sent().status != IBV_WC_SUCCESS)
				_exit(1);
		(void)raise(SIGSTOP);
	}
	for (;;)
		pause();
}

/// Connects, tells the parent of a region by a message, and lets it write there.
[[noreturn]] void part_target(std::uint16_t port)
{
	const auto side = start_connecting(port, {});
	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
	const Region target(side->pd(), 1 << 20);
	const Region message(side->pd(), 16);
	const std::uint64_t address = target.address();
	const std::uint32_t rkey = target.rkey();

	std::memcpy(message.data(), &address, sizeof(address));
	std::memcpy(message.data() + 8, &rkey, sizeof(rkey));
	if (side->send({message.sge()}))
		_exit(1);
	for (;;)
		pause();
}

/// Connects, and gives none of the messages that come a receive.
[[noreturn]] void part_shared(std::uint16_t port)
{
	Caller caller(port);
	const Pd pd = make_pd(caller.id->verbs);
	const Srq srq = make_srq(pd.get(), 8);
	Options options;
	options.srq = srq.get();
	Side side(std::move(caller.id), caller.events, options);
	rdma_conn_param param = parameters({}, 1);

	if (rdma_connect(side.id(), &param))
		_exit(1);
	for (;;)
		pause();
}

/// Connects to itself and floods itself: both ends die at once.
[[noreturn]] void part_both()
{
	Pair pair;
	const Region from(pair.a().pd(), 1 << 20);
	const Region to(pair.b().pd(), 1 << 20);

	flood(pair.a(), [&] { return pair.a().write({from.sge()}, {.remote = to.address(), .rkey = to.rkey()}); });
}

// --- scribbling -----------------------------------------------------------------------------------

struct Range {
	std::uint8_t *start;
	std::size_t size;
};

Range range_of(void *first_slot, std::uint32_t entries, std::size_t stride)
{
	return {static_cast<std::uint8_t *>(first_slot) - KIW_RING_HEADER, KIW_RING_HEADER + entries * stride};
}

/// The queue that a side's receives come from
kiw::WorkQueue &receives_of(const Side &side)
{
	return side.qp()->srq ? kiw::Srq::from(side.qp()->srq).queue : kiw::Qp::from(side.qp()).rq;
}

/// All rings of both sides, as the provider has them.
std::vector<Range> rings_of(Pair &pair)
{
	std::vector<Range> rings;

	for (const Side *side : {&pair.a(), &pair.b()}) {
		for (kiw::WorkQueue *queue : {&kiw::Qp::from(side->qp()).sq, &receives_of(*side)}) {
			const kiw::WorkRing &ring = queue->ring;

			rings.push_back(
				range_of(ring.slot(0), ring.entries(), std::size_t(ring.slot(1) - ring.slot(0))));
		}
		for (ibv_cq *cq : {side->send_cq(), side->recv_cq()}) {
			const kiw::CompletionRing &ring = kiw::Cq::from(cq).ring;

			rings.push_back(range_of(&ring.slot(0), ring.entries(), sizeof(kiw_cqe)));
		}
	}
	return rings;
}

class Scribbler {
public:
	explicit Scribbler(std::uint32_t seed) : random_(seed) {}

	void play()
	{
		for (int i = 0; i < 30; i++) {
			// In a third of the rounds b takes its receives from a shared queue.
			const Pd pd = make_pd(server_device());
			const Srq srq = make_srq(pd.get(), 64);
			Options server;
			server.srq = i % 3 ? nullptr : srq.get();
			Pair pair({}, server);
			const Region at_a(pair.a().pd(), 65536);
			const Region at_b(pair.b().pd(), 65536);
			keys_ = {at_a.rkey(), at_b.rkey()};
			addresses_ = {at_a.address(), at_b.address()};
			for (int n = 0; n < 8; n++) {
				(void)pair.a().receive({at_a.sge(0, 100)});
				(void)pair.b().receive({at_b.sge(0, 100)});
				receive_shared(srq.get(), at_b.sge(0, 100));
			}
			scribble(pair, i % 4);
		}
	}

private:
	static void receive_shared(ibv_srq *srq, ibv_sge sge)
	{
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		(void)ibv_post_srq_recv(srq, &wr, &bad);
	}

	std::uint32_t number(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }

	/// The ring that is scribbled on stays mapped: the provider isn't told of the new one.
	void resize_shared(const ibv_srq *srq)
	{
		struct {
			ib_uverbs_cmd_hdr header;
			std::uint32_t handle, mask, max_wr, srq_limit;
			kiw_create_srq_resp *response;
		} command{};
		kiw_create_srq_resp response{};

		// Most are refused: the index can't be, or moves.
		command.header.command = IB_USER_VERBS_CMD_MODIFY_SRQ;
		command.header.in_words = sizeof(command) / 4;
		command.handle = srq->handle;
		command.mask = IBV_SRQ_MAX_WR;
		command.max_wr = number(1024);
		command.response = &response;
		if (write(srq->context->cmd_fd, &command, sizeof(command)) < 0 && errno == EBADF)
			_exit(3);
	}

	/// Whatever comes; mode says what is likelier.
	void scribble(Pair &pair, int mode)
	{
		const std::vector<Range> rings = rings_of(pair);
		std::atomic<bool> stop = false;

		// Mode 3: requests change while the kernel looks at them.
		std::thread second([&, seed = random_()] {
			std::mt19937 random(static_cast<std::uint32_t>(seed));
			while (mode == 3 && !stop) {
				const Range &ring = rings[random() % rings.size()];
				ring.start[KIW_RING_HEADER + random() % 512] ^= static_cast<std::uint8_t>(random());
			}
		});
		for (int round = 0; round < 100; round++) {
			for (const Range &ring : rings) {
				if (mode == 0)
					anything(ring);
				else
					plausible(ring);
			}
			for (const Side *side : {&pair.a(), &pair.b()}) {
				ring_doorbell(*side, true);
				ring_doorbell(*side, false);
				if (side->qp()->srq) {
					ring_shared_doorbell(side->qp()->srq);
					resize_shared(side->qp()->srq);
				}
			}
			if (mode == 2 && round == 50) {
				(void)pair.a().modify(IBV_QPS_ERR);
			}
		}
		stop = true;
		second.join();
	}

	void anything(const Range &ring)
	{
		for (int i = 0; i < 16; i++) {
			const std::size_t place =
				number(4) ? number(KIW_RING_HEADER) : number(static_cast<std::uint32_t>(ring.size));
			ring.start[place] = static_cast<std::uint8_t>(random_());
		}
	}

	/// Requests that are nearly right, and an index that moves a little, so that the kernel looks at them.
	void plausible(const Range &ring)
	{
		auto *words = reinterpret_cast<std::uint32_t *>(ring.start);
		const std::size_t slots = (ring.size - KIW_RING_HEADER) / sizeof(kiw_wqe);

		for (int i = 0; i < 8; i++) {
			auto *wqe = reinterpret_cast<kiw_wqe *>(ring.start + KIW_RING_HEADER) +
				    number(static_cast<std::uint32_t>(slots));
			wqe->opcode = static_cast<std::uint8_t>(number(KIW_WR_LOCAL_INV + 2));
			wqe->flags = static_cast<std::uint8_t>(number(32));
			wqe->num_sge = static_cast<std::uint8_t>(number(10) ? number(3) : random_());
			wqe->inline_len = number(10) ? number(300) : static_cast<std::uint32_t>(random_());
			wqe->rkey = number(4) ? keys_.at(number(2)) : static_cast<std::uint32_t>(random_());
			wqe->remote_addr = addresses_.at(number(2)) + number(70000);
			auto *sge = reinterpret_cast<kiw_sge *>(wqe + 1);
			if (reinterpret_cast<std::uint8_t *>(sge + 1) <= ring.start + ring.size)
				*sge = {addresses_.at(number(2)) + number(70000),
					number(3) ? number(2000) : static_cast<std::uint32_t>(random_()),
					keys_.at(number(2))};
		}
		words[0] += number(20) ? number(4) : static_cast<std::uint32_t>(random_());
		if (!number(20))
			words[16] = static_cast<std::uint32_t>(random_());
		if (!number(20))
			words[17] = static_cast<std::uint32_t>(random_());
	}

	std::mt19937 random_;
	std::vector<std::uint32_t> keys_;
	std::vector<std::uint64_t> addresses_;
};

} // namespace

namespace {

/// The command of a doorbell, for a QP or an SRQ
void write_doorbell(int fd, std::uint32_t number, std::uint32_t handle, std::size_t wqe_size)
{
	struct {
		ib_uverbs_cmd_hdr header;
		std::uint64_t response;
		std::uint32_t handle, wr_count, sge_count, wqe_size;
	} command{};
	std::uint32_t bad_wr = 0;

	command.header.command = number;
	command.header.in_words = sizeof(command) / 4;
	command.header.out_words = 1;
	command.response = reinterpret_cast<std::uintptr_t>(&bad_wr);
	command.handle = handle;
	command.wqe_size = static_cast<std::uint32_t>(wqe_size);
	if (write(fd, &command, sizeof(command)) < 0 && errno == EBADF)
		_exit(3);
}

} // namespace

void ring_doorbell(const Side &side, bool send)
{
	write_doorbell(side.context()->cmd_fd, send ? IB_USER_VERBS_CMD_POST_SEND : IB_USER_VERBS_CMD_POST_RECV,
		side.qp()->handle, send ? sizeof(ib_uverbs_send_wr) : sizeof(ib_uverbs_recv_wr));
}

void ring_shared_doorbell(const ibv_srq *srq)
{
	write_doorbell(srq->context->cmd_fd, IB_USER_VERBS_CMD_POST_SRQ_RECV, srq->handle, sizeof(ib_uverbs_recv_wr));
}

int play_part(const std::vector<std::string> &arguments)
{
	if (arguments.empty() || arguments[0].rfind("part-", 0) != 0)
		return -1;
	const std::string &part = arguments[0];

	try {
		if (part == "part-bereaved")
			return part_bereaved(arguments.at(1));
		if (part == "part-limited")
			return part_limited(arguments.at(1), arguments.at(2));
		if (part == "part-grouped")
			return part_grouped(arguments.at(1), arguments.at(2));
		if (part == "part-windows")
			return part_windows(arguments.at(1));
		if (part == "part-importer")
			return part_importer(std::stoi(arguments.at(1)));
		const auto number = arguments.size() > 1 ? static_cast<std::uint32_t>(std::stoul(arguments[1])) : 0U;
		if (part == "part-sender")
			part_sender(static_cast<std::uint16_t>(number));
		if (part == "part-sent")
			part_sent(static_cast<std::uint16_t>(number));
		if (part == "part-target")
			part_target(static_cast<std::uint16_t>(number));
		if (part == "part-thief")
			return part_thief(static_cast<std::uint16_t>(number),
				static_cast<std::uint32_t>(std::stoul(arguments.at(2))));
		if (part == "part-shared")
			part_shared(static_cast<std::uint16_t>(number));
		if (part == "part-both")
			part_both();
		if (part == "part-scribbler") {
			Scribbler(number).play();
			return 0;
		}
	} catch (const std::exception &error) {
		std::cerr << part << ": " << error.what() << '\n';
	}
	return 1;
}

} // namespace vt
