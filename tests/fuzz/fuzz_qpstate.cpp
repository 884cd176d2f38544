// SPDX-License-Identifier: GPL-2.0
// The states of a queue pair under any sequence of events: whatever comes when, a connection starts once, ends once,
// sends at most one Terminate and nothing behind it, and no work stays without a completion.
#include "fuzz.hpp"
#include "proto/qpstate.h"
#include "receiver.hpp"

using library::require;

static bool known(kiw_qp_state state)
{
	return state == KIW_QP_IDLE || state == KIW_QP_RTS || state == KIW_QP_CLOSING || state == KIW_QP_TERMINATE ||
	       state == KIW_QP_ERROR;
}

namespace {

struct Life {
	kiw_qp_state state = KIW_QP_IDLE;
	bool connected = false; // from START to CLOSED
	bool stopped_in = false, stopped_out = false, terminated = false, got_terminate = false, finished = false;
	bool sends = false, receives = false; // there may be some that aren't completed

	// Work is posted wherever it is taken.
	void work()
	{
		receives |= state == KIW_QP_IDLE || state == KIW_QP_RTS;
		sends |= state == KIW_QP_RTS;
	}

	void act(uint16_t actions, kiw_qp_event event)
	{
		if (actions & KIW_ACT_START) {
			require(!connected, "a connection starts within another");
			connected = true;
			stopped_in = stopped_out = terminated = got_terminate = finished = false;
		}
		require(connected || !(actions & ~(KIW_ACT_FLUSH_SQ | KIW_ACT_FLUSH_RQ | KIW_ACT_LAST_WQE)),
			"something is done to a connection that isn't");
		stopped_in |= bool(actions & KIW_ACT_STOP_RX);
		stopped_out |= bool(actions & KIW_ACT_STOP_TX);
		got_terminate |= event == KIW_EV_TERM_RECEIVED;
		if (actions & KIW_ACT_SEND_TERM) {
			require(!terminated && !got_terminate, "a second Terminate, or one in answer to one");
			require(!finished && stopped_out, "a Terminate behind the end, or not as the last message");
			terminated = true;
		}
		if (actions & KIW_ACT_SEND_FIN) {
			require(!finished && stopped_out, "the end is sent twice, or with more to send");
			finished = true;
		}
		if (actions & KIW_ACT_ABORT)
			require(actions & KIW_ACT_CLOSED, "a stream is reset and not reported as closed");
		if (actions & KIW_ACT_CLOSED) {
			require(stopped_in && stopped_out, "a connection is over and goes on");
			connected = false;
		}
		if (actions & KIW_ACT_LAST_WQE)
			require(actions & KIW_ACT_FLUSH_RQ, "the last receive request is told of and isn't completed");
		if (actions & KIW_ACT_FLUSH_SQ)
			sends = false;
		if (actions & KIW_ACT_FLUSH_RQ)
			receives = false;
	}

	void hold()
	{
		require(known(state), "no such state");
		require(connected == (state == KIW_QP_RTS || state == KIW_QP_CLOSING || state == KIW_QP_TERMINATE),
			"state and connection disagree");
		switch (state) {
		case KIW_QP_RTS:
			require(!stopped_in && !stopped_out, "the connection is up and stands still");
			break;
		case KIW_QP_CLOSING:
			require(stopped_out && finished && !terminated, "closing without an end, or with a Terminate");
			require(!receives, "closing with receives that nobody completes");
			break;
		case KIW_QP_TERMINATE:
			require(stopped_in && stopped_out && finished, "terminating, and the stream goes on");
			require(terminated || got_terminate, "terminating, and nobody sent a Terminate");
			break;
		case KIW_QP_ERROR:
			require(!sends && !receives, "in the error state with work that isn't flushed");
			break;
		default:
			break;
		}
	}
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Life life;

	for (size_t i = 0; i < size; i++) {
		// One more than there are, and a state that isn't, must be refused.
		const auto event = kiw_qp_event(data[i] % (KIW_EVENTS + 1));
		const kiw_qp_step step = kiw_qp_next(life.state, event);

		life.work();
		// A close with work pending has an event of its own; what the caller knows to be idle has none.
		if (event == KIW_EV_CLOSE || event == KIW_EV_PEER_FIN)
			life.sends = false;
		if (!step.valid) {
			require(step.next == life.state && !step.actions, "an event is refused and does something");
			require(event == KIW_EVENTS || life.state != KIW_QP_ERROR || event == KIW_EV_CONNECTED ||
					event == KIW_EV_MODIFY_TERM,
				"late news is refused in the error state");
			require(event != KIW_EV_MODIFY_ERR, "the way to the error state is refused");
			continue;
		}
		require(event != KIW_EVENTS, "an event that isn't is taken");
		require(event != KIW_EV_MODIFY_ERR || step.next == KIW_QP_ERROR,
			"the wish for the error state isn't met");
		require(bool(step.actions & KIW_ACT_LAST_WQE) ==
				(step.next == KIW_QP_ERROR && life.state != KIW_QP_ERROR),
			"the last receive request is told of without an error, or twice, or never");
		life.act(step.actions, event);
		life.state = kiw_qp_state(step.next);
		life.hold();
		require(!kiw_qp_next(kiw_qp_state(KIW_QP_STATES + data[i]), event).valid,
			"a state that isn't has a way on");
	}
	return 0;
}
