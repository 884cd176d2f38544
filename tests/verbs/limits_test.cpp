// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a process may have of the kernel's memory: the limit of locked memory, numbers of objects, requests that
// nobody decides on; and that nothing is lost by calls that fail.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "child.hpp"
#include "kiwarp-abi.h"

namespace vt {

namespace {

constexpr std::size_t limit = 1 << 20;
constexpr uid_t nobody = 65534;

void require(bool good, const std::string &what)
{
	if (!good)
		throw std::runtime_error(what + " (" + std::strerror(errno) + ")");
}

// --- in a process without rights ------------------------------------------------------------------

void regions_count(ibv_pd *pd)
{
	void *memory = mmap(nullptr, limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const auto reg = [&](std::size_t octets) {
		return Mr(ibv_reg_mr(pd, memory, octets, all_access));
	};

	Mr first = reg(limit / 2);
	const Mr second = reg(limit / 4);
	require(first && second, "a region below the limit was refused");
	require(!reg(limit / 2) && errno == ENOMEM, "a region beyond the limit wasn't refused");
	first.reset();
	require(reg(limit / 2) != nullptr, "what was given back can't be had");
}

void threads_share_it(ibv_pd *pd)
{
	constexpr std::size_t octets = 65536;
	void *memory = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	std::atomic<std::size_t> most = 0;

	for (int round = 0; round < 20; round++) {
		std::vector<std::vector<Mr>> regions(8);
		std::vector<std::thread> threads;
		for (auto &mine : regions)
			threads.emplace_back([&] {
				while (Mr mr{ibv_reg_mr(pd, memory, octets, all_access)})
					mine.push_back(std::move(mr));
			});
		for (auto &thread : threads)
			thread.join();
		std::size_t all = 0;
		for (const auto &mine : regions)
			all += mine.size() * octets;
		require(all <= limit && pinned() <= limit, "more than the limit is locked");
		most = std::max<std::size_t>(most, all);
	}
	require(most >= limit / 2, "the limit can't be used");
}

ibv_qp_init_attr qp_attributes(ibv_cq *cq)
{
	ibv_qp_init_attr attr{};

	attr.send_cq = attr.recv_cq = cq;
	attr.cap = {.max_send_wr = 512, .max_recv_wr = 512, .max_send_sge = 4, .max_recv_sge = 4};
	attr.qp_type = IBV_QPT_RC;
	return attr;
}

void rings_count(ibv_context *context, ibv_pd *pd)
{
	constexpr std::size_t too_many = 100; // of 64 KB each
	const std::size_t before = pinned();
	{
		std::vector<Cq> cqs;
		for (Cq cq; cqs.size() < too_many && (cq = Cq(ibv_create_cq(context, 1024, nullptr, nullptr, 0)));)
			cqs.push_back(std::move(cq));
		require(errno == ENOMEM, "the wrong error for a completion queue beyond the limit");
		require(!cqs.empty() && pinned() > limit / 2 && pinned() <= limit, "completion queues don't count");
		void *memory = mmap(nullptr, limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		require(!Mr(ibv_reg_mr(pd, memory, limit / 2, all_access)), "regions have a sum of their own");
	}
	require(pinned() == before, "completion queues that are gone count");
	{
		const Cq cq = make_cq(context, 16);
		std::vector<Qp> qps;
		ibv_qp_init_attr attr = qp_attributes(cq.get());
		for (Qp qp; qps.size() < too_many && (qp = Qp(ibv_create_qp(pd, &attr)));)
			qps.push_back(std::move(qp));
		require(errno == ENOMEM, "the wrong error for a queue pair beyond the limit");
		require(!qps.empty() && pinned() > limit / 2 && pinned() <= limit, "queue pairs don't count");
	}
	require(pinned() == before, "queue pairs that are gone count");
}

} // namespace

int part_limited(const std::string &device, const std::string &what)
{
	const rlimit locked = {.rlim_cur = limit, .rlim_max = limit};

	require(!setrlimit(RLIMIT_MEMLOCK, &locked), "setrlimit");
	require(!setresgid(nobody, nobody, nobody) && !setresuid(nobody, nobody, nobody), "setresuid");
	const Context context = open_device(device);
	const Pd pd = make_pd(context.get());
	if (what == "regions")
		regions_count(pd.get());
	else if (what == "threads")
		threads_share_it(pd.get());
	else
		rings_count(context.get(), pd.get());
	return 0;
}

int part_grouped(const std::string &device, const std::string &group)
{
	std::ofstream(group + "/cgroup.procs") << getpid() << std::flush;
	const Context context = open_device(device);
	std::vector<Pd> pds;

	for (Pd pd; pds.size() < 100 && (pd = Pd(ibv_alloc_pd(context.get())));)
		pds.push_back(std::move(pd));
	require(pds.size() == 8 && errno == EAGAIN, "the group has " + std::to_string(pds.size()) + " objects");
	pds.pop_back();
	require(make_pd(context.get()) != nullptr, "what was given back can't be had");
	return 0;
}

int part_thief(std::uint16_t port, std::uint32_t qp_num)
{
	Caller caller(port);
	rdma_conn_param param = parameters({}, 1);

	param.qp_num = qp_num;
	require(rdma_connect(caller.id.get(), &param) != 0, "connected the QP of another process");
	require(errno == EINVAL, "the wrong error");
	return 0;
}

namespace {

int status_of(std::vector<std::string> part)
{
	Child child(std::move(part));

	wait_until([&] { return !child.running(); }, "the child");
	return child.status();
}

// --- locked memory --------------------------------------------------------------------------------

class LockedMemory : public testing::TestWithParam<const char *> {};

TEST_P(LockedMemory, HasTheLimitOfTheProcess)
{
	EXPECT_EQ(status_of({"part-limited", ibv_get_device_name(server_device()->device), GetParam()}), 0);
}

INSTANTIATE_TEST_SUITE_P(
	By, LockedMemory, testing::Values("regions", "threads", "rings"), [](const auto &test) { return test.param; });

// --- calls that fail ------------------------------------------------------------------------------

/// Commands as the provider would not send them.
class Commands : public testing::Test {
protected:
	~Commands() override { munmap(nowhere, 4096); }

	/// The error of a command with that address for its response; own is the driver's part.
	template <typename Core>
	int error_of(std::uint32_t number, Core core, std::size_t response_octets, void *response,
		std::span<const std::byte> own = {})
	{
		std::array<std::byte, 256> whole{};
		const std::size_t octets = sizeof(ib_uverbs_cmd_hdr) + sizeof(core) + own.size();
		const ib_uverbs_cmd_hdr header = {.command = number,
			.in_words = static_cast<std::uint16_t>(octets / 4),
			.out_words = static_cast<std::uint16_t>(response_octets / 4)};

		core.response = reinterpret_cast<std::uintptr_t>(response);
		std::memcpy(whole.data(), &header, sizeof(header));
		std::memcpy(whole.data() + sizeof(header), &core, sizeof(core));
		std::ranges::copy(own, whole.begin() + sizeof(header) + sizeof(core));
		return write(context->cmd_fd, whole.data(), octets) < 0 ? errno : 0;
	}

	int create_cq_error(std::size_t response_octets, void *response)
	{
		ib_uverbs_create_cq command{};

		command.cqe = 16;
		command.comp_channel = -1;
		return error_of(IB_USER_VERBS_CMD_CREATE_CQ, command, response_octets, response);
	}

	int create_qp_error(std::size_t response_octets, void *response, const kiw_create_qp_req &own = {},
		std::size_t own_octets = sizeof(kiw_create_qp_req))
	{
		ib_uverbs_create_qp command{};

		command.pd_handle = pd->handle;
		command.send_cq_handle = command.recv_cq_handle = cq->handle;
		command.max_send_wr = command.max_recv_wr = 4;
		command.max_send_sge = command.max_recv_sge = 1;
		command.qp_type = IBV_QPT_RC;
		return error_of(IB_USER_VERBS_CMD_CREATE_QP, command, response_octets, response,
			std::as_bytes(std::span(&own, 1)).first(own_octets));
	}

	void make_and_destroy(std::size_t own_octets)
	{
		ASSERT_EQ(create_qp_error(qp_response, somewhere.data(), {}, own_octets), 0);
		ib_uverbs_create_qp_resp created{};
		std::memcpy(&created, somewhere.data(), sizeof(created));
		const ib_uverbs_destroy_qp destroy = {.qp_handle = created.qp_handle};
		EXPECT_EQ(error_of(IB_USER_VERBS_CMD_DESTROY_QP, destroy, sizeof(ib_uverbs_destroy_qp_resp),
				  somewhere.data()),
			0);
	}

	static constexpr std::size_t cq_response = sizeof(ib_uverbs_create_cq_resp) + sizeof(kiw_create_cq_resp);
	static constexpr std::size_t qp_response = sizeof(ib_uverbs_create_qp_resp) + sizeof(kiw_create_qp_resp);

	ibv_context *context = server_device();
	Pd pd = make_pd(context);
	Cq cq = make_cq(context, 16);
	void *nowhere = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	std::array<std::uint8_t, 256> somewhere{};
};

TEST_F(Commands, NothingIsLostWhereTheResponseCannotBeWritten)
{
	ibv_device_attr limits{};
	ASSERT_EQ(ibv_query_device(context, &limits), 0);
	const std::size_t before = pinned();

	// More often than there may be completion queues: one that still counted would be one too many.
	for (int i = 0; i <= limits.max_cq; i++)
		ASSERT_EQ(create_cq_error(cq_response, nowhere), EFAULT);
	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(create_qp_error(qp_response, nowhere), EFAULT);
	EXPECT_EQ(pinned(), before);
	EXPECT_NE(make_cq(context, 16), nullptr);
}

TEST_F(Commands, OfAnotherLengthAreRefused)
{
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {}, KIW_CREATE_QP_REQ_MIN - 8), EINVAL);
	EXPECT_EQ(create_qp_error(qp_response - 8, somewhere.data()), EINVAL);
	EXPECT_EQ(create_cq_error(cq_response - 8, somewhere.data()), EINVAL);
}

TEST_F(Commands, WithReservedBitsAreRefused)
{
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {.flags = 1}), EINVAL);
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {.reserved = 1}), EINVAL);
	// Of datagram queue pairs
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {.udp_port = 5000}), EINVAL);
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {.seg_size = 1408}), EINVAL);
	EXPECT_EQ(create_qp_error(qp_response, somewhere.data(), {.record_timeout = 1}), EINVAL);
}

