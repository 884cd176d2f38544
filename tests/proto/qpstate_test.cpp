// SPDX-License-Identifier: GPL-2.0
#include <array>
#include <string>

#include "support.hpp"

namespace {

constexpr std::uint16_t flush = KIW_ACT_FLUSH_SQ | KIW_ACT_FLUSH_RQ;

// States a row leads to, one letter per event in the order of the enumeration; a dot where it is refused
//                                       connected
//                                       | close
//                                       | | close busy
//                                       | | | modify to terminate, error, reset
//                                       | | | | | | peer's FIN, with work pending
//                                       | | | | | | | | stream lost
//                                       | | | | | | | | | local error
//                                       | | | | | | | | | | Terminate received
//                                       | | | | | | | | | | | activity
//                                       | | | | | | | | | | | | closed
const std::array<std::string, KIW_QP_STATES> expected{
	/* idle      */ "R...EI.......",
	/* ready     */ ".CETE.CEETTR.",
	/* closing   */ ".CE.E.CEEEEEI",
	/* terminate */ ".TTTE.TTETTTE",
	/* error     */ ".EE.EIEEEEEEE",
};

kiw_qp_step step(unsigned state, unsigned event)
{
	return kiw_qp_next(static_cast<kiw_qp_state>(state), static_cast<kiw_qp_event>(event));
}

TEST(QpState, full_product_leads_where_it_should)
{
	const std::string letters = "IRCTE";
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		ASSERT_EQ(expected[state].size(), std::size_t{KIW_EVENTS});
		for (unsigned event = 0; event < KIW_EVENTS; event++) {
			const kiw_qp_step s = step(state, event);
			const char want = expected[state][event];
			EXPECT_EQ(s.valid, want != '.') << state << " " << event;
			EXPECT_EQ(letters[s.next], want == '.' ? letters[state] : want) << state << " " << event;
			if (!s.valid) {
				EXPECT_EQ(s.actions, 0);
			}
		}
	}
}

TEST(QpState, staying_asks_for_nothing)
{
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		for (unsigned event = 0; event < KIW_EVENTS; event++) {
			const kiw_qp_step s = step(state, event);
			if (s.next == state) {
				EXPECT_EQ(s.actions, 0) << state << " " << event;
			}
		}
	}
}

TEST(QpState, entering_error_flushes_everything)
{
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		for (unsigned event = 0; event < KIW_EVENTS; event++) {
			const kiw_qp_step s = step(state, event);
			if (s.next != KIW_QP_ERROR || state == KIW_QP_ERROR)
				continue;
			EXPECT_EQ(s.actions & flush, flush) << state << " " << event;
			EXPECT_TRUE(s.actions & KIW_ACT_LAST_WQE);
			EXPECT_FALSE(s.actions & (KIW_ACT_SEND_TERM | KIW_ACT_SEND_FIN));
		}
	}
}

TEST(QpState, leaving_a_stream_tells_the_connection_manager_once)
{
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		for (unsigned event = 0; event < KIW_EVENTS; event++) {
			const kiw_qp_step s = step(state, event);
			const bool had = state == KIW_QP_RTS || state == KIW_QP_CLOSING || state == KIW_QP_TERMINATE;
			const bool has = s.next == KIW_QP_RTS || s.next == KIW_QP_CLOSING || s.next == KIW_QP_TERMINATE;
			EXPECT_EQ(!!(s.actions & KIW_ACT_CLOSED), had && !has) << state << " " << event;
		}
	}
}

TEST(QpState, entering_terminate_always_closes_the_stream)
{
	for (unsigned event = 0; event < KIW_EVENTS; event++) {
		const kiw_qp_step s = step(KIW_QP_RTS, event);
		if (s.next != KIW_QP_TERMINATE)
			continue;
		EXPECT_TRUE(s.actions & KIW_ACT_SEND_FIN);
		EXPECT_TRUE(s.actions & KIW_ACT_STOP_RX);
		EXPECT_TRUE(s.actions & KIW_ACT_STOP_TX);
	}
}

TEST(QpState, terminate_is_never_answered_and_never_repeated)
{
	EXPECT_FALSE(step(KIW_QP_RTS, KIW_EV_TERM_RECEIVED).actions & KIW_ACT_SEND_TERM);
	EXPECT_TRUE(step(KIW_QP_RTS, KIW_EV_LOCAL_ERROR).actions & KIW_ACT_SEND_TERM);
	for (unsigned state : {KIW_QP_CLOSING, KIW_QP_TERMINATE, KIW_QP_ERROR}) {
		for (unsigned event = 0; event < KIW_EVENTS; event++)
			EXPECT_FALSE(step(state, event).actions & KIW_ACT_SEND_TERM);
	}
}

TEST(QpState, orderly_close_ends_reusable_and_silent)
{
	kiw_qp_step s = step(KIW_QP_IDLE, KIW_EV_CONNECTED);
	EXPECT_EQ(s.actions, KIW_ACT_START);
	s = step(s.next, KIW_EV_CLOSE);
	EXPECT_EQ(s.actions & (flush | KIW_ACT_ABORT | KIW_ACT_ASYNC), KIW_ACT_FLUSH_RQ);
	EXPECT_TRUE(s.actions & KIW_ACT_SEND_FIN);
	s = step(s.next, KIW_EV_PEER_FIN);
	s = step(s.next, KIW_EV_CLOSE_DONE);
	EXPECT_EQ(s.next, KIW_QP_IDLE);
	EXPECT_FALSE(s.actions & KIW_ACT_ASYNC);
	EXPECT_TRUE(step(s.next, KIW_EV_CONNECTED).valid);
}

TEST(QpState, every_action_is_asked_for_and_no_other)
{
	unsigned seen = 0;
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		for (unsigned event = 0; event < KIW_EVENTS; event++)
			seen |= step(state, event).actions;
	}
	EXPECT_EQ(seen, KIW_ACT_NOW | KIW_ACT_LATER);
	EXPECT_EQ(KIW_ACT_NOW & KIW_ACT_LATER, 0);
}

TEST(QpState, becoming_idle_asks_for_no_more_than_the_end_of_the_stream)
{
	for (unsigned state = 0; state < KIW_QP_STATES; state++) {
		for (unsigned event = 0; event < KIW_EVENTS; event++) {
			const kiw_qp_step s = step(state, event);
			if (s.valid && s.next == KIW_QP_IDLE) {
				EXPECT_EQ(s.actions & ~(KIW_ACT_STOP_RX | KIW_ACT_STOP_TX | KIW_ACT_CLOSED), 0)
					<< state << " " << event;
			}
		}
	}
}

TEST(QpState, every_way_to_terminate_is_told)
{
	for (unsigned event = 0; event < KIW_EVENTS; event++) {
		const kiw_qp_step s = step(KIW_QP_RTS, event);
		if (s.next == KIW_QP_TERMINATE) {
			EXPECT_EQ(s.actions & (KIW_ACT_DISCONNECT | KIW_ACT_ASYNC), KIW_ACT_DISCONNECT | KIW_ACT_ASYNC)
				<< event;
		}
	}
}

TEST(QpState, every_state_reaches_error_on_request)
{
	for (unsigned state = 0; state < KIW_QP_STATES; state++)
		EXPECT_EQ(step(state, KIW_EV_MODIFY_ERR).next, KIW_QP_ERROR);
}

TEST(QpState, arguments_out_of_range_are_refused)
{
	EXPECT_FALSE(step(KIW_QP_STATES, KIW_EV_CONNECTED).valid);
	EXPECT_FALSE(step(KIW_QP_IDLE, KIW_EVENTS).valid);
}

} // namespace
