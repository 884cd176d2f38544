// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams and Writes over them, while allocations fail: one after the other in calls that send, and wherever the
// module makes them while datagrams go to and fro. What is sent waits until there is memory. Below UDP a packet may be
// lost for want of it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <gtest/gtest.h>
#include <iostream>
#include <memory>

#include "../lib/record.hpp"
#include "every_fault.hpp"
#include "footprint.hpp"
#include "injection.hpp"

namespace faults {

namespace {

using record::Arrival;
using record::Target;
using record::Writer;

constexpr std::uint32_t messages = 8;
constexpr std::size_t size = 1000;
constexpr std::size_t stride = 2048;
/// Of a Write, of several segments
constexpr std::uint32_t length = 20000;
/// Where Writes go, behind the messages; each to a place of its own
constexpr std::size_t written = 64 * 1024;

/// Posts all messages as one list. Return: 0 or errno.
int post_list(const Writer &left, const ud::To &to)
{
	std::array<ibv_send_wr, messages> list{};
	std::array<ibv_sge, messages> sges{};
	ibv_send_wr *bad = nullptr;

	for (std::size_t i = 0; i < messages; i++) {
		sges[i] = left.memory().sge(i * stride, size);
		list[i].wr_id = i;
		list[i].next = i + 1 < messages ? &list[i + 1] : nullptr;
		list[i].sg_list = &sges[i];
		list[i].num_sge = 1;
		list[i].opcode = IBV_WR_SEND;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].wr.ud = {to.ah, to.number, to.key};
	}
	return ibv_post_send(left.qp(), list.data(), &bad);
}

class Datagrams : public testing::Test {
protected:
	ud::To to() const { return {ah.get(), right.number()}; }

	/// Calls with the first allocation of the thread failing, the second, and so on; checks what came of it each
	/// time.
	void every_fault_of(const std::function<int()> &call, const std::function<void()> &check) const
	{
		unsigned int n = 0;
		bool failed = false;

		do {
			const testing::ScopedTrace trace(__FILE__, __LINE__, "fault " + std::to_string(++n));
			int error = 0;

			ASSERT_LT(n, 2000U);
			left.memory().fill_pattern(n);
			right.memory().fill(0);
			failed = with_nth_failing(n, [&] { error = call(); });
			ASSERT_EQ(error, 0);
			check();
		} while (failed && !HasFailure());
		std::cout << "  allocations that failed: " << n - 1 << '\n';
		EXPECT_GT(n, 1U);
	}

	Writer left;
	Target right;
	ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
};

} // namespace

TEST_F(Datagrams, ListOfSends)
{
	every_fault_of(
		[&] {
			for (std::uint64_t i = 0; i < messages; i++)
				right.receive(i, i * stride, size);
			return post_list(left, to());
		},
		[&] {
			for (std::uint64_t i = 0; i < messages; i++) {
				ASSERT_EQ(left.sent().status, IBV_WC_SUCCESS);
				ASSERT_EQ(right.received().status, IBV_WC_SUCCESS);
				ASSERT_TRUE(vt::same(
					left.bytes(i * stride, size), right.bytes(i * stride + ud::grh, size)));
			}
		});
}

TEST_F(Datagrams, Write)
{
	every_fault_of([&] { return left.post(to(), right.remote(), right.rkey(), 0, 10 * length); },
		[&] {
			ASSERT_EQ(left.sent().status, IBV_WC_SUCCESS);
			const Arrival arrival = right.arrived();
			ASSERT_EQ(arrival.status, IBV_WC_SUCCESS);
			ASSERT_EQ(arrival.record.valid, 10 * length);
			ASSERT_TRUE(vt::same(left.bytes(0, 10 * length), right.bytes(0, 10 * length)));
		});
}

// A queue pair that peers write through has its records besides.
TEST(DatagramObjects, Target)
{
	ibv_context *const context = vt::server_device();
	const vt::Pd pd = vt::make_pd(context);
	const vt::Cq cq = vt::make_cq(context, 256);
	ibv_qp *qp = nullptr;
	const auto create = [&] {
		ibv_qp_init_attr_ex attr{};
		kiwarpdv_qp_init_attr dv{};

		attr.send_cq = attr.recv_cq = cq.get();
		attr.qp_type = IBV_QPT_UD;
		attr.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2};
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		attr.pd = pd.get();
		dv.flags = KIWARPDV_QP_RECORD;
		qp = kiwarpdv_create_qp(context, &attr, &dv, sizeof(dv));
		return qp ? 0 : errno;
	};

	every_fault(Allocates::something,
		{.call = create, .after = [&] { EXPECT_EQ(ibv_destroy_qp(qp), 0); }, .errors = {ENOMEM}});
	every_fault(Allocates::nothing, {.prepare = [&] { ASSERT_EQ(create(), 0); },
						.call =
							[&] {
								return ibv_destroy_qp(qp);
							}});
}

