// SPDX-License-Identifier: GPL-2.0
// Memory regions:
//
//   calls  registered, then deregistered; prints microseconds for both, for the one and for the other
//   exit   that a process holds when it ends; prints microseconds from its last instruction until its parent knows
//
// All figures are for one region.
#include "program.hpp"
#include "verbs.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <sys/wait.h>
#include <vector>

namespace {

using bench::check;
using Clock = std::chrono::steady_clock;

constexpr std::size_t page = 4096;

struct Options {
	std::string device;
	std::size_t count = 0;
	std::size_t octets = page;
};

/// So many regions, each of memory of its own that has been used
class Regions {
public:
	explicit Regions(const Options &o)
		: o_(o),
		  memory_(o.count * o.octets + page, 1),
		  context_(bench::open_device(o.device)),
		  pd_(ibv_alloc_pd(context_.get()))
	{
		check(pd_ != nullptr, "ibv_alloc_pd");
	}
	void add_all()
	{
		std::uint8_t *const first =
			memory_.data() + page - reinterpret_cast<std::uintptr_t>(memory_.data()) % page;

		regions_.reserve(o_.count);
		for (std::size_t i = 0; i < o_.count; i++) {
			regions_.push_back(ibv_reg_mr(pd_.get(), first + i * o_.octets, o_.octets,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
			check(regions_.back(), "ibv_reg_mr");
		}
	}
	void remove_all()
	{
		for (ibv_mr *region : regions_)
			bench::need(ibv_dereg_mr(region), "ibv_dereg_mr");
	}

private:
	Options o_;
	std::vector<std::uint8_t> memory_;
	bench::Owned<ibv_context, ibv_close_device> context_;
	bench::Owned<ibv_pd, ibv_dealloc_pd> pd_;
	std::vector<ibv_mr *> regions_;
};

double each(Clock::time_point since, const Options &o)
{
	return std::chrono::duration<double, std::micro>(Clock::now() - since).count() / double(o.count);
}

void measure_calls(const Options &o)
{
	Regions regions(o);

	const auto start = Clock::now();
	regions.add_all();
	const double to_register = each(start, o);
	const auto middle = Clock::now();
	regions.remove_all();
	const double to_deregister = each(middle, o);
	std::cout << to_register + to_deregister << ' ' << to_register << ' ' << to_deregister << '\n';
}

void measure_exit(const Options &o)
{
	std::array<int, 2> ends{};

	check(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
	const pid_t child = fork();
	check(child >= 0, "fork");
	if (child == 0) {
		try {
			Regions regions(o);

			regions.add_all();
			const auto last = Clock::now();
			std::_Exit(::write(ends[1], &last, sizeof(last)) == sizeof(last) ? 0 : 1);
		} catch (const std::exception &e) {
			std::_Exit(bench::failed(e));
		}
	}
	::close(ends[1]);
	Clock::time_point last;
	const bool told = ::read(ends[0], &last, sizeof(last)) == sizeof(last);
	int status = 1;
	check(waitpid(child, &status, 0) == child, "waitpid");
	const double figure = each(last, o);
	if (!told || status != 0)
		throw std::runtime_error("the process failed");
	std::cout << figure << '\n';
}

} // namespace

int main(int argc, char **argv)
try {
	CLI::App app("Microseconds that a memory region takes", "bench_regions");
	std::string mode;
	Options o;

	app.add_option("MODE", mode)->required()->check(CLI::IsMember({"calls", "exit"}));
	app.add_option("DEVICE", o.device)->required();
	app.add_option("COUNT", o.count)->required()->check(CLI::Range(1, 1'000'000));
	app.add_option("--octets", o.octets, "of a region")->check(CLI::Range(1UL, 1UL << 40));
	CLI11_PARSE(app, argc, argv);
	(mode == "calls" ? measure_calls : measure_exit)(o);
	return 0;
} catch (const std::exception &e) {
	return bench::failed(e);
}
