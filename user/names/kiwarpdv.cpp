// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The names of kiwarpdv.h that take objects. Each asks whether the object is of our device, and calls the next library
// of that name if not. The others are libkiwarp's alone.
#include "provider/kiwarpdv.h"
#include "names.hpp"
#include "next.hpp"

extern "C" {
int kiw_own_query_device(ibv_context *context, kiwarpdv_attr *attr, std::size_t size);
ibv_qp *kiw_own_create_qp(
	ibv_context *context, ibv_qp_init_attr_ex *attr, const kiwarpdv_qp_init_attr *dv_attr, std::size_t size);
bool kiw_own_is_record(ibv_cq_ex *cq);
int kiw_own_read_record(ibv_cq_ex *cq, kiwarpdv_record *record, std::size_t size);
int kiw_own_poll_cq(ibv_cq *cq, int max, ibv_wc *wc, std::int64_t timeout_us);
int kiw_own_start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr, std::int64_t timeout_us);
}

using namespace kiwu;

KIW_NAME int kiwarpdv_query_device(ibv_context *context, kiwarpdv_attr *attr, std::size_t size)
{
	return ours(context) ? kiw_own_query_device(context, attr, size)
			     : NEXT(kiwarpdv_query_device, context, attr, size);
}

KIW_NAME ibv_qp *kiwarpdv_create_qp(
	ibv_context *context, ibv_qp_init_attr_ex *attr, const kiwarpdv_qp_init_attr *dv_attr, std::size_t size)
{
	return ours(context) ? kiw_own_create_qp(context, attr, dv_attr, size)
			     : NEXT(kiwarpdv_create_qp, context, attr, dv_attr, size);
}

KIW_NAME bool kiwarpdv_is_record(ibv_cq_ex *cq)
{
	return ours(cq) ? kiw_own_is_record(cq) : NEXT(kiwarpdv_is_record, cq);
}

KIW_NAME int kiwarpdv_read_record(ibv_cq_ex *cq, kiwarpdv_record *record, std::size_t size)
{
	return ours(cq) ? kiw_own_read_record(cq, record, size) : NEXT(kiwarpdv_read_record, cq, record, size);
}

KIW_NAME int kiwarpdv_poll_cq(ibv_cq *cq, int max, ibv_wc *wc, std::int64_t timeout_us)
{
	return ours(cq) ? kiw_own_poll_cq(cq, max, wc, timeout_us) : NEXT(kiwarpdv_poll_cq, cq, max, wc, timeout_us);
}

KIW_NAME int kiwarpdv_start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr, std::int64_t timeout_us)
{
	return ours(cq) ? kiw_own_start_poll(cq, attr, timeout_us) : NEXT(kiwarpdv_start_poll, cq, attr, timeout_us);
}
