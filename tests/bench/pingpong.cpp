// SPDX-License-Identifier: GPL-2.0
// TCP ping-pong: what the latency of RDMA is compared with. Client and server send each other a message in turns; each
// reads either blocking, or spinning on a receive call that returns at once. Prints half of the median round trip in
// microseconds.
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>
#include <x86intrin.h>

namespace {

constexpr auto usage = "usage: bench_pingpong blocking|spinning server|client ADDRESS PORT OCTETS ROUNDS\n";
// Rounds before the clock starts
constexpr unsigned warm_up = 200;

struct Options {
	bool spinning;
	bool server;
	sockaddr_in address;
	std::size_t octets;
	unsigned rounds;
};

class Socket {
public:
	explicit Socket(int fd) : fd_(fd) {}
	Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;
	Socket &operator=(Socket &&) = delete;
	~Socket()
	{
		if (fd_ >= 0)
			::close(fd_);
	}
	[[nodiscard]] int fd() const { return fd_; }
	[[nodiscard]] bool valid() const { return fd_ >= 0; }

private:
	int fd_;
};

template <typename Number>
std::optional<Number> number(std::string_view text, Number min, Number max)
{
	Number value{};
	const auto *end = text.data() + text.size();
	const auto [stop, error] = std::from_chars(text.data(), end, value);

	if (error != std::errc{} || stop != end || value < min || value > max)
		return std::nullopt;
	return value;
}

std::optional<Options> parse(std::span<char *> args)
{
	if (args.size() != 7)
		return std::nullopt;
	const std::string_view mode = args[1];
	const std::string_view role = args[2];
	const auto port = number<std::uint16_t>(args[4], 1, 65535);
	const auto octets = number<std::size_t>(args[5], 1, 1 << 20);
	const auto rounds = number<unsigned>(args[6], 1, 10'000'000);
	Options o{.spinning = mode == "spinning", .server = role == "server", .address = {}, .octets = 0, .rounds = 0};

	if ((!o.spinning && mode != "blocking") || (!o.server && role != "client") || !port || !octets || !rounds)
		return std::nullopt;
	o.address.sin_family = AF_INET;
	o.address.sin_port = htons(*port);
	if (inet_pton(AF_INET, args[3], &o.address.sin_addr) != 1)
		return std::nullopt;
	o.octets = *octets;
	o.rounds = *rounds;
	return o;
}

Socket connect_to(const sockaddr_in &address)
{
	Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	if (s.valid() && ::connect(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0)
		return s;
	return Socket(-1);
}

Socket accept_one(const sockaddr_in &address)
{
	const int one = 1;
	const Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	if (!s.valid() || ::setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
		::bind(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 ||
		::listen(s.fd(), 1) != 0)
		return Socket(-1);
	return Socket(::accept4(s.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool send_all(int fd, std::span<const char> message)
{
	while (!message.empty()) {
		const auto n = ::send(fd, message.data(), message.size(), MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		message = message.subspan(std::size_t(std::max<ssize_t>(n, 0)));
	}
	return true;
}

bool receive_all(int fd, std::span<char> message, bool spinning)
{
	const int flags = spinning ? MSG_DONTWAIT : 0;

	while (!message.empty()) {
		const auto n = ::recv(fd, message.data(), message.size(), flags);

		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		message = message.subspan(std::size_t(std::max<ssize_t>(n, 0)));
	}
	return true;
}

bool serve(const Options &o, int fd)
{
	std::vector<char> message(o.octets);

	for (unsigned i = 0; i < o.rounds + warm_up; i++) {
		if (!receive_all(fd, message, o.spinning) || !send_all(fd, message))
			return false;
	}
	return true;
}

/// Time stamp counter values before the first round and after each. Asking the system for the time would be a large
/// part of what is measured where system calls are slow.
std::optional<std::vector<std::uint64_t>> play(const Options &o, int fd)
{
	std::vector<char> message(o.octets);
	std::vector<std::uint64_t> stamps(o.rounds + 1);

	for (unsigned i = 0; i < o.rounds + warm_up; i++) {
		if (i == warm_up)
			stamps[0] = __rdtsc();
		if (!send_all(fd, message) || !receive_all(fd, message, o.spinning))
			return std::nullopt;
		if (i >= warm_up)
			stamps[i - warm_up + 1] = __rdtsc();
	}
	return stamps;
}

int ask(const Options &o, int fd)
{
	using clock = std::chrono::steady_clock;
	const auto start = clock::now();
	const auto start_ticks = __rdtsc();
	const auto stamps = play(o, fd);
	const auto ticks = __rdtsc() - start_ticks;
	const std::chrono::duration<double, std::micro> spent = clock::now() - start;

	if (!stamps) {
		std::perror("bench_pingpong");
		return 1;
	}
	std::vector<std::uint64_t> trips(o.rounds);
	for (unsigned i = 0; i < o.rounds; i++)
		trips[i] = (*stamps)[i + 1] - (*stamps)[i];
	const auto middle = trips.begin() + std::ptrdiff_t(trips.size() / 2);
	std::nth_element(trips.begin(), middle, trips.end());
	std::cout << std::fixed << std::setprecision(3) << double(*middle) / 2 * spent.count() / double(ticks) << '\n';
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	const auto options = parse({argv, std::size_t(argc)});
	const int one = 1;

	if (!options) {
		std::cerr << usage;
		return 2;
	}
	const Socket s = options->server ? accept_one(options->address) : connect_to(options->address);
	if (!s.valid() || ::setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
		std::perror("bench_pingpong");
		return 1;
	}
	if (options->server)
		return serve(*options, s.fd()) ? 0 : 1;
	return ask(*options, s.fd());
}
