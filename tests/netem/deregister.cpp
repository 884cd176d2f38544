// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// netem_deregister OCTETS: reads a region, says so, and waits for a line of input; then it deregisters the region,
// writes over it, and looks at what arrives: nothing that was written after the region had gone.
//
// Status: 0; 1 something else went wrong; 4 there were such octets; 5 the line came when all was over
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "../lib/connection.hpp"

namespace {

constexpr int wrong = 4, late = 5;

int deregister(std::size_t octets)
{
	constexpr std::uint8_t before = 1, after = 2;
	vt::Pair pair;
	const vt::Region sink(pair.a().pd(), octets);
	vt::Region source(pair.b().pd(), octets);

	sink.fill(0);
	source.fill(before);
	if (const int error = pair.a().read({sink.sge()}, {.remote = source.address(), .rkey = source.rkey()}))
		vt::fail("read", error);
	std::cout << "posted" << std::endl;
	std::cin.get();
	if (!vt::poll_all(pair.a().send_cq()).empty())
		return late;
	source.deregister();
	source.fill(after);

	const ibv_wc wc = pair.a().sent();

	std::cout << ibv_wc_status_str(wc.status) << '\n';
	if (std::ranges::count(sink.bytes(), after))
		return wrong;
	return wc.status != IBV_WC_SUCCESS || vt::all_equal(sink.bytes(), before) ? 0 : wrong;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: netem_deregister OCTETS\n";
		return 2;
	}
	try {
		return deregister(std::strtoul(argv[1], nullptr, 10));
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
