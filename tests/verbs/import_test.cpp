// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A device that is open already, and what was made on it, imported by this process and by another one.
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "../lib/raw.hpp"
#include "child.hpp"
#include "context.hpp"

namespace vt {
namespace {

/// What the process that opened the device tells, beside its descriptor
struct Offer {
	std::uint32_t pd;
	std::uint32_t mr;
	std::uint32_t lkey;
	std::uint32_t rkey;
	std::uint64_t length;
	std::uint32_t features;
};

/// Memory of the process that imported it
struct Answer {
	std::uint64_t address;
	std::uint32_t rkey;
};

constexpr std::size_t size = 100000;

using ImportedPd = std::unique_ptr<ibv_pd, decltype([](ibv_pd *pd) { ibv_unimport_pd(pd); })>;
using ImportedMr = std::unique_ptr<ibv_mr, decltype([](ibv_mr *mr) { ibv_unimport_mr(mr); })>;

/// Takes the descriptor over.
Context import(int fd)
{
	Context context(ibv_import_device(fd));

	if (!context)
		fail("ibv_import_device", errno);
	return context;
}

Offer offer(ibv_pd *pd, const ibv_mr *mr)
{
	return {.pd = pd->handle,
		.mr = mr->handle,
		.lkey = mr->lkey,
		.rkey = mr->rkey,
		.length = mr->length,
		.features = kiw::Context::from(pd->context).features};
}

void expect_offered(const ibv_mr *mr, const Offer &offered)
{
	EXPECT_EQ(mr->handle, offered.mr);
	EXPECT_EQ(mr->lkey, offered.lkey);
	EXPECT_EQ(mr->rkey, offered.rkey);
	EXPECT_EQ(mr->length, offered.length);
	EXPECT_EQ(kiw::Context::from(mr->context).features, offered.features);
}

TEST(Import, OneProcessHasADeviceTwice)
{
	Pair pair;
	const Region first(pair.b().pd(), size);
	const Offer offered = offer(pair.b().pd(), first.mr());

	const Context context = import(::dup(pair.b().context()->cmd_fd));
	EXPECT_NE(context->async_fd, pair.b().context()->async_fd);
	EXPECT_GE(::fcntl(context->async_fd, F_GETFD), 0);
	EXPECT_EQ(context->num_comp_vectors, pair.b().context()->num_comp_vectors);
	const ImportedPd pd(ibv_import_pd(context.get(), offered.pd));
	ASSERT_TRUE(pd);
	const ImportedMr mr(ibv_import_mr(pd.get(), offered.mr));
	ASSERT_TRUE(mr);
	expect_offered(mr.get(), offered);

	// The peer of a queue pair of the one reaches a region of the other, and both regions can be sent.
	const Region second(pd.get(), size);
	const Region from(pair.a().pd(), size);
	from.fill_pattern(1);
	ASSERT_EQ(pair.a().write({from.sge()}, {.remote = second.address(), .rkey = second.rkey()}), 0);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(same(from.bytes(), second.bytes()));
	const Region to(pair.a().pd(), size);
	first.fill_pattern(2);
	ASSERT_EQ(pair.a().receive({to.sge()}), 0);
	ibv_sge sge = first.sge();
	sge.lkey = mr->lkey;
	ASSERT_EQ(pair.b().send({sge}), 0);
	EXPECT_EQ(pair.a().received().status, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(first.bytes(), to.bytes()));
}

TEST(Import, QueuesCanBeMadeOnIt)
{
	const Context opened = open_device(ibv_get_device_name(server_device()->device));
	const Pd pd = make_pd(opened.get());
	const Context context = import(::dup(opened->cmd_fd));
	const ImportedPd imported(ibv_import_pd(context.get(), pd->handle));
	const Cq cq = make_cq(context.get(), 10);
	const Srq srq = make_srq(imported.get(), 10);
	ibv_qp_init_attr init{};

	init.send_cq = init.recv_cq = cq.get();
	init.srq = srq.get();
	init.cap = {.max_send_wr = 1, .max_send_sge = 1};
	init.qp_type = IBV_QPT_RC;
	const Qp qp(ibv_create_qp(imported.get(), &init));
	ASSERT_TRUE(qp);
	EXPECT_TRUE(poll_all(cq.get()).empty());
	EXPECT_EQ(ibv_resize_cq(cq.get(), 1000), 0);
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

TEST(Import, EitherMayBeClosedFirst)
{
	for (const bool opened_first : {true, false}) {
		Context opened = open_device(ibv_get_device_name(server_device()->device));
		Context imported = import(::dup(opened->cmd_fd));

		(opened_first ? opened : imported).reset();
		EXPECT_TRUE(make_pd((opened_first ? imported : opened).get()));
	}
}

TEST(Import, WhatIsNotThereIsNotImported)
{
	const Context opened = open_device(ibv_get_device_name(server_device()->device));
	const Context context = import(::dup(opened->cmd_fd));
	const Pd pd = make_pd(opened.get());
	const ImportedPd imported(ibv_import_pd(context.get(), pd->handle));
	const ImportedPd wrong(ibv_import_pd(context.get(), pd->handle + 1000));

	errno = 0;
	EXPECT_EQ(ibv_import_mr(imported.get(), pd->handle), nullptr);
	EXPECT_NE(errno, 0);
	errno = 0;
	EXPECT_EQ(ibv_import_mr(imported.get(), 12345), nullptr);
	EXPECT_NE(errno, 0);
	// A domain can't be asked for; it is known when it is used.
	ASSERT_TRUE(wrong);
	std::array<char, 8> memory{};
	errno = 0;
	EXPECT_EQ(ibv_reg_mr(wrong.get(), memory.data(), memory.size(), 0), nullptr);
	EXPECT_NE(errno, 0);
	errno = 0;
	EXPECT_EQ(ibv_import_dm(context.get(), 1), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);

	// A descriptor of the device on which nothing was opened has no context.
	errno = 0;
	EXPECT_EQ(ibv_import_device(open_uverbs(opened->device)), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST(Import, FeaturesAreThoseOfTheProviderThatOpenedIt)
{
	for (const std::uint32_t features : {0U, std::uint32_t{KIW_FEATURE_UD}, std::uint32_t{KIW_FEATURES}}) {
		const int fd = open_uverbs(server_device()->device);
		kiw_get_context_resp told{};

		ASSERT_EQ(get_context(fd, {features, 0}, told), 0);
		const Context context = import(fd);
		EXPECT_EQ(kiw::Context::from(context.get()).features, features);
		const Pd pd = make_pd(context.get());
		ibv_srq_init_attr attr{};
		attr.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
		errno = 0;
		const Srq srq(ibv_create_srq(pd.get(), &attr));
		EXPECT_EQ(bool(srq), bool(features & KIW_FEATURE_SRQ));
		if (!srq) {
			EXPECT_EQ(errno, EOPNOTSUPP);
		}
	}
}

// --- another process ------------------------------------------------------------------------------

template <typename T>
void tell(int socket, const T &what)
{
	if (::send(socket, &what, sizeof(what), 0) != sizeof(what))
		fail("send", errno);
}

template <typename T>
T hear(int socket)
{
	T what{};

	wait_readable(socket, "the other process");
	if (::recv(socket, &what, sizeof(what), 0) != sizeof(what))
		fail("recv", errno);
	return what;
}

/// A message, and with it a descriptor
struct Passed {
	Passed(void *data, std::size_t length) : part{.iov_base = data, .iov_len = length}
	{
		header.msg_iov = &part;
		header.msg_iovlen = 1;
		header.msg_control = control.data();
		header.msg_controllen = control.size();
	}

	iovec part;
	msghdr header{};
	alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
};

void pass(int socket, Offer offered, int fd)
{
	Passed passed(&offered, sizeof(offered));
	cmsghdr *control = CMSG_FIRSTHDR(&passed.header);

	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(fd));
	std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
	if (::sendmsg(socket, &passed.header, 0) != sizeof(offered))
		fail("sendmsg", errno);
}

int take(int socket, Offer &offered)
{
	Passed passed(&offered, sizeof(offered));
	int fd = -1;

	wait_readable(socket, "the descriptor");
	if (::recvmsg(socket, &passed.header, 0) != sizeof(offered) || !CMSG_FIRSTHDR(&passed.header))
		fail("recvmsg", errno);
	std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&passed.header)), sizeof(fd));
	return fd;
}

} // namespace

