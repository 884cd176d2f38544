// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// RFC 7306: immediate data and atomics, where both sides have said that they take them.
#include <arpa/inet.h>
#include <cstring>

#include "session.hpp"

namespace {

constexpr int atomic_access = vt::all_access | IBV_ACCESS_REMOTE_ATOMIC;

std::vector<Terms> extended_terms()
{
	std::vector<Terms> all = all_terms();

	for (Terms &t : all) {
		t.extensions = true;
		t.access = atomic_access;
	}
	return all;
}

Terms extended(Terms t = {})
{
	t.extensions = true;
	t.access = atomic_access;
	return t;
}

Code operation_error(uint8_t code)
{
	return {0, 2, code};
}

// The target's octets aren't aligned by themselves.
constexpr size_t word_at(uint64_t base, size_t from = 0)
{
	return from + (8 - (base + from) % 8) % 8;
}

/// A word of the target, in the byte order of this host's memory
struct Word {
	explicit Word(Session &s, size_t from = 0) : session(s), offset(word_at(s.target().address(), from)) {}

	uint64_t address() const { return session.target().address(offset); }
	uint64_t get() const
	{
		const Bytes b = session.target().octets(offset, 8);
		uint64_t value = 0;

		std::memcpy(&value, b.data(), sizeof(value));
		return value;
	}
	void set(uint64_t value) const
	{
		Bytes b(8);

		std::memcpy(b.data(), &value, sizeof(value));
		session.target().set(offset, b);
	}
	AtomicRequest request(uint32_t operation, uint64_t data) const
	{
		return {.operation = operation,
			.identifier = 0x600d1d,
			.stag = session.target().stag(),
			.offset = address(),
			.data = data};
	}

	Session &session;
	size_t offset;
};

void expect_told(const ibv_wc &wc, uint64_t id, uint32_t value, uint32_t length)
{
	EXPECT_WC(wc, id, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
	EXPECT_EQ(ntohl(wc.imm_data), value);
	EXPECT_EQ(wc.byte_len, length);
}

// --- immediate data ---

TEST(Extension, r156_immediate_data_take_a_receive_request)
{
	in_every_way(extended_terms(), [](Session &s, Cut &cut) {
		s.peer().deliver(s.peer().framed(immediate_segment(1, 0x89abcdef)), cut);
		expect_told(s.kiwarp().received(), 0, 0x89abcdef, 0);
		EXPECT_TRUE(s.nothing_received());
		s.sync(2);
	});
}

TEST(Extension, r156_what_it_sends)
{
	for (const Terms &t : extended_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		const vt::Sges five = {s.own().sge(0, 5)};
		const Bytes data = Target::fresh(0, 5);

		s.greet();
		ASSERT_EQ(s.kiwarp().post(IBV_WR_RDMA_WRITE_WITH_IMM, five,
				  {.remote = 0x123456789abcdef0, .rkey = 0x87654321, .imm = htonl(0x11223344)}),
			0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_RDMA_WRITE_WITH_IMM, {},
				  {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
					  .remote = 7,
					  .rkey = 8,
					  .imm = htonl(1)}),
			0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_SEND_WITH_IMM, five, {.imm = htonl(0x55667788)}), 0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_SEND_WITH_IMM, {},
				  {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, .imm = htonl(2)}),
			0);
		s.peer().expect(tagged_segment(op_write, 0x87654321, 0x123456789abcdef0, data));
		s.peer().expect(immediate_segment(1, 0x11223344));
		s.peer().expect(tagged_segment(op_write, 8, 7, {}));
		s.peer().expect(immediate_segment(2, 1, op_immediate_se));
		s.peer().expect(
			untagged_segment(op_send, 0, 3, 0, data, last | ddp_1, rdmap_1 | send_immediate, 0x55667788));
		s.peer().expect(untagged_segment(op_send_se, 0, 4, 0, {}, last | ddp_1, rdmap_1 | send_immediate, 2));
	}
}

