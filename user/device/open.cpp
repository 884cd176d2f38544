// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "open.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

#include "datagram.hpp"
#include "device.hpp"
#include "endpoint.hpp"
#include "isal.hpp"
#include "kiwarp-abi.h"
#include "lock.hpp"
#include "memory.hpp"
#include "number.hpp"
#include "objects.hpp"
#include "operations.hpp"
#include "qp.hpp"
#include "region.hpp"
#include "understudy.hpp"

namespace kiwu {

namespace {

/// A child of fork() has nothing of its parent's, and may open the device for itself. Threads of the parent may have
/// had the locks.
void begin_anew()
{
	forget_qps();
	forget_regions();
	forget_objects();
	forget_gids();
	Listener::forget();
	forget_groups();
	number::forget();
}

int care_for_children()
{
	static constinit kiw::Lock lock;
	static bool cares = false;
	kiw::Guard guard(lock);
	const int error = cares ? 0 : ::pthread_atfork(nullptr, nullptr, begin_anew);

	cares = !error;
	return error;
}

} // namespace

ibv_context *open_device()
{
	auto open = kiw::make<OpenDevice>();

	if (!open) {
		errno = ENOMEM;
		return nullptr;
	}
	use_isal();
	int error = care_for_children();
	if (!error)
		error = understudy::start();
	if (!error)
		error = open->context.origin.open();
	if (!error)
		error = open->async.open();
	if (error) {
		errno = error;
		return nullptr;
	}
	ibv_context &context = open->context.ibv;
	context.device = &device;
	context.cmd_fd = -1;
	context.async_fd = open->async.fd();
	context.num_comp_vectors = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
	context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	::pthread_mutex_init(&context.mutex, nullptr);
	open->context.features = KIW_FEATURE_UD | KIW_FEATURE_UD_IMM | KIW_FEATURE_RECORD | KIW_FEATURE_SRQ |
				 KIW_FEATURE_IMM | KIW_FEATURE_ATOMIC | KIW_FEATURE_MW | KIW_FEATURE_SRQ_RESIZE |
				 KIW_FEATURE_CQ_TIME;
	set_operations(&context);
	return &open.release()->context.ibv;
}

void close_device(ibv_context *context)
{
	forget_events(context, [](const ibv_async_event &) { return true; });
	kiw::destroy(&OpenDevice::from(context));
}

} // namespace kiwu
