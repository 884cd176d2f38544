// SPDX-License-Identifier: GPL-2.0
// Datagram queue pairs, and Writes over datagrams, beside the same through a connection:
//
//   latency   messages that are answered; prints median, mean and 99th percentile of half a round trip in microseconds
//   flow      as many messages as go for some time; prints how many octets and messages have come in a second, and of
//   100 octets
//             how many
//   broadcast messages that each of several receivers gets: one datagram for all, or one message through a connection
//   to each; prints the same as flow, of all receivers together peers     one queue pair hears from each of many, one
//   after the other, and can answer all; prints "up N" and stays until it is
//             killed
//
// ADDRESS and PORT are for the TCP connection by which both ends agree, which is best another link than what is
// measured.
#include "control.hpp"
#include "latency.hpp"
#include "program.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <map>
#include <vector>

namespace {

using bench::connected;
using bench::End;
using bench::grh;
using bench::Kind;
using bench::Place;
using bench::Shape;
using bench::Socket;
using bench::Ticks;

struct Options {
	std::string device, data;
	Kind kind = Kind::ud_send;
	std::uint32_t octets = 64;
	unsigned count = 1000;
	unsigned milliseconds = 1000;
	unsigned list = 1;
	unsigned window = 16;
	unsigned record_timeout = 0;
	unsigned receivers = 1;
	bool sleep = false;
	bool srq = false;
	bool extended = false;
	std::uint16_t port = 0;
};

/// The longest Send of a datagram queue pair
constexpr std::uint32_t longest_send = 65483;
/// What the server tells of how far it is, and the receives for that
constexpr std::uint32_t word = 4, words = 64;
/// How long a server sleeps at most, microseconds
constexpr std::int64_t nap = 10'000;

bench::Meeting meet(const Options &o, const Socket &control, bool server, Shape shape, const bench::Prepare &prepare)
{
	shape.kind = o.kind;
	shape.record_timeout = o.record_timeout;
	shape.srq = o.srq;
	shape.extended = o.extended;
	return bench::meet(o.device, bench::address_of(o.data, o.port), control, server, shape, prepare);
}

// --- latency --------------------------------------------------------------------------------------

constexpr unsigned warm_up = 200;

/// Messages that go to and fro: each end has one to send, behind it a place for that of the peer
class PingPong {
public:
	PingPong(const Options &o, const Socket &control, bool server)
		: o_(o),
		  met_(meet(o, control, server, {.octets = 2 * std::size_t{grh + o.octets}, .sends = 64, .receives = 4},
			  [&](End &end) {
				  if (o.kind == Kind::ud_send || o.kind == Kind::rc_send)
					  end.receive(0, theirs(), room());
			  }))
	{
		*place() = 0;
	}
	void send(unsigned round)
	{
		End &end = *met_.end;

		while (end.under_way() >= 60)
			end.reap();
		end.reap();
		*(end.at(0) + o_.octets - 1) = mark(round);
		end.post(o_.kind, {{0, o_.octets, theirs()}});
	}
	void receive(unsigned round)
	{
		End &end = *met_.end;
		ibv_wc wc{};

		switch (o_.kind) {
		case Kind::ud_send:
		case Kind::rc_send:
			while (end.received(&wc, 1) == 0)
				;
			end.receive(0, theirs(), room());
			break;
		case Kind::record:
			while (end.recorded([](const kiwarpdv_record &) {}) == 0)
				;
			break;
		case Kind::rc_write:
			while (*place() != mark(round))
				;
			break;
		}
	}

private:
	[[nodiscard]] std::size_t theirs() const { return grh + o_.octets; }
	[[nodiscard]] std::uint32_t room() const { return (o_.kind == Kind::ud_send ? grh : 0) + o_.octets; }
	/// Never that of the round before
	static char mark(unsigned round) { return char(1 + round % 100); }
	volatile char *place() { return met_.end->at(theirs()) + o_.octets - 1; }

