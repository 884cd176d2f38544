// SPDX-License-Identifier: GPL-2.0
// How long a flow of messages is measured, and what its ends tell each other by TCP meanwhile: the client sends for
// some time, then tells how much; the server tells what of it has come when that is all, or when nothing has come for a
// while.
#ifndef BENCH_CONTROL_HPP
#define BENCH_CONTROL_HPP

#include "socket.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <poll.h>
#include <x86intrin.h>

namespace bench {

/// Time by the processor's counter: asking the system would be a large part of what is measured where system calls are
/// slow.
class Ticks {
public:
	Ticks()
	{
		using Clock = std::chrono::steady_clock;
		const auto start = Clock::now();
		const auto first = __rdtsc();

		while (Clock::now() - start < std::chrono::milliseconds(5))
			;
		per_second_ = double(__rdtsc() - first) / std::chrono::duration<double>(Clock::now() - start).count();
	}
	[[nodiscard]] static std::uint64_t now() { return __rdtsc(); }
	[[nodiscard]] double seconds(std::uint64_t ticks) const { return double(ticks) / per_second_; }
	[[nodiscard]] std::uint64_t ticks(double seconds) const { return std::uint64_t(seconds * per_second_); }

private:
	double per_second_;
};

template <typename T>
void tell(const Socket &s, const T &value)
{
	s.send_all({reinterpret_cast<const char *>(&value), sizeof(value)});
}

template <typename T>
T hear(const Socket &s)
{
	T value{};
	std::span<char> rest(reinterpret_cast<char *>(&value), sizeof(value));

	while (!rest.empty()) {
		const auto n = s.receive(rest);

		if (n == 0)
			throw std::runtime_error("the peer has closed");
		rest = rest.subspan(n);
	}
	return value;
}

inline bool has_been_told(const Socket &s)
{
	pollfd ready{.fd = s.fd(), .events = POLLIN, .revents = 0};

	check(::poll(&ready, 1, 0) >= 0 || errno == EINTR, "poll");
	return ready.revents != 0;
}

/// What has come
struct Arrived {
	std::uint64_t octets;
	std::uint64_t messages;
	/// From the last message to this word
	double idle_seconds;
};

/// The server's part: @p take(idle) takes what is there, waits at most a moment if that is nothing, and returns how
/// many messages it was; @p octets() is what has come.
template <typename Take, typename Octets>
void count_arrivals(const Socket &control, const Take &take, const Octets &octets)
{
	// Seconds without a message until the server asks for the client's end, and until it waits no more for what is
	// missing
	constexpr double calm = 0.02, enough = 0.3;
	const Ticks clock;
	std::uint64_t messages = 0, sent = ~std::uint64_t(0), last = Ticks::now();

	for (;;) {
		const std::uint64_t n = take();
		const double idle = clock.seconds(Ticks::now() - last);

		if (n > 0) {
			messages += n;
			last = Ticks::now();
		} else if (idle > calm && sent == ~std::uint64_t(0)) {
			if (has_been_told(control))
				sent = hear<std::uint64_t>(control);
		}
		if (messages >= sent || (sent != ~std::uint64_t(0) && idle > enough))
			break;
	}
	tell(control, Arrived{octets(), messages, clock.seconds(Ticks::now() - last)});
}

/// The client's part of the flow: how much it may send
class Credit {
public:
	explicit Credit(std::uint32_t window) : window_(window) {}

	[[nodiscard]] std::uint32_t sent() const { return sent_; }
	/// Whether so many more may go
	[[nodiscard]] bool allows(std::uint32_t more) const { return sent_ - passed_ + more <= window_; }
	void send(std::uint32_t n) { sent_ += n; }
	/// The server has passed that message. It may say so late, and in any order.
	void pass(std::uint32_t message)
	{
		if (std::int32_t(message - passed_) > 0 && std::int32_t(message - sent_) <= 0) {
			passed_ = message;
			since_ = Ticks::now();
		}
	}
	/// What was lost on its way is passed as well, once nothing has come of it for @p patience ticks.
	void give_up(std::uint64_t patience)
	{
		if (passed_ != sent_ && Ticks::now() - since_ > patience)
			pass(sent_);
	}

private:
	std::uint32_t window_, sent_ = 0, passed_ = 0;
	std::uint64_t since_ = Ticks::now();
};

/// Seconds that a client waits for word of what it has sent
constexpr double patience = 0.2;

} // namespace bench

#endif