TEST_F(Commands, OfBothLengthsThatProvidersSendAreGood)
{
	for (const std::size_t octets : {std::size_t{KIW_CREATE_QP_REQ_MIN}, sizeof(kiw_create_qp_req)})
		make_and_destroy(octets);
}

TEST_F(Commands, OffsetsThatWereNotHandedOutCannotBeMapped)
{
	const long size = sysconf(_SC_PAGESIZE);
	std::vector<void *> mapped;

	for (off_t page : {0, 1, 2, 3, 100, 0xffff, 0x10000, 0x7fffffff}) {
		void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, page * size);
		if (at != MAP_FAILED)
			mapped.push_back(at);
	}
	// Those of this process' own queues are good, if the length is.
	EXPECT_LE(mapped.size(), 1);
	for (void *at : mapped)
		munmap(at, 4096);
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, context->cmd_fd, 0), MAP_FAILED);
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, context->cmd_fd, 0), MAP_FAILED);
}

// --- numbers --------------------------------------------------------------------------------------

TEST(Numbers, ProtectionDomainsEndAtTheLimit)
{
	ibv_context *context = server_device();
	ibv_device_attr limits{};
	ASSERT_EQ(ibv_query_device(context, &limits), 0);
	std::vector<Pd> pds;

	while (Pd pd{ibv_alloc_pd(context)})
		pds.push_back(std::move(pd));
	EXPECT_EQ(errno, ENOMEM);
	EXPECT_LE(pds.size(), limits.max_pd);
	EXPECT_GT(pds.size(), limits.max_pd - 16);
	pds.pop_back();
	EXPECT_NE(make_pd(context), nullptr);
}