namespace {

/// What came of a life: what went wrong, and of the messages how many didn't arrive, or not as a whole
struct Life {
	std::string outcome;
	std::uint32_t lost = 0;
};

/// What has arrived in whole messages, of those that were written: the others are a part of what was sent, and else
/// nothing
std::uint32_t take_records(const Writer &left, const Target &right)
{
	ibv_poll_cq_attr attr{};
	std::uint32_t whole = 0, n = 0;

	// After the last segment an incomplete one is told of in 100 ms.
	while (n < messages && kiwarpdv_start_poll(right.recv_cq_ex(), &attr, 1'000'000) == 0) {
		kiwarpdv_record record{};
		const bool is_record = kiwarpdv_read_record(right.recv_cq_ex(), &record, sizeof(record)) == 0;

		EXPECT_EQ(right.recv_cq_ex()->status, IBV_WC_SUCCESS);
		ibv_end_poll(right.recv_cq_ex());
		if (!is_record)
			continue; // a message that was sent
		n++;
		whole += record.valid == length;
		const std::size_t at = record.addr - right.remote();
		for (const auto &[from, bytes] : record::valid(record))
			EXPECT_TRUE(vt::same(left.bytes(at + from, bytes), right.bytes(at + from, bytes)));
		for (const auto &[from, bytes] : record::holes(record))
			EXPECT_TRUE(vt::all_equal(right.bytes(at + from, bytes), 0));
	}
	return whole;
}

/// Two queue pairs and an address handle are made; messages are sent and written; all goes away.
Life live_by_datagrams()
{
	Life life;

	try {
		Writer left;
		Target right({.timeout = 100});
		const ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
		const ud::To to{ah.get(), right.number()};

		left.memory().fill_pattern(7);
		right.memory().fill(0);
		for (std::uint64_t i = 0; i < messages; i++)
			right.receive(i, i * stride, size);
		if (const int error = post_list(left, to))
			vt::fail("ibv_post_send", error);
		for (std::uint32_t i = 0; i < messages; i++) {
			const std::size_t at = written + i * length;

			if (const int error = left.post(to, right.remote(at), right.rkey(), at, length))
				vt::fail("ibv_wr_complete", error);
		}
		for (std::uint32_t i = 0; i < 2 * messages; i++)
			EXPECT_EQ(left.sent().status, IBV_WC_SUCCESS);
		life.lost = messages - take_records(left, right);
		for (std::size_t i = 0; i < messages; i++)
			life.lost += !vt::same(left.bytes(i * stride, size), right.bytes(i * stride + ud::grh, size));
	} catch (const std::exception &e) {
		life.outcome = e.what();
	}
	return life;
}

/// Return: how many allocations failed.
unsigned int try_function(const Function &function, unsigned int times, const Footprint &before)
{
	Life life;
	unsigned int failed = 0;

	{
		const Failing failing(function.range, times, 0);

		life = live_by_datagrams();
		failed = failing.failed();
	}
	if (!failed) {
		EXPECT_EQ(life.outcome, "");
		EXPECT_EQ(life.lost, 0U);
		return 0;
	}
	// A packet that isn't made for want of memory is at most a message.
	EXPECT_LE(life.outcome.empty() ? life.lost : 0, failed);
	EXPECT_TRUE(life.outcome.empty() || life.outcome.find("Cannot allocate memory") != std::string::npos)
		<< life.outcome;
	expect_back_to(before);
	std::cout << "  " << function.name << ", " << times << ": " << failed << " failed, " << life.lost << " lost "
		  << life.outcome << std::endl;
	life = live_by_datagrams();
	EXPECT_EQ(life.outcome, "") << "without a fault";
	EXPECT_EQ(life.lost, 0U) << "without a fault";
	return failed;
}

} // namespace

TEST(DatagramsAnywhere, AllocationsOfEveryFunction)
{
	std::vector<std::string> allocating;

	vt::server_device();
	ASSERT_EQ(live_by_datagrams().outcome, "");
	const Footprint before = footprint_at_rest();
	const std::vector<Function> functions = allocating_functions([] {
		for (int i = 0; i < 3; i++)
			ASSERT_EQ(live_by_datagrams().lost, 0U);
	});
	for (const Function &function : functions) {
		const testing::ScopedTrace trace(__FILE__, __LINE__, function.name);

		for (const unsigned int times : {1U, 3U}) {
			if (!try_function(function, times, before))
				break;
			if (times == 1)
				allocating.push_back(function.name);
		}
		ASSERT_FALSE(HasFailure());
	}
	std::cout << "  functions that allocate: " << allocating.size() << '\n';
	EXPECT_NE(std::find(allocating.begin(), allocating.end(), "kiw_create_qp"), allocating.end());
}

} // namespace faults
