// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What there is of the module, of which a call that failed may leave nothing more behind.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

namespace faults {

struct Footprint {
	std::string objects;	///< of RDMA core: QPs, CQs, regions, domains, ids, contexts of every device
	std::size_t pinned;	///< memory of this process
	std::string sockets;	///< of TCP, in all namespaces
	std::string references; ///< to the module
	unsigned int areas;	///< of vmalloc that the module's code made

	bool operator==(const Footprint &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Footprint &footprint);

Footprint footprint();
/// When nothing changes any more
Footprint footprint_at_rest();
/// Fails the test unless all is as it was, after some time for what ends by itself.
void expect_back_to(const Footprint &before);

} // namespace faults
