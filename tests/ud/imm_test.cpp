// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Messages with immediate data between datagram queue pairs.
#include <arpa/inet.h>
#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "../lib/datagram.hpp"
#include "../lib/raw.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

constexpr std::size_t longest_with_imm = longest - 8;
constexpr std::uint64_t builders = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

/// By ibv_post_send(). Returns 0 or an errno value.
int post(const End &end, const To &to, std::uint32_t imm, ibv_sge sge, unsigned int flags = IBV_SEND_SIGNALED)
{
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	wr.wr_id = 1000;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.send_flags = flags;
	wr.imm_data = htonl(imm);
	wr.wr.ud = {to.ah, to.number, to.key};
	return ibv_post_send(end.qp(), &wr, &bad);
}

class Immediate : public testing::TestWithParam<Addresses> {
protected:
	void expect_sent() const
	{
		const ibv_wc wc = left.sent();

		EXPECT_WC(wc, 1000, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_SEND);
	}
	/// The next completion tells of immediate data, or, without any, of none.
	void expect_received(std::uint64_t id, std::size_t length, std::optional<std::uint32_t> imm) const
	{
		const ibv_wc wc = right.received();

		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
		EXPECT_EQ(wc.byte_len, grh + length);
		EXPECT_EQ(wc.src_qp, left.number());
		EXPECT_EQ(wc.wc_flags, imm ? IBV_WC_GRH | IBV_WC_WITH_IMM : IBV_WC_GRH);
		EXPECT_EQ(ntohl(wc.imm_data), imm.value_or(0));
	}

	End left{"kiw0", {.send_ops = builders}};
	End right{"kiw1"};
	Ah ah = left.ah(GetParam().left, right, GetParam().right);
	To right_end{ah.get(), right.number()};
};

TEST_P(Immediate, ArriveBesideTheMessage)
{
	left.memory().fill_pattern(1);
	for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1420}, std::size_t{1421},
		     std::size_t{1440}, std::size_t{1441}, std::size_t{40000}, longest_with_imm}) {
		right.memory().fill(0xee);
		right.receive(size, 8, longest);
		ASSERT_EQ(post(left, right_end, 0x11223344, left.memory().sge(5, size)), 0);
		expect_sent();
		expect_received(size, size, 0x11223344);
		EXPECT_TRUE(vt::same(left.bytes(5, size), right.bytes(8 + grh, size))) << size;
		EXPECT_TRUE(vt::all_equal(right.bytes(8 + grh + size, 1000), 0xee)) << size;
	}
}

TEST_P(Immediate, ByBuildersAmongOthers)
{
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(left.qp());

	left.memory().fill_pattern(2);
	for (std::uint64_t id = 0; id < 4; id++)
		right.receive(id, id * 1000, 500);
	ibv_wr_start(ex);
	ex->wr_id = 1000;
	ex->wr_flags = IBV_SEND_SIGNALED;
	for (std::uint32_t i = 0; i < 4; i++) {
		const ibv_sge sge = left.memory().sge(i * 100, 100);

		if (i % 2)
			ibv_wr_send(ex);
		else
			ibv_wr_send_imm(ex, htonl(0xffffff00 + i));
		ibv_wr_set_ud_addr(ex, right_end.ah, right_end.number, right_end.key);
		ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	}
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	for (std::uint32_t i = 0; i < 4; i++) {
		expect_sent();
		expect_received(i, 100, i % 2 ? std::nullopt : std::optional(0xffffff00 + i));
		EXPECT_TRUE(vt::same(left.bytes(i * 100, 100), right.bytes(i * std::size_t{1000} + grh, 100)));
	}
}

INSTANTIATE_TEST_SUITE_P(, Immediate, testing::Values(ipv4, ipv6, link_local),
	[](const auto &test) { return std::string(test.param.name); });

class ImmediateV4 : public Immediate {};

INSTANTIATE_TEST_SUITE_P(
	, ImmediateV4, testing::Values(ipv4), [](const auto &test) { return std::string(test.param.name); });

