// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "gid.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "support.hpp"

namespace vt {

Gid find_gid(ibv_context *context, const std::string &address)
{
	std::array<std::uint8_t, 16> wanted{0xfe, 0x80};
	const std::size_t count = address.empty() ? 2 : wanted.size();
	std::optional<Gid> found;

	if (!address.empty() && inet_pton(AF_INET6, address.c_str(), wanted.data()) != 1)
		fail("no address: " + address);
	wait_until(
		[&] {
			for (int i = 1; i < 64 && !found; i++) {
				Gid one{i, {}};

				if (!ibv_query_gid(context, 1, i, &one.gid) &&
					!std::memcmp(one.gid.raw, wanted.data(), count))
					found = one;
			}
			return found.has_value();
		},
		"the slot of " + address);
	return *found;
}

} // namespace vt
