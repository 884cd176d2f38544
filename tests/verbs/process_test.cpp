// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What becomes of a process that uses a device: other credentials.
#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

#include "connection.hpp"

namespace vt {

namespace {

/// Other credentials for this thread alone: libc's function would change those of all threads.
void become(uid_t user)
{
	if (syscall(SYS_setresuid, user, user, 0))
		fail("setresuid", errno);
}

/// Gives rights away for a scope, as a server does that opens its devices as root.
class Unprivileged {
public:
	Unprivileged() { become(65534); }
	~Unprivileged() { become(0); }
	Unprivileged(const Unprivileged &) = delete;
	Unprivileged &operator=(const Unprivileged &) = delete;
};

void expect_sent(Pair &pair, std::uint64_t id)
{
	ASSERT_EQ(pair.a().send({}, {.id = id}), 0);
	EXPECT_WC(pair.a().sent(), id, IBV_WC_SUCCESS);
	EXPECT_WC(pair.b().received(), id, IBV_WC_SUCCESS);
}

TEST(Process, PostsWithOtherCredentialsThanItOpenedTheDeviceWith)
{
	Pair pair;

	pair.b().receive_empty(4);
	expect_sent(pair, 0);
	{
		const Unprivileged nobody;

		expect_sent(pair, 1);
		expect_sent(pair, 2);
	}
	// The kernel takes these for others, too.
	expect_sent(pair, 3);
}

TEST(Process, PostsFirstWithOtherCredentials)
{
	Pair pair;

	pair.b().receive_empty(1);
	const Unprivileged nobody;
	expect_sent(pair, 0);
}

TEST(Process, PostsReceivesInErrorWithOtherCredentials)
{
	Pair pair;

	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	const Unprivileged nobody;
	for (std::uint64_t id = 0; id < 2; id++) {
		ASSERT_EQ(pair.a().receive({}, id), 0);
		EXPECT_WC(pair.a().received(), id, IBV_WC_WR_FLUSH_ERR);
		ASSERT_EQ(pair.a().send({}, {.id = id}), 0);
		EXPECT_WC(pair.a().sent(), id, IBV_WC_WR_FLUSH_ERR);
	}
}

} // namespace

} // namespace vt
