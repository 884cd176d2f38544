// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A program without RDMA at one end of a connection by number, and what it says there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace number {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint16_t port = 19287;

/// What a Request says: as an end that is in RTS, and whose messages needn't wait for a receive without end.
struct Said {
	static constexpr std::uint8_t ready = 1, limited = 2;

	std::uint32_t from, to, psn;
	std::uint8_t flags = ready | limited;
	std::uint64_t nonce = 0x1234567890abcdef;
	std::uint8_t version = 2;
};

/// Private data, as in Documentation/protocol.md
Bytes private_data(const Said &said);
/// A Request of MPA revision 2, peer-to-peer, with ready-to-receive messages that are a Write or a Read
Bytes request(const Bytes &data);
Bytes reply(const Bytes &data);
/// The private data of a frame, taken apart
Said said(const Bytes &frame);
/// An empty Write, as ready-to-receive message
extern const Bytes rtr_message;
/// A Send of one segment without a CRC
Bytes send_message(std::uint32_t number, const std::string &text);

bool is_rejection(const Bytes &answer);
/// A Reply that isn't one
bool is_acceptance(const Bytes &answer);

/// A TCP connection from a host to the other one's port
class Stranger {
public:
	explicit Stranger(const std::string &host = "left", const char *to = "10.77.0.2", std::uint16_t at = port);
	/// One that was accepted
	explicit Stranger(int fd) : fd_(fd), connected_(fd >= 0) {}
	~Stranger();
	Stranger(const Stranger &) = delete;
	Stranger &operator=(const Stranger &) = delete;

	bool connected() const { return connected_; }
	void say(const Bytes &bytes) const;
	/// All that comes until the other side closes, or nothing more comes
	Bytes answer(int milliseconds = 6000) const;
	/// The first so many bytes, or fewer if the other side closes or takes too long
	Bytes first(std::size_t bytes, int milliseconds = 6000) const;

private:
	int fd_ = -1;
	bool connected_ = false;
};

/// A socket that listens on a port of a host
class Squatter {
public:
	explicit Squatter(const std::string &host, const char *address, std::uint16_t at = port);
	~Squatter();
	Squatter(const Squatter &) = delete;
	Squatter &operator=(const Squatter &) = delete;

	/// 0, or what bind() or listen() said
	int error() const { return error_; }
	/// The next connection's descriptor, or -1 if none comes
	int accept(int milliseconds = 6000) const;

private:
	int fd_ = -1;
	int error_ = 0;
};

} // namespace number
