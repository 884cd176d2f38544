// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Numbers in network byte order
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiws {

template <typename Number>
void put(std::uint8_t *octets, Number value)
{
	for (std::size_t i = sizeof(Number); i-- > 0;
		value = static_cast<Number>(static_cast<std::uint64_t>(value) >> 8))
		octets[i] = static_cast<std::uint8_t>(value);
}

template <typename Number>
Number get(const std::uint8_t *octets)
{
	std::uint64_t value = 0;

	for (std::size_t i = 0; i < sizeof(Number); i++)
		value = value << 8 | octets[i];
	return static_cast<Number>(value);
}

} // namespace kiws
