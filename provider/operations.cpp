// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Operations of a device for one release of libibverbs: compiled once per release.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <infiniband/verbs.h>

#include "ah.hpp"
#include "context.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "mr.hpp"
#include "mw.hpp"
#include "private_abi.hpp"
#include "qp.hpp"
#include "rdma_core.hpp"
#include "srq.hpp"

namespace kiw {

namespace {

int query_device_ex(
	ibv_context *context, const ibv_query_device_ex_input *input, ibv_device_attr_ex *attr, std::size_t attr_size)
{
	ib_uverbs_ex_query_device_resp response{};
	std::size_t response_size = sizeof(response);

	if (const int error = ibv_cmd_query_device_any(context, input, attr, attr_size, &response, &response_size))
		return error;

	// The first member exists in every size that callers pass.
	const std::uint64_t version = response.base.fw_ver;
	char *text = attr->orig_attr.fw_ver;
	(void)std::snprintf(text, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u", unsigned(version >> 32 & 0xffff),
		unsigned(version >> 16 & 0xffff), unsigned(version & 0xffff));
	return 0;
}

int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr)
{
	pabi::QueryPort request{};

	return ibv_cmd_query_port(context, port, attr, &request, sizeof(request));
}

constexpr pabi::ContextOps context_ops = {
	.alloc_mw = alloc_mw,
	.alloc_parent_domain = alloc_parent_domain,
	.alloc_pd = alloc_pd,
	.alloc_td = alloc_td,
	.attach_mcast = attach_mcast,
	.bind_mw = bind_mw,
	.create_ah = create_ah,
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.create_srq = create_srq,
	.dealloc_mw = dealloc_mw,
	.dealloc_pd = dealloc_pd,
	.dealloc_td = dealloc_td,
	.dereg_mr = dereg_mr,
	.destroy_ah = destroy_ah,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.destroy_srq = destroy_srq,
	.detach_mcast = detach_mcast,
	.free_context = free_context,
	.import_mr = import_mr,
	.import_pd = import_pd,
	.modify_cq = modify_cq,
	.modify_qp = modify_qp,
	.modify_srq = modify_srq,
	.poll_cq = poll_cq,
	.post_recv = post_recv,
	.post_send = post_send,
	.post_srq_recv = post_srq_recv,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_qp = query_qp,
	.query_srq = query_srq,
	.reg_mr = reg_mr,
	.req_notify_cq = req_notify_cq,
	.rereg_mr = rereg_mr,
	.resize_cq = resize_cq,
	.unimport_mr = unimport_mr,
	.unimport_pd = unimport_pd,
};

void set_operations(verbs_context *context)
{
	verbs_set_ops(context, &context_ops);
}

} // namespace

extern const RdmaCore KIW_JOINED(layouts_, KIW_RDMA_CORE);
constinit const RdmaCore KIW_JOINED(layouts_, KIW_RDMA_CORE) = {
	.rdma_core = pabi::layout.rdma_core,
	.interface = pabi::layout.interface,
	.context_front = pabi::layout.context_front,
	.get_context = pabi::get_context,
	.set_operations = set_operations,
};

} // namespace kiw