/// A control group, with all of them mounted for its life.
class Group {
public:
	Group()
	{
		std::array<char, 32> name = {"/tmp/kiwarp-group.XXXXXX"};

		if (!mkdtemp(name.data()))
			fail("mkdtemp", errno);
		top = name.data();
		mounted = mount("none", top.c_str(), "cgroup2", 0, nullptr) == 0;
		std::ofstream(top + "/cgroup.subtree_control") << "+rdma" << std::flush;
		made = mkdir(folder().c_str(), 0755) == 0;
	}
	~Group()
	{
		if (made)
			rmdir(folder().c_str());
		if (mounted)
			umount(top.c_str());
		rmdir(top.c_str());
	}
	Group(const Group &) = delete;
	Group &operator=(const Group &) = delete;

	void limit_objects(const std::string &device, int objects) const
	{
		std::ofstream file(folder() + "/rdma.max");

		if (!(file << device << " hca_object=" << objects << std::flush))
			fail("a control group for RDMA can't be made");
	}
	std::string folder() const { return top + "/kiwarp-test"; }

private:
	std::string top;
	bool mounted = false;
	bool made = false;
};

TEST(Numbers, AreThoseOfTheControlGroup)
{
	const std::string device = ibv_get_device_name(server_device()->device);
	const Group group;

	group.limit_objects(device, 8);
	EXPECT_EQ(status_of({"part-grouped", device, group.folder()}), 0);
}

