// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// record_stream: a target on the device kiw1, or with an address of it a sender on kiw0, each on a host of its own. The
// target tells number, key and address by TCP, and checks what it is told of each message against what is in memory.
//
//	record_stream PORT		the target, on any address
//	record_stream PORT ADDRESS	the sender
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <exception>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/record.hpp"

namespace record {
namespace {

constexpr std::uint32_t messages = 64;
constexpr std::uint32_t length = 16000;

/// What the sender has to know, in network byte order
struct Offer {
	__be32 number;
	__be32 rkey;
	__be64 remote;
};

sockaddr_in address_of(const char *text, int port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<std::uint16_t>(port));
	if (text && inet_pton(AF_INET, text, &address.sin_addr) != 1)
		vt::fail("no address: " + std::string(text));
	return address;
}

int receive_stream(int port)
{
	const Target target({.timeout = 500});
	const sockaddr_in any = address_of(nullptr, port);
	const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, reinterpret_cast<const sockaddr *>(&any), sizeof(any)) || listen(listener, 1))
		vt::fail("no port", errno);
	const int peer = accept(listener, nullptr, nullptr);
	const Offer offer = {
		.number = htobe32(target.number()), .rkey = htobe32(target.rkey()), .remote = htobe64(target.remote())};
	if (peer < 0 || write(peer, &offer, sizeof(offer)) != sizeof(offer))
		vt::fail("no sender", errno);

	std::uint32_t whole = 0, wrong = 0;
	for (std::uint32_t i = 0; i < messages; i++) {
		const kiwarpdv_record record = target.arrived().record;
		const auto value = static_cast<std::uint8_t>(1 + (record.addr - target.remote()) / length);
		whole += record.valid == length;
		for (const auto &[from, bytes] : valid(record))
			wrong += !vt::all_equal(target.bytes(record.addr - target.remote() + from, bytes), value);
	}
	std::printf("%u messages, %u whole, %u ranges with other data\n", messages, whole, wrong);
	close(peer);
	close(listener);
	return whole == messages && !wrong && !testing::Test::HasFailure() ? 0 : 1;
}

int send_stream(int port, const char *host)
{
	const Writer writer;
	const sockaddr_in to = address_of(host, port);
	const int peer = socket(AF_INET, SOCK_STREAM, 0);
	Offer offer{};

	if (connect(peer, reinterpret_cast<const sockaddr *>(&to), sizeof(to)) ||
		recv(peer, &offer, sizeof(offer), MSG_WAITALL) != sizeof(offer))
		vt::fail("no target", errno);
	ibv_gid gid{};
	gid.raw[10] = gid.raw[11] = 0xff;
	std::memcpy(&gid.raw[12], &to.sin_addr, 4);
	const ud::Ah ah = writer.make_ah(writer.gid(ud::ipv4.left), gid);
	if (!ah)
		vt::fail("ibv_create_ah", errno);
	for (std::uint32_t i = 0; i < messages; i++) {
		std::memset(writer.memory().data(), static_cast<int>(i + 1), length);
		writer.write({ah.get(), be32toh(offer.number)}, be64toh(offer.remote) + i * std::uint64_t{length},
			be32toh(offer.rkey), 0, length);
	}
	// The target has all when it hangs up.
	char nothing = 0;
	(void)!recv(peer, &nothing, 1, 0);
	close(peer);
	return testing::Test::HasFailure() ? 1 : 0;
}

} // namespace
} // namespace record

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return 2;
	try {
		const int port = std::atoi(argv[1]); // NOLINT(cert-err34-c)
		return argc == 2 ? record::receive_stream(port) : record::send_stream(port, argv[2]);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
