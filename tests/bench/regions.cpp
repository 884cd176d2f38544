// SPDX-License-Identifier: GPL-2.0
// Registers many regions of a page each, and deregisters them; prints microseconds for one of both.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t page = 4096;

void check(bool good, const char *what)
{
	if (!good)
		throw std::runtime_error(what);
}

ibv_context *open_device(const std::string &name)
{
	ibv_device **const all = ibv_get_device_list(nullptr);

	for (ibv_device **d = all; d && *d; d++)
		if (name == ibv_get_device_name(*d))
			return ibv_open_device(*d);
	return nullptr;
}

double each(Clock::time_point since, std::size_t count)
{
	return std::chrono::duration<double, std::micro>(Clock::now() - since).count() / double(count);
}

void measure(const std::string &name, std::size_t count)
{
	ibv_context *const context = open_device(name);
	std::vector<std::uint8_t> memory((count + 1) * page, 1);
	std::vector<ibv_mr *> regions(count);

	check(context, "no such device");
	ibv_pd *const pd = ibv_alloc_pd(context);
	check(pd, "ibv_alloc_pd");
	std::uint8_t *const first = memory.data() + page - reinterpret_cast<std::uintptr_t>(memory.data()) % page;
	auto since = Clock::now();
	for (std::size_t i = 0; i < count; i++) {
		regions[i] = ibv_reg_mr(pd, first + i * page, page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		check(regions[i], "ibv_reg_mr");
	}
	std::cout << std::fixed << std::setprecision(2) << "register " << each(since, count);
	since = Clock::now();
	for (ibv_mr *region : regions)
		check(!ibv_dereg_mr(region), "ibv_dereg_mr");
	std::cout << " deregister " << each(since, count) << '\n';
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
}

} // namespace

int main(int argc, char **argv)
try {
	CLI::App app("Microseconds to register and to deregister a region of a page", "bench_regions");
	std::string device;
	std::size_t count = 0;

	app.add_option("DEVICE", device)->required();
	app.add_option("COUNT", count)->required()->check(CLI::Range(1, 1'000'000));
	CLI11_PARSE(app, argc, argv);
	measure(device, count);
	return 0;
} catch (const std::exception &e) {
	std::cerr << "bench_regions: " << e.what() << '\n';
	return 1;
}
