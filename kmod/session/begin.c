// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The beginning of a session. */
#include "session.h"

#include "arrive.h"

void kiw_session_start(struct kiw_session *s, u32 seq, u32 caps, bool first)
{
	s->async = IB_EVENT_QP_FATAL;
	s->rx_first = true;
	s->tx.gate = first;
	s->tx.acked = kiw_core_manner(s->core)->acked;
	if (first && s->neg.p2p)
		s->tx.rtr = s->neg.rtr;
	kiw_receive_init(&s->rx, seq, s->neg.crc, s->neg.markers_rx,
			 s->neg.ext ? caps & KIW_ARRIVE_CAPS : 0);
	kiw_session_event(s, KIW_EV_CONNECTED);
}