// UDP gets a list of one length in one call: each message has its own.
TEST_P(ImmediateV4, EachMessageOfATrainHasItsOwn)
{
	constexpr int count = 8;
	std::vector<ibv_send_wr> list(count);
	std::vector<ibv_sge> sges(count);
	ibv_send_wr *bad = nullptr;

	for (int i = 0; i < count; i++) {
		right.receive(i, 0, 100);
		sges[i] = left.memory().sge(0, 100);
		list[i].wr_id = 1000;
		list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
		list[i].sg_list = &sges[i];
		list[i].num_sge = 1;
		list[i].opcode = IBV_WR_SEND_WITH_IMM;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].imm_data = htonl(i);
		list[i].wr.ud = {right_end.ah, right_end.number, right_end.key};
	}
	const std::uint64_t calls = calls_to_udp("left");
	ASSERT_EQ(ibv_post_send(left.qp(), list.data(), &bad), 0);
	for (int i = 0; i < count; i++) {
		expect_sent();
		expect_received(i, 100, i);
	}
	EXPECT_EQ(calls_to_udp("left") - calls, 1);
}

TEST_P(ImmediateV4, InlineAndSolicited)
{
	right.receive(1, 0, 100);
	ASSERT_EQ(ibv_req_notify_cq(right.recv_cq(), 1), 0);
	ASSERT_EQ(post(left, right_end, 7, left.memory().sge(0, 64),
			  IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED),
		0);
	vt::wait_readable(right.channel()->fd, "the event");
	ibv_cq *cq = nullptr;
	void *of = nullptr;
	ASSERT_EQ(ibv_get_cq_event(right.channel(), &cq, &of), 0);
	ibv_ack_cq_events(cq, 1);
	expect_sent();
	expect_received(1, 64, 7);
}

TEST_P(ImmediateV4, ReadOneByOne)
{
	const End other("kiw1", {.extended_cq = true});
	ibv_poll_cq_attr attr{};

	other.receive(3, 0, 100);
	ASSERT_EQ(post(left, {ah.get(), other.number()}, 0x01020304, left.memory().sge(0, 10)), 0);
	vt::wait_until([&] { return ibv_start_poll(other.recv_cq_ex(), &attr) == 0; }, "a datagram");
	EXPECT_EQ(other.recv_cq_ex()->wr_id, 3);
	EXPECT_EQ(ibv_wc_read_wc_flags(other.recv_cq_ex()), IBV_WC_GRH | IBV_WC_WITH_IMM);
	EXPECT_EQ(ntohl(ibv_wc_read_imm_data(other.recv_cq_ex())), 0x01020304);
	EXPECT_EQ(ibv_wc_read_src_qp(other.recv_cq_ex()), left.number());
	EXPECT_EQ(ibv_wc_read_byte_len(other.recv_cq_ex()), grh + 10);
	ibv_end_poll(other.recv_cq_ex());
}

TEST_P(ImmediateV4, FromASharedQueue)
{
	const End other("kiw1", {.shared = true});

	other.receive(4, 0, 100);
	ASSERT_EQ(post(left, {ah.get(), other.number()}, 5, left.memory().sge(0, 10)), 0);
	const ibv_wc wc = other.received();
	EXPECT_WC(wc, 4, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	EXPECT_EQ(ntohl(wc.imm_data), 5);
}

TEST_P(ImmediateV4, ToAGroup)
{
	ibv_gid group{};
	group.raw[10] = group.raw[11] = 0xff;
	group.raw[12] = 239;
	group.raw[13] = group.raw[14] = group.raw[15] = 9;
	const Ah all = left.make_ah(left.gid(ipv4.left), group);

	ASSERT_TRUE(all);
	ASSERT_EQ(ibv_attach_mcast(right.qp(), &group, 0), 0);
	right.receive(6, 0, 100);
	EXPECT_EQ(post(left, {all.get(), 0xffffff}, 0xabcdef, left.memory().sge(0, 20)), 0);
	expect_received(6, 20, 0xabcdef);
	EXPECT_EQ(ibv_detach_mcast(right.qp(), &group, 0), 0);
}

TEST_P(ImmediateV4, LongerMessagesAreRefused)
{
	EXPECT_EQ(post(left, right_end, 1, left.memory().sge(0, longest_with_imm + 1)), EINVAL);
	EXPECT_EQ(post(left, right_end, 1, left.memory().sge(0, longest + 1)), EINVAL);
}

TEST_P(ImmediateV4, ReceiveThatIsTooSmall)
{
	right.memory().fill(0xee);
	right.receive(1, 0, 99);
	ASSERT_EQ(post(left, right_end, 1, left.memory().sge(0, 100)), 0);
	EXPECT_WC(right.received(), 1, IBV_WC_LOC_LEN_ERR);
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 200), 0xee));
}

