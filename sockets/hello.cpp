// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "hello.hpp"

#include <algorithm>
#include <cstring>

#include "octets.hpp"

namespace kiws {

namespace {

// No text, no TLS record and no protocol of the usual servers begins so.
constexpr std::array<std::uint8_t, 8> magic = {0xe9, 'k', 'i', 'w', 's', 'o', 'c', 0x1a};

} // namespace

void Hello::write(std::uint8_t *octets) const
{
	std::memset(octets, 0, size);
	std::copy(magic.begin(), magic.end(), octets);
	put<std::uint16_t>(octets + 8, version);
	put<std::uint16_t>(octets + 12, port);
	std::copy(nonce.begin(), nonce.end(), octets + 16);
}

First look_for_hello(const std::uint8_t *octets, std::size_t length, Hello &hello)
{
	if (!std::equal(octets, octets + std::min(length, magic.size()), magic.begin()))
		return First::data;
	if (length < Hello::size)
		return First::part;
	if (get<std::uint16_t>(octets + 8) != Hello::version || get<std::uint16_t>(octets + 10) != 0)
		return First::strange;
	hello.port = get<std::uint16_t>(octets + 12);
	std::copy(octets + 16, octets + 32, hello.nonce.begin());
	return First::hello;
}

} // namespace kiws
