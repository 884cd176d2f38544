// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The first 48 octets that a connecting process sends on TCP, where a rule or an option of the socket says so. They
// tell that the connection may get a lane, where this process can be dialed, and a nonce that only the other end
// learns.
//
//   octet  0  magic
//          8  version      2 octets, network byte order, as all numbers
//         10  flags        2 octets, 0
//         12  port         2 octets: of rdma_cm, at the address that the connection comes from
//         14  0            2 octets
//         16  nonce        16 octets
//         32  0            16 octets
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kiws {

using Nonce = std::array<std::uint8_t, 16>;

struct Hello {
	static constexpr std::size_t size = 48;
	static constexpr std::uint16_t version = 1;

	std::uint16_t port;
	Nonce nonce;

	void write(std::uint8_t *octets) const;
};

/// What the first octets of a connection are
enum class First : std::uint8_t {
	data,	 // of a program: no hello begins so
	part,	 // the beginning of a hello, or of data that looks like one
	hello,	 // a hello
	strange, // a hello of another version: it is taken off, and there is no lane
};

/// Looks at the first octets that came, of which there are at most Hello::size. Sets hello if it is one.
First look_for_hello(const std::uint8_t *octets, std::size_t length, Hello &hello);

} // namespace kiws
