// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What becomes of a process that uses a device: other credentials, and children.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "../lib/connection.hpp"
#include "child.hpp"

namespace vt {

namespace {

/// Other credentials for the calling thread alone: libc's function would change those of all threads.
void become(uid_t user)
{
	if (syscall(SYS_setresuid, user, user, 0))
		ADD_FAILURE() << "setresuid: " << std::strerror(errno);
}

/// Does something as a server does that opened its devices as root, and gave its rights away. In a thread of its own:
/// librdmacm's file, too, accepts nobody but its opener, and the test needs it to the end.
void unprivileged(const std::function<void()> &work)
{
	std::async(std::launch::async, [&work] {
		become(65534);
		work();
	}).get();
}

void expect_sent(Pair &pair, std::uint64_t id)
{
	ASSERT_EQ(pair.a().send({}, {.id = id}), 0);
	EXPECT_WC(pair.a().sent(), id, IBV_WC_SUCCESS);
	EXPECT_WC(pair.b().received(), id, IBV_WC_SUCCESS);
}

TEST(Process, PostsWithOtherCredentialsThanItOpenedTheDeviceWith)
{
	Pair pair;

	pair.b().receive_empty(5);
	expect_sent(pair, 0);
	unprivileged([&pair] {
		expect_sent(pair, 1);
		expect_sent(pair, 2);
		// The kernel takes these for others, too.
		become(0);
		expect_sent(pair, 3);
	});
	expect_sent(pair, 4);
}

TEST(Process, PostsFirstWithOtherCredentials)
{
	Pair pair;

	pair.b().receive_empty(1);
	unprivileged([&pair] { expect_sent(pair, 0); });
}

TEST(Process, PostsReceivesInErrorWithOtherCredentials)
{
	Pair pair;

	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	unprivileged([&pair] {
		for (std::uint64_t id = 0; id < 2; id++) {
			ASSERT_EQ(pair.a().receive({}, id), 0);
			EXPECT_WC(pair.a().received(), id, IBV_WC_WR_FLUSH_ERR);
			ASSERT_EQ(pair.a().send({}, {.id = id}), 0);
			EXPECT_WC(pair.a().sent(), id, IBV_WC_WR_FLUSH_ERR);
		}
	});
}

/// What a child tries on a side that it inherited, and whether it was refused
std::vector<std::pair<std::string, std::function<bool()>>> trespasses(const Side &side, ibv_mr *mr)
{
	return {
		{"ibv_poll_cq",
			[&side] {
				ibv_wc wc;
				return ibv_poll_cq(side.send_cq(), 1, &wc) < 0;
			}},
		{"ibv_req_notify_cq",
			[&side] {
				return ibv_req_notify_cq(side.send_cq(), 0) == EPERM;
			}},
		{"ibv_post_send",
			[&side] {
				return side.send() == EPERM;
			}},
		{"ibv_post_recv",
			[&side] {
				return side.receive() == EPERM;
			}},
		{"ibv_modify_qp",
			[&side] {
				return side.modify(IBV_QPS_ERR) == EPERM;
			}},
		{"ibv_destroy_qp",
			[&side] {
				return ibv_destroy_qp(side.qp()) == EPERM;
			}},
		{"ibv_destroy_cq",
			[&side] {
				return ibv_destroy_cq(side.send_cq()) == EPERM;
			}},
		{"ibv_dereg_mr",
			[mr] {
				return ibv_dereg_mr(mr) == EPERM;
			}},
		{"ibv_dealloc_pd",
			[&side] {
				return ibv_dealloc_pd(side.pd()) == EPERM;
			}},
		// It gives nothing back but what is the child's own: memory and descriptors.
		{"ibv_close_device",
			[&side] {
				return ibv_close_device(side.context()) == 0;
			}},
	};
}

TEST(Process, RefusesItsObjectsToAChildAndKeepsThem)
{
	Pair pair;
	const Region region(pair.a().pd(), 4096);

	pair.b().receive_empty(2);
	expect_sent(pair, 0);
	EXPECT_EQ(forked([&] {
		bool good = true;

		for (const auto &[name, refused] : trespasses(pair.a(), region.mr()))
			if (!refused()) {
				dprintf(STDERR_FILENO, "a child was not refused: %s\n", name.c_str());
				good = false;
			}
		return good;
	}),
		0);
	expect_sent(pair, 1);
	ASSERT_EQ(pair.b().receive({}, 2), 0);
	ASSERT_EQ(pair.a().send({region.sge(0, 0)}, {.id = 2}), 0);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_SUCCESS);
}

TEST(Process, ChildOpensTheDeviceForItself)
{
	Pair pair;

	pair.b().receive_empty(2);
	const std::string device = ibv_get_device_name(pair.a().context()->device);
	EXPECT_EQ(forked([&] {
		const Context context = open_device(device);
		const Pd pd = make_pd(context.get());
		const Cq cq = make_cq(context.get(), 8);
		const Region region(pd.get(), 4096);
		ibv_qp_init_attr attr{};
		attr.send_cq = attr.recv_cq = cq.get();
		attr.cap = {8, 8, 1, 1, 0};
		attr.qp_type = IBV_QPT_RC;
		const Qp qp(ibv_create_qp(pd.get(), &attr));
		ibv_wc wc;

		return qp && ibv_poll_cq(cq.get(), 1, &wc) == 0 && ibv_req_notify_cq(cq.get(), 0) == 0;
	}),
		0);
	expect_sent(pair, 0);
	// Neither does it hinder the parent that programs are run.
	EXPECT_EQ(std::system("true"), 0); // NOLINT(cert-env33-c)
	expect_sent(pair, 1);
}

} // namespace

} // namespace vt
