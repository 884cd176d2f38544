// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Rings as a process has them mapped.
#include <fstream>
#include <sstream>
#include <sys/mman.h>

#include "../lib/support.hpp"

namespace vt {
namespace {

struct Mapping {
	void *at;
	std::size_t size;
};

/// All mappings of uverbs devices in this process
std::vector<Mapping> mappings()
{
	std::ifstream maps("/proc/self/maps");
	std::vector<Mapping> found;

	for (std::string line; std::getline(maps, line);) {
		std::uintptr_t from = 0;
		std::uintptr_t to = 0;
		char dash = 0;
		std::istringstream in(line);
		if (line.find("infiniband/uverbs") == std::string::npos || !(in >> std::hex >> from >> dash >> to))
			continue;
		found.push_back({reinterpret_cast<void *>(from), to - from}); // NOLINT(performance-no-int-to-ptr)
	}
	return found;
}

TEST(Mapping, CanNotBecomeExecutable)
{
	const Cq cq = make_cq(server_device(), 16);
	const std::vector<Mapping> found = mappings();

	ASSERT_FALSE(found.empty());
	for (const Mapping &mapping : found) {
		EXPECT_EQ(mprotect(mapping.at, mapping.size, PROT_READ | PROT_EXEC), -1);
		EXPECT_EQ(errno, EACCES);
		// Everything else stays the process's own affair.
		EXPECT_EQ(mprotect(mapping.at, mapping.size, PROT_READ), 0);
		EXPECT_EQ(mprotect(mapping.at, mapping.size, PROT_READ | PROT_WRITE), 0);
	}
}

} // namespace
} // namespace vt