	Options o_;
	bench::Meeting met_;
};

void answer(const Options &o, const Socket &control)
{
	PingPong end(o, control, true);

	bench::tell(control, 'r');
	for (unsigned i = 0; i < o.count + warm_up; i++) {
		end.receive(i);
		end.send(i);
	}
	// What was sent last is with the peer when that hangs up.
	std::array<char, 1> octet{};
	(void)control.receive(octet);
}

void ask(const Options &o, const Socket &control)
{
	const Ticks clock;
	PingPong end(o, control, false);
	std::vector<double> trips(o.count);

	(void)bench::hear<char>(control);
	for (unsigned i = 0; i < o.count + warm_up; i++) {
		const auto start = Ticks::now();

		end.send(i);
		end.receive(i);
		if (i >= warm_up)
			trips[i - warm_up] = clock.seconds(Ticks::now() - start) * 1e6;
	}
	std::cout << bench::latency_of(std::move(trips)) << '\n';
}

// --- flow -----------------------------------------------------------------------------------------

/// Messages that are too long for a datagram are sent in pieces of one length, each by itself.
std::uint32_t piece_of(const Options &o)
{
	if (o.kind != Kind::ud_send)
		return o.octets;
	const std::uint32_t pieces = (o.octets + longest_send - 1) / longest_send;

	return (o.octets + pieces - 1) / pieces;
}

/// Writes through a connection are measured with devices, too, that take nothing inline.
std::uint32_t inlines_of(const Options &o)
{
	return o.kind == Kind::rc_write ? 0 : bench::most_inline;
}

void serve(const Options &o, const Socket &control)
{
	const std::uint32_t piece = piece_of(o), header = o.kind == Kind::ud_send ? grh : 0;
	const std::size_t stride = header + piece;
	const bool by_receives = o.kind == Kind::ud_send || o.kind == Kind::rc_send;
	const std::uint32_t report = std::max(o.window / 4, 1u);
	// Behind all others the place of the last Send, which says that all Writes of a connection have come
	const std::uint32_t receives = by_receives ? o.window : 1;
	const bench::Meeting met = meet(o, control, true,
		{.octets = o.window * stride + 64, .sends = 64, .receives = receives, .inlines = inlines_of(o)},
		[&](End &end) {
			for (std::uint32_t i = 0; by_receives && i < receives; i++)
				end.receive(i, i * stride, std::uint32_t(stride));
			if (o.kind == Kind::rc_write)
				end.receive(0, o.window * stride, word);
		});
	End &end = *met.end;
	std::uint64_t octets = 0;
	std::uint32_t reached = 0, reported = 0;
	std::array<ibv_wc, 32> wc{};

	bench::tell(control, 'r');
	if (o.kind == Kind::rc_write) {
		// Of Writes the server knows nothing, and does nothing: it sleeps until the client says that all are on
		// their way.
		const auto sent = bench::hear<std::uint64_t>(control);

		while (end.received(wc.data(), 1) == 0)
			;
		bench::tell(control, bench::Arrived{sent * o.octets, sent, 0});
		return;
	}
	const auto take = [&] {
		std::uint64_t n = 0;

		if (o.kind == Kind::record) {
			n = end.recorded([&](const kiwarpdv_record &r) { octets += r.valid; }, o.sleep ? nap : 0);
			reached += std::uint32_t(n);
		} else {
			n = std::uint64_t(end.received(wc.data(), int(wc.size()), o.sleep ? nap : 0));
			for (std::uint64_t i = 0; i < n; i++) {
				const std::uint64_t slot = wc[i].wr_id;
				std::uint32_t number = 0;

				octets += wc[i].byte_len - header;
				std::memcpy(&number, end.at(slot * stride + header), sizeof(number));
				reached = number + 1;
				end.receive(slot, slot * stride, std::uint32_t(stride));
			}
		}
		if (reached - reported >= report) {
			reported = reached;
			end.reap();
			end.send_inline(&reached, sizeof(reached));
		}
		return n;
	};
	bench::count_arrivals(control, take, [&] { return octets; });
	while (end.under_way() > 0)
		end.reap();
}

void call(const Options &o, const Socket &control)
{
	const Ticks clock;
	const std::uint32_t piece = piece_of(o);
	const std::size_t behind = std::size_t{o.window} * piece;
	const Shape shape{.octets = behind + words * (grh + word),
		.sends = o.window + 1,
		.receives = words,
		.inlines = inlines_of(o)};
	const bench::Meeting met = meet(o, control, false, shape, [&](End &end) {
		for (std::uint32_t i = 0; i < words && o.kind != Kind::rc_write; i++)
			end.receive(i, behind + i * (grh + word), grh + word);
	});
	End &end = *met.end;
	bench::Credit credit(o.window);
	std::vector<End::Message> list(o.list);
	// Where the peer puts what is written: as it is sent
	const auto post = [&] {
		for (std::uint32_t i = 0; i < o.list; i++) {
			const std::uint32_t number = credit.sent() + i;
			const std::size_t place = std::size_t{number % o.window} * piece;

			std::memcpy(end.at(place), &number, sizeof(number));
			list[i] = {place, piece, place};
		}
		end.post(o.kind, list);
		credit.send(o.list);
	};
	std::array<ibv_wc, 8> wc{};

	(void)bench::hear<char>(control);
	const auto start = Ticks::now(), stop = start + clock.ticks(o.milliseconds / 1e3);
	while (Ticks::now() < stop) {
		const bool may = o.kind == Kind::rc_write || credit.allows(o.list);

		if (may && end.under_way() + o.list <= o.window)
			post();
		end.reap();
		if (o.kind == Kind::rc_write)
			continue;
		const int n = end.received(wc.data(), int(wc.size()));
		for (int i = 0; i < n; i++) {
			const std::size_t place = behind + wc[std::size_t(i)].wr_id * (grh + word);
			std::uint32_t passed = 0;

			std::memcpy(&passed, end.at(place + (connected(o.kind) ? 0 : grh)), sizeof(passed));
			credit.pass(passed);
			end.receive(wc[std::size_t(i)].wr_id, place, grh + word);
		}
		if (!connected(o.kind))
			credit.give_up(clock.ticks(bench::patience));
	}
	while (end.under_way() > 0)
		end.reap();
	if (o.kind == Kind::rc_write)
		end.post(Kind::rc_send, {{0, word, 0}});
	bench::tell(control, std::uint64_t(credit.sent()));
	const auto arrived = bench::hear<bench::Arrived>(control);
	const double seconds = clock.seconds(Ticks::now() - start) - arrived.idle_seconds;
	std::cout << double(arrived.octets) / seconds << ' ' << double(arrived.messages) / seconds << ' '
		  << 100.0 * double(arrived.octets) / (double(credit.sent()) * piece) << '\n';
	while (end.under_way() > 0)
		end.reap();
}

// --- broadcast ------------------------------------------------------------------------------------

/// A receiver each: all are of one process, which looks at one after the other.
void hear_all(const Options &o, const Socket &control)
{
	const bool broadcast = o.kind == Kind::ud_send;
	const std::uint32_t header = broadcast ? grh : 0;
	const std::size_t stride = header + o.octets;
	const std::uint32_t report = std::max(o.window / 4, 1u);
	std::vector<bench::Meeting> met;
	std::vector<std::uint32_t> reached(o.receivers);
	std::uint32_t reported = 0;
	std::uint64_t octets = 0;
	std::array<ibv_wc, 32> wc{};

	for (unsigned i = 0; i < o.receivers; i++) {
		Options one = o;

		one.port = std::uint16_t(o.port + i);
		met.push_back(meet(one, control, true, {.octets = o.window * stride, .sends = 64, .receives = o.window},
			[&](End &end) {
				if (broadcast)
					end.join_broadcast();
				for (std::uint32_t slot = 0; slot < o.window; slot++)
					end.receive(slot, slot * stride, std::uint32_t(stride));
			}));
	}
	bench::tell(control, 'r');
	const auto take = [&] {
		std::uint64_t all = 0;

		for (unsigned i = 0; i < o.receivers; i++) {
			End &end = *met[i].end;
			const int n = end.received(wc.data(), int(wc.size()));

			for (std::size_t at = 0; at < std::size_t(n); at++) {
				const std::uint64_t slot = wc[at].wr_id;
				std::uint32_t number = 0;

				octets += wc[at].byte_len - header;
				std::memcpy(&number, end.at(slot * stride + header), sizeof(number));
				reached[i] = number + 1;
				end.receive(slot, slot * stride, std::uint32_t(stride));
			}
			all += std::uint64_t(n);
		}
		// The slowest counts.
		const std::uint32_t least = *std::min_element(reached.begin(), reached.end());
		if (least - reported >= report) {
			reported = least;
			met.front().end->reap();
			met.front().end->send_inline(&least, sizeof(least));
		}
		return all;
	};
	bench::count_arrivals(control, take, [&] { return octets; });
	for (const auto &m : met)
		while (m.end->under_way() > 0)
			m.end->reap();
}

void tell_all(const Options &o, const Socket &control)
{
	const Ticks clock;
	const bool broadcast = o.kind == Kind::ud_send;
	const std::size_t behind = std::size_t{o.window} * o.octets;
	const Shape shape{
		.octets = behind + words * (grh + word), .sends = o.window + 1, .receives = words, .inlines = 0};
	std::vector<bench::Meeting> met;

	for (unsigned i = 0; i < o.receivers; i++) {
		Options one = o;

		one.port = std::uint16_t(o.port + i);
		met.push_back(meet(one, control, false, shape, [&](End &end) {
			for (std::uint32_t slot = 0; slot < words; slot++)
				end.receive(slot, behind + slot * (grh + word), grh + word);
		}));
	}
	End &first = *met.front().end;
	const std::size_t senders = broadcast ? 1 : met.size();
	bench::Credit credit(o.window);
	std::vector<End::Message> list(o.list);
	std::array<ibv_wc, 8> wc{};
	const auto busy = [&] {
		return std::any_of(met.begin(), met.begin() + std::ptrdiff_t(senders),
			[&](const auto &m) { return m.end->under_way() + o.list > o.window; });
	};

	if (broadcast)
		first.send_to_all();
	(void)bench::hear<char>(control);
	const auto start = Ticks::now(), stop = start + clock.ticks(o.milliseconds / 1e3);
	while (Ticks::now() < stop) {
		if (credit.allows(o.list) && !busy()) {
			for (std::size_t i = 0; i < senders; i++) {
				End &end = *met[i].end;

				for (std::uint32_t n = 0; n < o.list; n++) {
					const std::uint32_t number = credit.sent() + n;
					const std::size_t place = std::size_t{number % o.window} * o.octets;

					std::memcpy(end.at(place), &number, sizeof(number));
					list[n] = {place, o.octets, place};
				}
				end.post(o.kind, list);
			}
			credit.send(o.list);
		}
		for (std::size_t i = 0; i < senders; i++)
			met[i].end->reap();
		const int n = first.received(wc.data(), int(wc.size()));
		for (int i = 0; i < n; i++) {
			const std::size_t place = behind + wc[std::size_t(i)].wr_id * (grh + word);
			std::uint32_t passed = 0;

			std::memcpy(&passed, first.at(place + (broadcast ? grh : 0)), sizeof(passed));
			credit.pass(passed);
			first.receive(wc[std::size_t(i)].wr_id, place, grh + word);
		}
		if (broadcast)
			credit.give_up(clock.ticks(bench::patience));
	}
	for (const auto &m : met)
		while (m.end->under_way() > 0)
			m.end->reap();
	const std::uint64_t sent = std::uint64_t{credit.sent()} * o.receivers;
	bench::tell(control, sent);
	const auto arrived = bench::hear<bench::Arrived>(control);
	const double seconds = clock.seconds(Ticks::now() - start) - arrived.idle_seconds;
	std::cout << double(arrived.octets) / seconds << ' ' << double(arrived.messages) / seconds << ' '
		  << 100.0 * double(arrived.octets) / (double(sent) * o.octets) << '\n';
}

// --- peers ----------------------------------------------------------------------------------------

constexpr std::uint32_t first_number = 20'000;

/// Peers by address and number, each with an address handle of its own, as a server keeps them that answers when it
/// likes
void hear_peers(const Options &o, const Socket &control)
{
	constexpr std::uint32_t receives = 16, stride = grh + 16;
	const bench::Meeting met =
		meet(o, control, true, {.octets = receives * stride, .sends = 16, .receives = receives}, [&](End &end) {
			for (std::uint32_t i = 0; i < receives; i++)
				end.receive(i, i * stride, stride);
		});
	End &end = *met.end;
	std::map<std::uint32_t, ibv_ah *> peers;
	bool told = false;

	bench::tell(control, 'r');
	for (;;) {
		ibv_wc wc{};

		if (end.received(&wc, 1, -1) == 0)
			continue;
		const char *const header = end.at(wc.wr_id * stride);
		ibv_gid gid{};
		// The GRH's source
		std::memcpy(gid.raw, header + 8, sizeof(gid));
		ibv_ah *&ah = peers[wc.src_qp];
		if (!ah)
			ah = end.make_ah(gid);
		end.send_to(ah, wc.src_qp, header + grh, word);
		end.receive(wc.wr_id, wc.wr_id * stride, stride);
		end.reap();
		if (peers.size() == o.count && !told) {
			told = true;
			std::cout << "up " << peers.size() << std::endl;
		}
	}
}

void be_peers(const Options &o, const Socket &control)
{
	const Ticks clock;
	ibv_context *const context = bench::open_device(o.device);
	Shape shape{.kind = Kind::ud_send, .octets = 256, .sends = 4, .receives = 4};
	const bench::Meeting met = meet(o, control, false, shape, [](End &) {});
	const Place server = met.end->peer();

	(void)bench::hear<char>(control);
	for (std::uint32_t i = 0; i < o.count; i++) {
		shape.number = first_number + i;
		End end(context, shape);
		ibv_wc wc{};
		std::uint32_t answer = 0;

		end.set_peer(server);
		end.receive(0, 0, grh + word);
		for (int tries = 0; wc.byte_len == 0; tries++) {
			if (tries == 10)
				throw std::runtime_error("no answer to peer " + std::to_string(i));
			const auto start = Ticks::now();

			end.send_inline(&i, sizeof(i));
			while (end.received(&wc, 1) == 0 && clock.seconds(Ticks::now() - start) < 1)
				;
		}
		std::memcpy(&answer, end.at(grh), sizeof(answer));
		if (answer != i)
			throw std::runtime_error("another peer's answer");
		while (end.under_way() > 0)
			end.reap();
	}
	std::cout << "up " << o.count << std::endl;
	for (;;)
		::pause();
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program("Datagrams and connections of RDMA, measured", "bench_datagram",
		{"latency", "flow", "broadcast", "peers"});
	auto &app = program.app();
	const std::map<std::string, Kind> kinds{{"ud_send", Kind::ud_send}, {"record", Kind::record},
		{"rc_send", Kind::rc_send}, {"rc_write", Kind::rc_write}};
	Options o;

	app.add_option("--device", o.device, "to use")->required();
	app.add_option("--data", o.data, "the server's address there")->required()->check(CLI::ValidIPV4);
	app.add_option("--kind", o.kind, "of the messages")->transform(CLI::CheckedTransformer(kinds));
	app.add_option("--octets", o.octets, "of a message")->check(CLI::Range(4, 64 << 20));
	app.add_option("--count", o.count, "round trips or peers")->check(CLI::Range(1, 10'000'000));
	app.add_option("--ms", o.milliseconds, "that messages flow")->check(CLI::Range(10, 60'000));
	app.add_option("--list", o.list, "messages that are posted together")->check(CLI::Range(1, 64));
	app.add_option("--window", o.window, "messages under way")->check(CLI::Range(1, 1024));
	app.add_option("--receivers", o.receivers, "of what is broadcast")->check(CLI::Range(1, 64));
	app.add_option("--record-timeout", o.record_timeout, "ms until an incomplete message is recorded");
	app.add_flag("--srq", o.srq, "receives of a connection are shared ones");
	app.add_flag("--extended", o.extended, "posts by ibv_wr_*, polls by ibv_start_poll; through a connection");
	app.add_flag("--sleep", o.sleep, "the server sleeps where there is nothing to do");
	return program.run(argc, argv, [&] {
		const auto address = program.address();
		const auto control = program.server() ? bench::accept_from(bench::listen_at(address, 1))
						      : bench::connect_to(address);

		o.port = ntohs(address.sin_port);
		if ((o.srq || o.extended) && !connected(o.kind))
			throw std::invalid_argument("--srq and --extended are of a connection");
		if (o.list > o.window)
			throw std::invalid_argument("a list that is longer than the window");
		if (program.is("peers"))
			(program.server() ? hear_peers : be_peers)(o, control);
		else if (program.is("broadcast"))
			(program.server() ? hear_all : tell_all)(o, control);
		else if (program.is("latency"))
			(program.server() ? answer : ask)(o, control);
		else
			(program.server() ? serve : call)(o, control);
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
