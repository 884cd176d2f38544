// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How libibverbs finds the provider and its devices. Compiled once per private ABI.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "context.hpp"
#include "kiwarp-abi.h"
#include "memory.hpp"
#include "private_abi.hpp"
#include "rdma_core.hpp"

namespace kiw {

namespace {

// By driver id, or by the customary name where kernel or libibverbs do not report the id.
constexpr pabi::Match match_table[] = {
	{.u = {.driver_id = KIWARP_DRIVER_ID}, .kind = pabi::match_driver_id},
	{.u = {.modalias = "rdma_device:*Nkiw*"}, .kind = pabi::match_modalias},
	{},
};

/// A device of another driver with such a name isn't kiwarp's.
bool match_device(pabi::SysfsDevice *sysfs)
{
	return sysfs->driver_id == KIWARP_DRIVER_ID || sysfs->driver_id == 0;
}

/// KIWARP_SHOW=roce: whether this process sees its devices as InfiniBand's, for programs that take no others. Only the
/// view changes: Documentation/infiniband-programs.md.
bool wants_roce()
{
	const char *word = secure_getenv("KIWARP_SHOW"); // NOLINT(concurrency-mt-unsafe): as libibverbs reads its own

	if (!word || !*word)
		return false;
	if (!std::strcmp(word, "roce"))
		return true;
	(void)std::fprintf(
		stderr, "kiwarp: KIWARP_SHOW=%.64s is not known (roce is): devices are shown as iWARP's\n", word);
	return false;
}

pabi::Device *alloc_device(pabi::SysfsDevice *sysfs)
{
	// Asked once: all devices, even later ones, are shown alike. libibverbs holds a mutex.
	static const bool roce = wants_roce();

	// libibverbs reads the type here after this function, and derives the transport.
	if (roce)
		sysfs->node_type = IBV_NODE_CA;
	return make<pabi::Device>().release();
}

void uninit_device(pabi::Device *device)
{
	if (device)
		destroy(device);
}

constexpr pabi::DeviceOps device_ops = {
	.name = "kiwarp",
	.match_min_abi_version = KIWARP_ABI_VERSION,
	.match_max_abi_version = KIWARP_ABI_VERSION,
	.match_table = match_table,
	.static_providers = nullptr,
	.match_device = match_device,
	.alloc_context = alloc_context,
	.import_context = import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

[[gnu::constructor]] void register_driver()
{
	rdma_core_here = find_rdma_core();
	if (rdma_core_here)
		verbs_register_driver(&device_ops);
}

} // namespace

} // namespace kiw