int part_importer(int socket)
{
	Offer offered{};
	const Context context = import(take(socket, offered));
	const ImportedPd pd(ibv_import_pd(context.get(), offered.pd));
	const ImportedMr mr(ibv_import_mr(pd.get(), offered.mr));

	if (!mr)
		fail("ibv_import_mr", errno);
	expect_offered(mr.get(), offered);
	const Cq cq = make_cq(context.get(), 10);
	EXPECT_TRUE(poll_all(cq.get()).empty());
	Region region(pd.get(), size);
	tell(socket, Answer{.address = region.address(), .rkey = region.rkey()});
	const auto seed = hear<std::uint32_t>(socket);
	std::vector<std::uint8_t> expected(region.bytes().begin(), region.bytes().end());
	region.fill_pattern(seed);
	EXPECT_TRUE(same(expected, region.bytes()));
	return testing::Test::HasFailure();
}

namespace {

TEST(Import, AnotherProcessHasWhatItsDescriptorWasPassedFor)
{
	std::array<int, 2> sockets{};
	ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
	Pair pair;
	const Region own(pair.b().pd(), size);
	const Region from(pair.a().pd(), size);
	Child child({"part-importer", std::to_string(sockets[1])});

	pass(sockets[0], offer(pair.b().pd(), own.mr()), pair.b().context()->cmd_fd);
	const auto answer = hear<Answer>(sockets[0]);
	// The peer of this process's queue pair writes to the other's memory.
	from.fill_pattern(3);
	ASSERT_EQ(pair.a().write({from.sge()}, {.remote = answer.address, .rkey = answer.rkey}), 0);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	pair.sync();
	tell(sockets[0], std::uint32_t{3});
	wait_until([&] { return !child.running(); }, "the other process");
	EXPECT_TRUE(WIFEXITED(child.status()));
	EXPECT_EQ(WEXITSTATUS(child.status()), 0);
	// What that has closed is still open here.
	ASSERT_EQ(pair.a().write({from.sge()}, {.remote = own.address(), .rkey = own.rkey()}), 0);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(same(from.bytes(), own.bytes()));
	::close(sockets[0]);
	::close(sockets[1]);
}

} // namespace
} // namespace vt
