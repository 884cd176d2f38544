// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A name of libibverbs' private interface that a program calls: ibv_devinfo. It has a version for each private ABI, of
// which the program wants that of its libibverbs.
#include <cerrno>
#include <dlfcn.h>

#include "device.hpp"
#include "names.hpp"

extern "C" {

[[gnu::used]] int kiw_query_gid_type(ibv_context *context, std::uint8_t port, unsigned int index, int *type);

asm(".symver kiw_query_gid_type, ibv_query_gid_type@IBVERBS_PRIVATE_34");
asm(".symver kiw_query_gid_type, ibv_query_gid_type@IBVERBS_PRIVATE_57");
asm(".symver kiw_query_gid_type, ibv_query_gid_type@IBVERBS_PRIVATE_59");
asm(".symver kiw_query_gid_type, ibv_query_gid_type@IBVERBS_PRIVATE_64");
asm(".symver kiw_query_gid_type, ibv_query_gid_type@IBVERBS_PRIVATE_65");

__attribute__((visibility("default"))) int kiw_query_gid_type(
	ibv_context *context, std::uint8_t port, unsigned int index, int *type)
{
	ibv_gid gid;

	if (context->device != &kiwu::device) {
		auto *next = reinterpret_cast<decltype(&kiw_query_gid_type)>(::dlsym(RTLD_NEXT, "ibv_query_gid_type"));

		return next ? next(context, port, index, type) : ENOSYS;
	}
	if (port != 1 || !kiwu::query_gid(index, gid)) {
		errno = EINVAL;
		return -1;
	}
	*type = 0; // of no RoCE of a version of its own
	return 0;
}

} // extern "C"
