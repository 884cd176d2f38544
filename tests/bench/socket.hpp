// SPDX-License-Identifier: GPL-2.0
// TCP sockets for the measuring programs. What fails throws std::system_error.
#ifndef BENCH_SOCKET_HPP
#define BENCH_SOCKET_HPP

#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace bench {

inline void check(bool good, const char *what)
{
	if (!good)
		throw std::system_error(errno, std::generic_category(), what);
}

class Socket {
public:
	Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { check(fd_ >= 0, "socket"); }
	explicit Socket(int fd) : fd_(fd) {}
	Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	Socket &operator=(Socket &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;
	~Socket()
	{
		if (fd_ >= 0)
			::close(fd_);
	}
	[[nodiscard]] int fd() const { return fd_; }

	void set(int level, int option, const char *name) const
	{
		const int one = 1;

		check(::setsockopt(fd_, level, option, &one, sizeof(one)) == 0, name);
	}
	void no_delay() const { set(IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY"); }

	void send_all(std::span<const char> octets) const
	{
		while (!octets.empty()) {
			const auto n = ::send(fd_, octets.data(), octets.size(), MSG_NOSIGNAL);

			check(n >= 0 || errno == EINTR, "send");
			if (n > 0)
				octets = octets.subspan(std::size_t(n));
		}
	}

	/// Some octets; 0 at the end of the stream
	[[nodiscard]] std::size_t receive(std::span<char> octets) const
	{
		for (;;) {
			const auto n = ::recv(fd_, octets.data(), octets.size(), 0);

			check(n >= 0 || errno == EINTR, "recv");
			if (n >= 0)
				return std::size_t(n);
		}
	}

private:
	int fd_;
};

inline sockaddr_in address_of(const std::string &text, std::uint16_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
		throw std::invalid_argument("not an address: " + text);
	return address;
}

inline Socket connect_to(const sockaddr_in &address)
{
	Socket s;

	check(::connect(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0, "connect");
	return s;
}

inline Socket listen_at(const sockaddr_in &address, int backlog)
{
	Socket s;

	s.set(SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR");
	check(::bind(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0, "bind");
	check(::listen(s.fd(), backlog) == 0, "listen");
	return s;
}

inline Socket accept_from(const Socket &listener)
{
	const int fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);

	check(fd >= 0, "accept");
	return Socket(fd);
}

} // namespace bench

#endif
