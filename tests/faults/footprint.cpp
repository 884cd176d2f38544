// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "footprint.hpp"

#include <fstream>
#include <sstream>
#include <thread>

#include "../lib/support.hpp"
#include "injection.hpp"

namespace faults {

namespace {

// The first line of a file that begins with a word, without it
std::string line_of(const std::string &path, const std::string &word)
{
	std::ifstream file(path);
	std::string line;

	while (std::getline(file, line))
		if (line.starts_with(word))
			return line.substr(word.size());
	vt::fail(path + " has no line " + word);
}

// "inuse 2 orphan 0 tw 0 alloc 4 mem 1"; only alloc counts all namespaces
std::string sockets()
{
	std::istringstream words(line_of("/proc/net/sockstat", "TCP:"));
	std::string name, value;

	while (words >> name >> value)
		if (name == "alloc")
			return value;
	vt::fail("/proc/net/sockstat doesn't count TCP's sockets");
}

unsigned int areas()
{
	std::ifstream file("/proc/vmallocinfo");
	std::string line;
	unsigned int count = 0;

	if (!file)
		vt::fail("can't read /proc/vmallocinfo");
	while (std::getline(file, line))
		count += line.find("[kiwarp]") != std::string::npos;
	return count;
}

} // namespace

std::ostream &operator<<(std::ostream &out, const Footprint &footprint)
{
	return out << footprint.objects << "pinned " << footprint.pinned << ", sockets " << footprint.sockets
		   << ", references " << footprint.references << ", areas " << footprint.areas;
}

Footprint footprint()
{
	const Ran resources = run({"rdma", "resource", "show"});

	if (resources.status)
		vt::fail("rdma resource show: " + resources.output);
	return {.objects = resources.output,
		.pinned = vt::pinned(),
		.sockets = sockets(),
		.references = line_of("/sys/module/kiwarp/refcnt", ""),
		.areas = areas()};
}

Footprint footprint_at_rest()
{
	constexpr auto pause = std::chrono::milliseconds(200);
	constexpr int looks = 5;
	Footprint last = footprint();
	int same = 0;

	while (same < looks) {
		std::this_thread::sleep_for(pause);
		const Footprint now = footprint();

		same = now == last ? same + 1 : 0;
		last = now;
	}
	return last;
}

void expect_back_to(const Footprint &before)
{
	Footprint now = footprint();

	try {
		vt::wait_until(
			[&] { return now == before || (now = footprint()) == before; }, "the end of all objects");
	} catch (const std::exception &) {
		EXPECT_EQ(now, before);
	}
}

} // namespace faults
