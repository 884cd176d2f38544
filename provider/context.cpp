// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "context.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <rdma/ib_user_ioctl_cmds.h>

#include "invocation.hpp"
#include "kiwarp-abi.h"
#include "private_abi.hpp"
#include "rdma_core.hpp"

namespace kiw {

namespace {

/// libibverbs' part
verbs_context *base_of(Context &own)
{
	return reinterpret_cast<verbs_context *>(own.front + pabi::context_front - rdma_core_here->context_front);
}

/// Makes a context in the kernel. Returns 0 or an errno value.
int get(Context &own, kiw_get_context_resp &limits)
{
	pabi::RequestWith<16, kiw_get_context_req> request{};
	pabi::Response<8, kiw_get_context_resp> response{};

	request.own.features = KIW_FEATURES;
	if (const int error = rdma_core_here->get_context(
		    base_of(own), &request, sizeof(request), &response, sizeof(response)))
		return error;
	limits = response.own;
	return 0;
}

/// Queries a context that exists in the kernel. Returns 0 or an errno value.
int query(Context &own, kiw_get_context_resp &limits)
{
	std::uint32_t comp_vectors = 0;
	std::uint64_t core_support = 0;

	if (const int error = invoke(own.ibv.cmd_fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
		    attribute(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, sizeof(comp_vectors), address(&comp_vectors)),
		    attribute(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, sizeof(core_support), address(&core_support)),
		    attribute(KIW_ATTR_QUERY_CONTEXT_RESP, sizeof(limits), address(&limits))))
		return error;
	// A later provider opened it: there may be completions that this one cannot read.
	if (limits.features & ~std::uint32_t{KIW_FEATURES})
		return EOPNOTSUPP;
	own.ibv.num_comp_vectors = static_cast<int>(comp_vectors);
	reinterpret_cast<pabi::Device *>(own.ibv.device)->core_support = core_support;
	return 0;
}

verbs_context *make_context(ibv_device *device, int cmd_fd, int (*obtain)(Context &own, kiw_get_context_resp &limits))
{
	kiw_get_context_resp limits{}; // create_qp refuses more

	// The second-last argument is the offset of the verbs_context in the allocated object.
	const std::size_t offset = pabi::context_front - rdma_core_here->context_front;
	void *memory = _verbs_init_and_alloc_context(device, cmd_fd, sizeof(Context),
		reinterpret_cast<verbs_context *>(offset), KIWARP_DRIVER_ID); // NOLINT(performance-no-int-to-ptr)
	if (!memory)
		return nullptr;
	auto *own = static_cast<Context *>(memory);
	verbs_context *context = base_of(*own);

	const auto give_up = [&](int error) -> verbs_context * {
		verbs_uninit_context(context);
		std::free(own);
		errno = error;
		return nullptr;
	};

	::new (&own->mappings) Mappings;
	::new (&own->origin) Origin;
	if (const int error = own->origin.open())
		return give_up(error);
	if (const int error = obtain(*own, limits))
		return give_up(error);
	own->features = limits.features;
	rdma_core_here->set_operations(context);
	return context;
}

} // namespace

void free_context(ibv_context *context)
{
	Context &own = Context::from(context);

	// Also in a child of fork(): it closes its own descriptors, and the parent's file stays open.
	verbs_uninit_context(base_of(own));
	std::free(&own);
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *)
{
	return make_context(device, cmd_fd, get);
}

verbs_context *import_context(ibv_device *device, int cmd_fd)
{
	return make_context(device, cmd_fd, query);
}

} // namespace kiw
