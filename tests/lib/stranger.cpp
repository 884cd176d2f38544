// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "stranger.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.hpp"

namespace number {

namespace {

constexpr std::size_t header = 20, enhanced = 4;

void put32(Bytes &bytes, std::uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

std::uint32_t get32(const Bytes &bytes, std::size_t at)
{
	std::uint32_t value = 0;

	for (std::size_t i = 0; i < 4; i++)
		value = value << 8 | bytes.at(at + i);
	return value;
}

Bytes frame(const std::string &key, const Bytes &data)
{
	Bytes bytes(key.begin(), key.end());
	const std::size_t length = data.size() + enhanced;

	bytes.insert(bytes.end(), {0x10, 2, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
	bytes.insert(bytes.end(), {0x80, 1, 0xc0, 1});
	bytes.insert(bytes.end(), data.begin(), data.end());
	return bytes;
}

sockaddr_in address_of(const char *address, std::uint16_t at)
{
	sockaddr_in result{};

	result.sin_family = AF_INET;
	result.sin_port = htons(at);
	inet_pton(AF_INET, address, &result.sin_addr);
	return result;
}

bool is_reply(const Bytes &answer)
{
	return answer.size() >= header && !std::memcmp(answer.data(), "MPA ID Rep Frame", 16);
}

} // namespace

const Bytes rtr_message{0, 14, 0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

Bytes private_data(const Said &said)
{
	Bytes bytes{'k', 'i', 'w', 'N', said.version, said.flags, 0, 0};

	for (const std::uint32_t field : {said.from, said.to, said.psn, static_cast<std::uint32_t>(said.nonce >> 32),
		     static_cast<std::uint32_t>(said.nonce)})
		put32(bytes, field);
	return bytes;
}

Bytes request(const Bytes &data)
{
	return frame("MPA ID Req Frame", data);
}

Bytes reply(const Bytes &data)
{
	return frame("MPA ID Rep Frame", data);
}

Said said(const Bytes &frame)
{
	const std::size_t at = header + enhanced;

	return {.from = get32(frame, at + 8),
		.to = get32(frame, at + 12),
		.psn = get32(frame, at + 16),
		.flags = frame.at(at + 5),
		.nonce = std::uint64_t{get32(frame, at + 20)} << 32 | get32(frame, at + 24),
		.version = frame.at(at + 4)};
}

Bytes send_message(std::uint32_t number, const std::string &text)
{
	Bytes bytes{0, static_cast<std::uint8_t>(18 + text.size()), 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0};

	put32(bytes, number);
	put32(bytes, 0);
	bytes.insert(bytes.end(), text.begin(), text.end());
	bytes.resize((bytes.size() + 3) / 4 * 4 + 4);
	return bytes;
}

bool is_rejection(const Bytes &answer)
{
	return is_reply(answer) && (answer[16] & 0x20);
}

bool is_acceptance(const Bytes &answer)
{
	return is_reply(answer) && !(answer[16] & 0x20);
}

Stranger::Stranger(const std::string &host, const char *to, std::uint16_t at)
{
	const vt::InNamespace in(host);
	const sockaddr_in address = address_of(to, at);

	fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	connected_ = connect(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0;
}

Stranger::~Stranger()
{
	close(fd_);
}

void Stranger::say(const Bytes &bytes) const
{
	(void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

Bytes Stranger::answer(int milliseconds) const
{
	return first(SIZE_MAX, milliseconds);
}

Bytes Stranger::first(std::size_t bytes, int milliseconds) const
{
	std::array<std::uint8_t, 1024> buffer{};
	pollfd p{fd_, POLLIN, 0};
	Bytes all;

	while (all.size() < bytes && poll(&p, 1, milliseconds) == 1) {
		const ssize_t n = recv(fd_, buffer.data(), std::min(buffer.size(), bytes - all.size()), 0);
		if (n <= 0)
			break;
		all.insert(all.end(), buffer.begin(), buffer.begin() + n);
	}
	return all;
}

Squatter::Squatter(const std::string &host, const char *address, std::uint16_t at)
{
	const vt::InNamespace in(host);
	const sockaddr_in where = address_of(address, at);
	const int on = 1;

	fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd_, reinterpret_cast<const sockaddr *>(&where), sizeof(where)) || listen(fd_, 64))
		error_ = errno;
}

Squatter::~Squatter()
{
	close(fd_);
}

int Squatter::accept(int milliseconds) const
{
	pollfd p{fd_, POLLIN, 0};

	return poll(&p, 1, milliseconds) == 1 ? accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
}

} // namespace number