// A Write has none, neither by a list nor by builders.
TEST_P(ImmediateV4, NotOfWrites)
{
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	EXPECT_EQ(ibv_post_send(left.qp(), &wr, &bad), EINVAL);
	EXPECT_THROW(End("kiw0", {.send_ops = builders | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM}), std::runtime_error);
}

// What kiwarp sends, octet by octet
TEST_P(ImmediateV4, APlainSocketUnderstandsWhatKiwarpSends)
{
	const Socket plain("right", "10.77.0.2");
	const Bytes text{'d', 'a', 't', 'a'};
	const To there{ah.get(), plain.port()};

	std::copy(text.begin(), text.end(), left.memory().data());
	ASSERT_EQ(post(left, there, 0xaabbccdd, left.memory().sge(0, 4)), 0);
	EXPECT_EQ(plain.receive(), datagram_imm(some_key, 0xaabbccdd, text));
	ASSERT_EQ(post(left, there, 1, left.memory().sge(0, 4), IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
	EXPECT_EQ(plain.receive(), datagram_imm(some_key, 1, text, [](Bytes &b) {
		b[3] = 0x49;
		b[15] = 1; // the second message
	}));
}

// The four octets behind them are ignored: a later version may use them.
TEST_P(ImmediateV4, WhatIsReservedDoesNotMatter)
{
	const Socket plain("left", "10.77.0.1");

	right.receive(1, 0, 100);
	plain.send("10.77.0.2", right.number(), datagram_imm(some_key, 0x55667788, Bytes(10, 3), [](Bytes &b) {
		std::fill_n(b.begin() + 24, 4, std::uint8_t{0xff});
	}));
	const ibv_wc wc = right.received();
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(ntohl(wc.imm_data), 0x55667788);
	EXPECT_TRUE(vt::all_equal(right.bytes(grh, 10), 3));
}

/// A context of a provider that knows datagrams and immediate data, but not both together
vt::Context open_earlier(const std::string &name)
{
	const vt::Context device = vt::open_device(name);
	kiw_get_context_resp told{};
	const int fd = vt::open_uverbs(device->device);

	if (const int error = vt::get_context(fd, {KIW_FEATURES & ~KIW_FEATURE_UD_IMM, 0}, told))
		vt::fail("get_context", error);
	vt::Context context(ibv_import_device(fd));
	if (!context)
		vt::fail("ibv_import_device", errno);
	return context;
}

// It can't send them, and such datagrams are malformed for it, as they were for the module that it came with.
TEST_P(ImmediateV4, AnEarlierProviderHasNone)
{
	const End earlier("kiw1", {.open = open_earlier});
	const Ah back = earlier.ah(ipv4.right, left, ipv4.left);
	const std::uint64_t before = earlier.counter("ud_malformed");

	earlier.receive(1, 0, 100);
	ASSERT_EQ(post(left, {ah.get(), earlier.number()}, 1, left.memory().sge(0, 10)), 0);
	earlier.expect_counter("ud_malformed", before + 1);
	EXPECT_TRUE(vt::poll_all(earlier.recv_cq()).empty());
	ASSERT_EQ(left.try_send({ah.get(), earlier.number()}, {left.memory().sge(0, 10)}, 1000), 0);
	EXPECT_WC(earlier.received(), 1, IBV_WC_SUCCESS);
	EXPECT_EQ(post(earlier, {back.get(), left.number()}, 1, earlier.memory().sge(0, 10)), EINVAL);
	EXPECT_THROW(End("kiw1", {.send_ops = builders, .open = open_earlier}), std::runtime_error);
}

} // namespace
} // namespace ud
