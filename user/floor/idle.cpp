// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A queue pair without a stream
#include "qp.hpp"

namespace kiwu {

constinit const kiw_manner manner_cm = {.grace = 0, .outlives = false, .acked = false, .lost = IB_WC_WR_FLUSH_ERR};

bool Qp::is_over() const
{
	// By number, requests wait for another connection.
	return core.state == KIW_QP_ERROR || (core.state == KIW_QP_IDLE && closed && !by_number);
}

void Qp::set_access(unsigned access)
{
	__atomic_store_n(&core.own.access, static_cast<std::uint8_t>(access), __ATOMIC_RELAXED);
}

void Qp::flush_idle()
{
	kiw_core_flush_sq(&core);
	kiw_rq_flush(&core.rq, nullptr);
}

/// The error state of a queue pair without a stream
void Qp::fail_idle()
{
	const kiw_qp_step step = kiw_qp_next(static_cast<kiw_qp_state>(core.state), KIW_EV_MODIFY_ERR);
	const bool told = is_over();

	core.state = step.next;
	flush_idle();
	if ((step.actions & KIW_ACT_LAST_WQE) && !told && srq)
		raise(*this, IBV_EVENT_QP_LAST_WQE_REACHED);
}

} // namespace kiwu