TEST(Extension, r156_sends_carry_them_too)
{
	in_every_way(extended_terms(), [](Session &s, Cut &cut) {
		s.peer().deliver(s.peer().framed(untagged_segment(
					 op_send, 0, 1, 0, hello, last | ddp_1, rdmap_1 | send_immediate, 0xcafe)),
			cut);
		const ibv_wc wc = s.kiwarp().received();
		EXPECT_WC(wc, 0, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
		EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
		EXPECT_EQ(ntohl(wc.imm_data), 0xcafeU);
		EXPECT_TRUE(s.has_received(0, hello));
	});
	// Where nothing was agreed upon, the bit is a reserved one and says nothing.
	Session plain({});
	plain.peer().send(untagged_segment(op_send, 0, 1, 0, hello, last | ddp_1, rdmap_1 | send_immediate, 0xcafe));
	EXPECT_EQ(plain.kiwarp().received().wc_flags, 0U);
}

TEST(Extension, r157_immediate_data_of_another_length)
{
	for (const size_t n : {0, 4, 7, 9, 16})
		refused_too({.code = n < 8 ? operation_error(7) : Code{1, 2, 5},
				    .segment =
					    [=](Session & /*s*/) {
						    return untagged_segment(op_immediate, 0, 1, 0, pattern(n));
					    }},
			extended_terms());
	// In parts
	refused_too({.code = operation_error(7),
			    .segment =
				    [](Session & /*s*/) {
					    return untagged_segment(op_immediate_se, 0, 1, 0, pattern(8), ddp_1);
				    }},
		extended_terms());
}

TEST(Extension, r156_immediate_data_have_the_numbers_of_sends)
{
	refused_too({.code = {1, 2, 3},
			    .segment =
				    [](Session & /*s*/) {
					    return immediate_segment(2, 1);
				    }},
		extended_terms());
	refused_too({.code = {1, 2, 1},
			    .segment =
				    [](Session & /*s*/) {
					    Bytes b = immediate_segment(1, 1);
					    b[9] = 1; // queue
					    return b;
				    }},
		extended_terms());
}

TEST(Extension, r158_the_write_is_placed_before_its_value_completes)
{
	in_every_way(extended_terms(), [](Session &s, Cut &cut) {
		const Bytes data = pattern(100);
		s.peer().deliver(s.peer().framed(write_segment(s.target().stag(), s.target().address(), data)) +
					 s.peer().framed(immediate_segment(1, 5)),
			cut);
		expect_told(s.kiwarp().received(), 0, 5, 100);
		EXPECT_EQ(s.target().octets(0, 100), data);
	});
	// A Write of several segments: its length is told. That of the one before isn't.
	Session s(extended());
	s.peer().send(write_segment(s.target().stag(), s.target().address(), pattern(50)));
	s.peer().send(tagged_segment(op_write, s.target().stag(), s.target().address(), pattern(1000), tagged | ddp_1));
	s.peer().send(write_segment(s.target().stag(), s.target().address(1000), pattern(11)));
	s.peer().send(immediate_segment(1, 6));
	expect_told(s.kiwarp().received(), 0, 6, 1011);
	s.peer().send(immediate_segment(2, 7));
	expect_told(s.kiwarp().received(), 1, 7, 0);
}

TEST(Extension, r167_what_was_not_agreed_upon_is_not_sent)
{
	for (const Terms &t : all_terms()) {
		for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
			     IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
			SCOPED_TRACE(t.text() + ", opcode " + std::to_string(opcode));
			Session s(t);
			s.greet();
			ASSERT_EQ(s.kiwarp().post(opcode, {s.own().sge(0, 8)}, {.id = 3, .remote = 8, .rkey = 9}), 0);
			EXPECT_WC(s.kiwarp().sent(), 3, IBV_WC_LOC_QP_OP_ERR);
			s.peer().expect(terminate_segment(0, 0, 0xff));
		}
	}
}

// --- atomics ---

TEST(Extension, r159_r160_atomics_that_it_sends_and_what_they_bring)
{
	for (const Terms &t : extended_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		const vt::Sges result = {s.own().sge(1, 8)};

		s.greet();
		ASSERT_EQ(s.kiwarp().post(IBV_WR_ATOMIC_FETCH_AND_ADD, result,
				  {.id = 1, .remote = 0x1122334455667788, .rkey = 0x99aabbcc, .compare_add = 0xabcdef}),
			0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_ATOMIC_CMP_AND_SWP, {s.own().sge(9, 8)},
				  {.id = 2, .remote = 16, .rkey = 5, .compare_add = 0x1111, .swap = 0x2222}),
			0);
		const Bytes add = s.peer().next(), swap = s.peer().next();
		const auto identifier = [](const Bytes &b) {
			return uint32_t(get(&b[22], 4));
		};
		EXPECT_EQ(add, atomic_segment({.number = 1,
				       .operation = fetch_add,
				       .identifier = identifier(add),
				       .stag = 0x99aabbcc,
				       .offset = 0x1122334455667788,
				       .data = 0xabcdef}));
		EXPECT_EQ(swap, atomic_segment({.number = 2,
					.operation = cmp_swap,
					.identifier = identifier(swap),
					.stag = 5,
					.offset = 16,
					.data = 0x2222,
					.mask = ~uint64_t{0},
					.compare = 0x1111,
					.compare_mask = ~uint64_t{0}}));
		EXPECT_NE(identifier(add), identifier(swap));
		s.peer().send(atomic_answer(1, identifier(add), 0x0102030405060708));
		s.peer().send(atomic_answer(2, identifier(swap), 77));
		const ibv_wc added = s.kiwarp().sent(), swapped = s.kiwarp().sent();
		EXPECT_WC(added, 1, IBV_WC_SUCCESS);
		EXPECT_EQ(added.opcode, IBV_WC_FETCH_ADD);
		EXPECT_WC(swapped, 2, IBV_WC_SUCCESS);
		EXPECT_EQ(swapped.opcode, IBV_WC_COMP_SWAP);
		uint64_t value = 0;
		std::memcpy(&value, s.own().octets(1, 8).data(), sizeof(value));
		EXPECT_EQ(value, 0x0102030405060708U);
		std::memcpy(&value, s.own().octets(9, 8).data(), sizeof(value));
		EXPECT_EQ(value, 77U);
		EXPECT_TRUE(s.own().untouched_but(1, 16));
	}
}

