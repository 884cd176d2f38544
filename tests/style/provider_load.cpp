// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// provider_load source ABI SIZE: prints a libibverbs with that private ABI, which keeps what a provider tells it, and
// whose ibv_qp_ex has SIZE bytes provider_load load PROVIDER -: the provider doesn't register itself provider_load load
// PROVIDER FIGURES...: it registers itself, and opens a device by these layouts, a row of private_abi.hpp
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

constexpr std::size_t context_size = 328;

int source(const char *abi, const char *size)
{
	std::printf(
		"#include <stdlib.h>\n#include <stddef.h>\n"
		"const char *registered, *context; const void **operations; size_t allocated, offset;\n"
		"void verbs_register_driver_%s(const void *ops) { registered = ops; }\n"
		"void *_verbs_init_and_alloc_context(void *d, int fd, size_t size, void *place, unsigned id)\n"
		"{ (void)d; (void)fd; (void)id; allocated = size; offset = (size_t)place; return calloc(1, size); }\n"
		"void verbs_set_ops(const void *to, const void **ops) { context = to; operations = ops; }\n"
		"int ibv_cmd_get_context(void) { return 0; }\n"
		"void *ibv_qp_to_qp_ex(char *qp) { return *(unsigned *)(qp + %s) & 2 ? qp : NULL; }\n",
		abi, size);
	for (const char *name : {"ibv_cmd_query_device_any", "ibv_cmd_query_port", "ibv_cmd_alloc_pd",
		     "ibv_cmd_dealloc_pd", "ibv_cmd_reg_mr", "ibv_cmd_rereg_mr", "ibv_cmd_dereg_mr", "ibv_cmd_query_mr",
		     "ibv_cmd_alloc_mw", "ibv_cmd_dealloc_mw", "ibv_cmd_create_ah", "ibv_cmd_destroy_ah",
		     "ibv_cmd_create_cq", "ibv_cmd_resize_cq", "ibv_cmd_modify_cq", "ibv_cmd_destroy_cq",
		     "ibv_cmd_create_srq", "ibv_cmd_modify_srq", "ibv_cmd_query_srq", "ibv_cmd_destroy_srq",
		     "ibv_cmd_create_qp", "ibv_cmd_query_qp", "ibv_cmd_modify_qp", "ibv_cmd_destroy_qp",
		     "ibv_cmd_attach_mcast", "ibv_cmd_detach_mcast", "verbs_uninit_context", "ibv_get_cq_event",
		     "ibv_ack_cq_events"})
		std::printf("void %s(void) {}\n", name);
	return 0;
}

template <typename T>
T &symbol(void *library, const char *name)
{
	void *found = ::dlsym(library, name);

	if (!found) {
		std::printf("no %s\n", name);
		std::exit(1);
	}
	return *static_cast<T *>(found);
}

bool check(bool good, const std::string &what)
{
	if (!good)
		std::printf("%s\n", what.c_str());
	return good;
}

/// figures: interface, verbs_context, two of the device, then slots of operations in order, then their number
int opens(void *libibverbs, const std::vector<std::size_t> &figures)
{
	const char *registered = symbol<const char *>(libibverbs, "registered");
	char device[712]{};
	bool good = true;

	if (!check(registered, "it did not register itself"))
		return 1;
	using Alloc = void *(*)(void *, int, void *);
	const auto alloc = *reinterpret_cast<const Alloc *>(registered + 40);
	const char *context = static_cast<char *>(alloc(device, -1, nullptr));
	const auto *operations = symbol<const void **>(libibverbs, "operations");
	const std::size_t size = symbol<std::size_t>(libibverbs, "allocated");
	const std::size_t offset = symbol<std::size_t>(libibverbs, "offset");
	if (!check(context && operations, "no context"))
		return 1;

	good &= check(symbol<const char *>(libibverbs, "context") == context, "operations of another context");
	good &= check(offset + figures[1] <= size, "no room for a verbs_context");
	std::size_t used = 0;
	for (std::size_t slot = 0; slot < figures.back(); slot++)
		used += operations[slot] != nullptr;
	good &= check(used == 41, std::to_string(used) + " operations in the table instead of 41");
	for (std::size_t i = 4; i + 1 < figures.size(); i++)
		good &= check(operations[figures[i]], "operation " + std::to_string(figures[i]) + " isn't there");
	// The provider's own free_context finds its part from the ibv_context, which ends the verbs_context.
	void (*free_context)(const void *) = nullptr;
	std::memcpy(&free_context, &operations[figures[11]], sizeof(free_context));
	free_context(context + figures[1] - context_size);
	return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 4 && std::strcmp(argv[1], "source") == 0)
		return source(argv[2], argv[3]);
	if (argc < 4 || std::strcmp(argv[1], "load") != 0)
		return 2;
	void *provider = ::dlopen(argv[2], RTLD_NOW);
	void *libibverbs = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!provider || !libibverbs) {
		std::printf("%s\n", ::dlerror());
		return 1;
	}
	if (std::strcmp(argv[3], "-") == 0)
		return check(!symbol<const char *>(libibverbs, "registered"), "it registered itself") ? 0 : 1;
	std::vector<std::size_t> figures;
	for (int i = 3; i < argc; i++)
		figures.push_back(std::strtoul(argv[i], nullptr, 10));
	return opens(libibverbs, figures);
}
