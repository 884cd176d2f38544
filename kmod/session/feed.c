// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Start of a session, and its received bytes. */
#include "session.h"

#include "arrive.h"

/* A responder may send after the first good FPDU (RFC 5044 section 7.1.2). */
static void feed_first(struct kiw_session *s)
{
	s->rx_first = false;
	if (s->tx.gate)
		return;
	s->tx.gate = true;
	kiw_carrier_kick(s);
	kiw_carrier_established(s);
}

void kiw_session_start(struct kiw_session *s, u32 seq, bool first)
{
	s->async = IB_EVENT_QP_FATAL;
	s->rx_first = true;
	s->tx.gate = first;
	s->tx.acked = kiw_core_manner(s->core)->acked;
	if (first && s->neg.p2p)
		s->tx.rtr = s->neg.rtr;
	kiw_receive_init(&s->rx, seq, s->neg.crc, s->neg.markers_rx,
			 s->neg.ext ? s->core->caps & KIW_ARRIVE_CAPS : 0);
	kiw_session_event(s, KIW_EV_CONNECTED);
}

u32 kiw_session_feed(struct kiw_session *s, struct kiw_source *src, u32 budget)
{
	struct kiw_receive *rx = &s->rx;
	u32 start = src->seq, fpdus = 0;

	kiw_carrier_assert_held(s);
	/* A segment that waits for the sink needs no further byte. */
	while (!rx->stopped && (rx->held || kiw_source_left(src)) &&
	       src->seq - start <= budget) {
		switch (kiw_receive_step(rx, src)) {
		case KIW_DONE:
			fpdus++;
			if (s->rx_first && !rx->stopped)
				feed_first(s);
			break;
		case KIW_MORE:
			return fpdus;
		case KIW_BAD:
			kiw_session_fail(s, rx->err, kiw_receive_ulpdu(rx),
					 kiw_receive_ulpdu_have(rx), kiw_receive_ulpdu_len(rx));
			break;
		}
	}
	return fpdus;
}