TEST(Extension, r159_r160_atomics_that_it_answers)
{
	in_every_way(extended_terms(), [](Session &s, Cut &cut) {
		const Word word(s);
		word.set(40);
		s.peer().deliver(s.peer().framed(atomic_segment(word.request(fetch_add, 2))), cut);
		s.peer().expect(atomic_answer(1, 0x600d1d, 40));
		EXPECT_EQ(word.get(), 42U);
		EXPECT_TRUE(s.target().untouched_but(word.offset, 8));
	});
}

TEST(Extension, r159_answers_that_are_none)
{
	const auto answered = [](const std::function<Bytes(uint32_t identifier)> &wrong, Code code) {
		Session s(extended());
		s.greet();
		ASSERT_EQ(s.kiwarp().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {s.own().sge(0, 8)},
				  {.id = 1, .remote = 8, .rkey = 5, .compare_add = 1}),
			0);
		const Bytes answer = wrong(uint32_t(get(&s.peer().next()[22], 4)));
		s.peer().send(answer);
		s.expect_terminate(terminate_segment(code, Headers::ddp, answer));
		EXPECT_TRUE(s.own().untouched_but());
	};

	answered([](uint32_t id) { return atomic_answer(1, id + 1, 5); }, operation_error(7));
	answered([](uint32_t id) { return atomic_answer(2, id, 5); }, {1, 2, 3});
	answered([](uint32_t /*id*/) { return tagged_segment(op_response, 1, 0, pattern(8)); }, operation_error(6));
	// Nobody has asked, or for a Read.
	refused_too({.code = operation_error(6),
			    .segment =
				    [](Session & /*s*/) {
					    return atomic_answer(1, 1, 1);
				    }},
		extended_terms());
	Session s(extended());
	s.greet();
	ASSERT_EQ(s.kiwarp().read({s.own().sge(0, 8)}, {.id = 1, .remote = 8, .rkey = 5}), 0);
	s.peer().next();
	s.peer().send(atomic_answer(1, 0, 1));
	s.expect_terminate(terminate_segment(operation_error(6), Headers::ddp, atomic_answer(1, 0, 1)));
}

TEST(Extension, r161_targets_that_are_not_aligned)
{
	for (const size_t off : {1, 2, 4, 7})
		refused_too({.code = operation_error(7),
				    .segment =
					    [=](Session &s) {
						    AtomicRequest a = Word(s).request(fetch_add, 1);
						    a.offset += off;
						    return atomic_segment(a);
					    }},
			extended_terms());
}

TEST(Extension, r161_targets_that_may_not_be_touched)
{
	const auto spoilt = [](uint8_t code, const std::function<void(Session &, AtomicRequest &)> &spoil) {
		refused_too({.code = {0, 1, code},
				    .segment =
					    [=](Session &s) {
						    AtomicRequest a = Word(s).request(fetch_add, 1);
						    spoil(s, a);
						    return atomic_segment(a);
					    }},
			extended_terms());
	};

	spoilt(0, [](Session & /*s*/, AtomicRequest &a) { a.stag ^= 0x100; });
	spoilt(1, [](Session & /*s*/, AtomicRequest &a) { a.offset += Target::size; });
	std::vector<Terms> without = extended_terms();
	for (Terms &t : without)
		t.access = vt::all_access;
	refused_too({.code = {0, 1, 2},
			    .segment =
				    [](Session &s) {
					    return atomic_segment(Word(s).request(fetch_add, 1));
				    }},
		without);
}

