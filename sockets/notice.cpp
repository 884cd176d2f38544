// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notice.hpp"

#include <cstring>

#include "octets.hpp"

namespace kiws {

void Notice::write(std::uint8_t *octets) const
{
	std::memset(octets, 0, header);
	octets[0] = kind;
	octets[1] = answer;
	put<std::uint16_t>(octets + 2, length);
	put<std::uint16_t>(octets + 4, slots);
	put<std::uint64_t>(octets + 8, written);
	put<std::uint64_t>(octets + 16, consumed);
	put<std::uint64_t>(octets + 24, argument);
}

bool Notice::read(const std::uint8_t *octets, std::size_t size)
{
	if (size < header || octets[0] >= kinds || octets[1] > 1 || get<std::uint16_t>(octets + 6) != 0)
		return false;
	kind = static_cast<Kind>(octets[0]);
	answer = octets[1];
	length = get<std::uint16_t>(octets + 2);
	slots = get<std::uint16_t>(octets + 4);
	written = get<std::uint64_t>(octets + 8);
	consumed = get<std::uint64_t>(octets + 16);
	argument = get<std::uint64_t>(octets + 24);
	return size == header + length && length <= most;
}

} // namespace kiws