TEST(Numbers, UndecidedRequestsAreAtMostTheBacklog)
{
	constexpr int backlog = 4;
	constexpr int count = 40;
	Listener listener(backlog);
	std::vector<std::unique_ptr<Side>> callers;

	for (int i = 0; i < count; i++)
		callers.push_back(start_connecting(listener.port(), {}));
	// Nobody looks at the requests. Those that found no place are refused.
	for (int refused = 0; refused < count - backlog;) {
		wait_until(
			[&] {
				for (auto &caller : callers) {
					if (!caller || !readable(caller->events().get()->fd))
						continue;
					EXPECT_EQ(caller->events().wait_any(caller->id()).type, RDMA_CM_EVENT_REJECTED);
					caller.reset();
					refused++;
				}
				return refused >= count - backlog;
			},
			"the refusals");
	}
	int told = 0;
	while (const auto request = listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST)) {
		const Id id(request->id);
		told++;
		rdma_reject(id.get(), nullptr, 0);
	}
	EXPECT_EQ(told, backlog);
}

// --- other processes ------------------------------------------------------------------------------

TEST(OtherProcess, CannotConnectAQpByItsNumber)
{
	Listener listener;
	Caller caller(listener.port());
	Side ours(std::move(caller.id), caller.events, {});

	EXPECT_EQ(status_of({"part-thief", std::to_string(listener.port()), std::to_string(ours.qp()->qp_num)}), 0);
	EXPECT_FALSE(listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST));
	// It is as good as before.
	rdma_conn_param param = parameters({}, 1);
	ASSERT_EQ(rdma_connect(ours.id(), &param), 0);
	const auto theirs = accept(listener, {});
	ours.events().wait(RDMA_CM_EVENT_ESTABLISHED, ours.id());
}

TEST(OtherProcess, ForkLeavesTheConnectionWithTheParent)
{
	Pair pair;
	const Region from(pair.a().pd(), 100000);
	const Region to(pair.b().pd(), 100000);

	from.fill(0x11);
	for (int round = 0; round < 5; round++) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			// Its copy of the memory; the rings aren't there at all.
			from.fill(0xee);
			to.fill(0xee);
			_exit(0);
		}
		to.fill(0);
		from.fill(static_cast<std::uint8_t>(round + 1));
		ASSERT_EQ(pair.a().write({from.sge()}, {.id = 5, .remote = to.address(), .rkey = to.rkey()}), 0);
		EXPECT_WC(pair.a().sent(), 5, IBV_WC_SUCCESS);
		pair.sync();
		EXPECT_TRUE(all_equal(to.bytes(), static_cast<std::uint8_t>(round + 1)));
		int status = -1;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
}

} // namespace
} // namespace vt