TEST(Extension, r162_fields_of_a_fetch_and_add)
{
	Session s(extended());
	const Word word(s);
	struct {
		uint64_t before, data, mask, after;
	} const cases[] = {
		{5, 6, 0, 11},
		{~uint64_t{0}, 1, 0, 0},
		// Two of 32 bits: nothing is carried from one into the other
		{0x00000001ffffffff, 0x0000000100000001, 0x8000000080000000, 0x0000000200000000},
		// Eight of 8
		{0xff01ff01ff01ff01, 0x0101010101010101, 0x8080808080808080, 0x0002000200020002},
	};
	uint32_t number = 1;

	for (const auto &c : cases) {
		AtomicRequest a = word.request(fetch_add, c.data);
		a.number = number;
		a.mask = c.mask;
		word.set(c.before);
		s.peer().send(atomic_segment(a));
		s.peer().expect(atomic_answer(number++, a.identifier, c.before));
		EXPECT_EQ(word.get(), c.after);
	}
}

TEST(Extension, r163_masks_of_a_compare_and_swap)
{
	Session s(extended());
	const Word word(s);
	constexpr uint64_t all = ~uint64_t{0};
	struct {
		uint64_t before, compare, compare_mask, swap, swap_mask, after;
	} const cases[] = {
		{5, 5, all, 9, all, 9},
		{5, 6, all, 9, all, 5},
		{0x1234, 0xff34, 0xff, 0xabcd, 0xff00, 0xab34},
		{7, 0, 0, 0xffff, 0xf0, 0xf7},
	};
	uint32_t number = 1;

	for (const auto &c : cases) {
		AtomicRequest a = word.request(cmp_swap, c.swap);
		a.number = number;
		a.mask = c.swap_mask;
		a.compare = c.compare;
		a.compare_mask = c.compare_mask;
		word.set(c.before);
		s.peer().send(atomic_segment(a));
		s.peer().expect(atomic_answer(number++, a.identifier, c.before));
		EXPECT_EQ(word.get(), c.after);
	}
}

TEST(Extension, r165_answers_come_in_the_order_of_the_requests)
{
	for (const Terms &t : extended_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		const Word word(s);
		const auto octets_of = [](uint64_t value) {
			Bytes b(8);
			std::memcpy(b.data(), &value, sizeof(value));
			return b;
		};
		AtomicRequest second = word.request(fetch_add, 3);

		second.number = 2;
		word.set(10);
		const Bytes before = octets_of(10), after = octets_of(13);
		const uint32_t stag = s.target().stag();
		// In one segment: none is answered before all have come
		s.peer().link.send(s.peer().framed(read_segment(1, stag, word.address(), 8, 1)) +
				   s.peer().framed(atomic_segment(second)) +
				   s.peer().framed(read_segment(3, stag, word.address(), 8, 2)));
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 1, before));
		s.peer().expect(atomic_answer(1, second.identifier, 10));
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 2, after));
	}
}

TEST(Extension, r165_reads_and_atomics_share_the_depth)
{
	Session s(extended({.kiwarp_connects = true, .reads = 2}));

	for (uint64_t id = 0; id < 4; id++) {
		if (id % 2)
			ASSERT_EQ(s.kiwarp().read({}, {.id = id}), 0);
		else
			ASSERT_EQ(s.kiwarp().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {s.own().sge(0, 8)},
					  {.id = id, .remote = 8, .rkey = 5}),
				0);
	}
	const Bytes atomic = s.peer().next();
	EXPECT_EQ(atomic[1] & 0xf, op_atomic);
	EXPECT_EQ(s.peer().next()[1] & 0xf, op_read);
	EXPECT_TRUE(s.peer().link.silent(100));
	s.peer().send(atomic_answer(1, uint32_t(get(&atomic[22], 4)), 0));
	EXPECT_EQ(s.peer().next()[1] & 0xf, op_atomic);
}

TEST(Extension, r166_operations_that_are_not_known)
{
	for (const uint32_t operation : {1, 3, 7, 15})
		refused_too({.code = operation_error(7),
				    .segment =
					    [=](Session &s) {
						    return atomic_segment(Word(s).request(operation, 1));
					    }},
			extended_terms());
}

TEST(Extension, r159_atomic_requests_of_another_length)
{
	for (const size_t n : {0, 51, 53})
		refused_too({.code = n < 52 ? operation_error(7) : Code{1, 2, 5},
				    .segment =
					    [=](Session & /*s*/) {
						    return untagged_segment(op_atomic, 1, 1, 0, pattern(n));
					    }},
			extended_terms());
}

// The peer says why: the request that it names completes with more than a flush.
TEST(Extension, r150_terminate_that_names_an_atomic)
{
	Session s(extended());

	s.greet();
	ASSERT_EQ(s.kiwarp().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {s.own().sge(0, 8)}, {.id = 1, .remote = 8, .rkey = 5}),
		0);
	const Bytes request = s.peer().next();
	s.peer().send(terminate_segment({0, 1, 2}, Headers::ddp, request));
	EXPECT_WC(s.kiwarp().sent(), 1, IBV_WC_REM_ACCESS_ERR);
}

} // namespace
