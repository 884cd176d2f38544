// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Loads the libraries itself, as NCCL and programs that can do without RDMA do, and prints the names of the devices.
// With an argument: what the names that take no object say.
#include <cstdio>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>

namespace {

void *verbs, *cm;

template <typename Function>
Function *load(void *library, const char *name, const char *version)
{
	void *function = ::dlvsym(library, name, version);

	if (!function)
		(void)std::fprintf(stderr, "%s\n", ::dlerror());
	return reinterpret_cast<Function *>(function);
}

#define VERBS(name) load<decltype(name)>(verbs, #name, "IBVERBS_1.1")

int list()
{
	const auto get = load<ibv_device **(int *)>(verbs, "ibv_get_device_list", "IBVERBS_1.1");
	const auto free = VERBS(ibv_free_device_list);
	const auto name = VERBS(ibv_get_device_name);
	const auto channel = load<rdma_event_channel *()>(cm, "rdma_create_event_channel", "RDMACM_1.0");
	const auto destroy = load<void(rdma_event_channel *)>(cm, "rdma_destroy_event_channel", "RDMACM_1.0");
	int count = 0;

	if (!get || !free || !name || !channel || !destroy)
		return 1;
	ibv_device **devices = get(&count);
	for (int i = 0; i < count; i++)
		std::puts(name(devices[i]));
	if (devices)
		free(devices);
	rdma_event_channel *events = channel();
	if (events)
		destroy(events);
	return count && events ? 0 : 1;
}

int say()
{
	const auto status = VERBS(ibv_wc_status_str);
	const auto event = VERBS(ibv_event_type_str);
	const auto node = VERBS(ibv_node_type_str);
	const auto state = VERBS(ibv_port_state_str);
	const auto mbps = VERBS(ibv_rate_to_mbps);
	const auto of_mbps = VERBS(mbps_to_ibv_rate);
	const auto mult = load<int(ibv_rate)>(verbs, "ibv_rate_to_mult", "IBVERBS_1.0");
	const auto of_mult = load<ibv_rate(int)>(verbs, "mult_to_ibv_rate", "IBVERBS_1.0");
	const auto cm_event = load<const char *(rdma_cm_event_type)>(cm, "rdma_event_str", "RDMACM_1.0");

	if (!status || !event || !node || !state || !mbps || !of_mbps || !mult || !of_mult || !cm_event)
		return 1;
	for (int i = -2; i < 40; i++) {
		std::printf("%d %s, %s, %s, %s, %s\n", i, status(ibv_wc_status(i)), event(ibv_event_type(i)),
			node(ibv_node_type(i)), state(ibv_port_state(i)), cm_event(rdma_cm_event_type(i)));
		const int speed = mbps(ibv_rate(i)), multiple = mult(ibv_rate(i));
		std::printf("%d %d %d %d\n", speed, of_mbps(speed), multiple, of_mult(multiple));
	}
	return 0;
}

} // namespace

int main(int argc, char **)
{
	verbs = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	cm = ::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!verbs || !cm) {
		(void)std::fprintf(stderr, "%s\n", ::dlerror());
		return 1;
	}
	return argc > 1 ? say() : list();
}
