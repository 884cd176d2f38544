// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "context.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "kiwarp-abi.h"
#include "private_abi.hpp"
#include "rdma_core.hpp"

namespace kiw {

namespace {

/// libibverbs' part of it
verbs_context *base_of(Context &own)
{
	return reinterpret_cast<verbs_context *>(own.front + pabi::context_front - rdma_core_here->context_front);
}

} // namespace

void free_context(ibv_context *context)
{
	Context &own = Context::from(context);

	// In a child of fork(), too: it closes its own descriptors, and the parent's file stays open.
	verbs_uninit_context(base_of(own));
	own.origin.close();
	std::free(&own);
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *)
{
	pabi::RequestWith<16, kiw_get_context_req> request{};
	pabi::Response<8, kiw_get_context_resp> response{}; // limits: create_qp refuses what is above them

	// The second-last argument is the offset of the verbs_context in the object that is allocated.
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
	request.own.features = KIW_FEATURES;
	if (const int error = own->origin.open())
		return give_up(error);
	if (const int error =
			rdma_core_here->get_context(context, &request, sizeof(request), &response, sizeof(response))) {
		own->origin.close();
		return give_up(error);
	}
	own->features = response.own.features;
	rdma_core_here->set_operations(context);
	return context;
}

} // namespace kiw
