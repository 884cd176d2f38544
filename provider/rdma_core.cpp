// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Compiled once per private ABI.
#include "rdma_core.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>

#include "private_abi.hpp"

namespace kiw {

extern const RdmaCore layouts_34, layouts_35, layouts_36, layouts_57, layouts_59, layouts_62, layouts_64, layouts_65;

namespace {

// Releases with this private ABI
constexpr const RdmaCore *releases[] = {
#if KIW_PABI == 34
	&layouts_34,
	&layouts_35,
	&layouts_36,
#elif KIW_PABI == 57
	&layouts_57,
#elif KIW_PABI == 59
	&layouts_59,
	&layouts_62,
#elif KIW_PABI == 64
	&layouts_64,
#elif KIW_PABI == 65
	&layouts_65,
#endif
};

/// Value of a tag in a library's dynamic section. The loader relocates only some addresses there.
std::uintptr_t dynamic(const link_map *map, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry->d_un.d_ptr;
	return 0;
}

const std::byte *address_of(const link_map *map, std::uintptr_t address)
{
	return reinterpret_cast<const std::byte *>( // NOLINT(performance-no-int-to-ptr)
		address < map->l_addr ? address + map->l_addr : address);
}

/// Newest public interface of libibverbs, 1.x, from the versions of its symbols; 0: none
unsigned find_interface()
{
	constexpr char prefix[] = "IBVERBS_1.";
	Dl_info info;
	void *found = nullptr;
	unsigned newest = 0;

	if (!::dladdr1(reinterpret_cast<void *>(verbs_register_driver), &info, &found, RTLD_DL_LINKMAP))
		return 0;
	const auto *map = static_cast<const link_map *>(found);
	const std::uintptr_t definitions = dynamic(map, DT_VERDEF);
	if (!definitions)
		return 0;
	const auto *names = reinterpret_cast<const char *>(address_of(map, dynamic(map, DT_STRTAB)));
	const std::byte *place = address_of(map, definitions);
	for (;;) {
		const auto *definition = reinterpret_cast<const ElfW(Verdef) *>(place);
		const auto *name = reinterpret_cast<const ElfW(Verdaux) *>(place + definition->vd_aux);

		if (std::strncmp(names + name->vda_name, prefix, sizeof(prefix) - 1) == 0) {
			const char *number = names + name->vda_name + sizeof(prefix) - 1;
			const auto value = static_cast<unsigned>(std::strtoul(number, nullptr, 10));

			if (value > newest)
				newest = value;
		}
		if (!definition->vd_next)
			return newest;
		place += definition->vd_next;
	}
}

/// Bytes in libibverbs' ibv_qp_ex, from where it looks for the members behind it; 0: unknown
std::size_t find_qp_ex_size()
{
	pabi::QueuePair qp{};

	for (std::size_t size = pabi::qp_ex_min; size <= pabi::qp_ex_max; size += sizeof(void *)) {
		pabi::qp_ex_size = size;
		qp.comp_mask() = pabi::qp_is_extended;
		if (ibv_qp_to_qp_ex(&qp.qp))
			return size;
		qp.comp_mask() = 0;
	}
	return 0;
}

} // namespace

const RdmaCore *find_rdma_core()
{
	const unsigned interface = find_interface();

	pabi::qp_ex_size = find_qp_ex_size();
	if (pabi::qp_ex_size)
		for (const RdmaCore *each : releases)
			if (each->interface == interface)
				return each;
	(void)std::fprintf(stderr,
		"kiwarp: this libibverbs has private ABI %d with public interface 1.%u, and its provider knows",
		KIW_PABI, interface);
	for (const RdmaCore *each : releases)
		(void)std::fprintf(stderr, " %d with 1.%u", KIW_PABI, each->interface);
	(void)std::fprintf(stderr, "; kiwarp devices can't be used\n");
	return nullptr;
}

} // namespace kiw
