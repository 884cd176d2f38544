// SPDX-License-Identifier: GPL-2.0
// A stream of frames, as of a camera: some so many times a second, a long one now and then. The client writes each into
// memory of the server, which has a place for every frame:
//
//   record       by RDMA Write over datagrams. What is lost stays away; the server is told which parts of a frame have
//   come. connection   by RDMA Write through a connection, behind which a Send says that the frame is there. Nothing is
//   lost, but what
//                comes after it waits until it has been sent again.
//
// The server prints facts, a line each: what has come, what is missing, whether it is what was sent, and how late it
// was. A frame is due when its turn in the stream is; both hosts have to have the same clock (CLOCK_MONOTONIC), as two
// namespaces have.
#include "../bench/control.hpp"
#include "../bench/program.hpp"
#include "../bench/verbs.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <vector>

namespace {

using bench::End;
using bench::Kind;
using bench::Shape;
using bench::Socket;

struct Options {
	std::string device;
	unsigned frames = 250;
	unsigned rate = 50;
	/// Milliseconds
	unsigned patience = 20;
	unsigned late = 50;
	bool record = false;
};

constexpr std::int64_t ns_in_ms = 1'000'000, ns_in_s = 1'000'000'000;
/// How long the server waits for what it hasn't got, once the client has sent all
constexpr std::int64_t enough = ns_in_s;
constexpr std::int64_t nap_us = 5000;
constexpr std::uint32_t word = 4;

std::int64_t now()
{
	timespec t{};

	bench::check(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
	return t.tv_sec * ns_in_s + t.tv_nsec;
}

void sleep_until(std::int64_t time)
{
	const timespec t{.tv_sec = time / ns_in_s, .tv_nsec = time % ns_in_s};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR)
		;
}

/// The frames of a stream, one behind the other in memory
class Frames {
public:
	explicit Frames(unsigned count) : from_(count + 1)
	{
		for (unsigned i = 0; i < count; i++)
			from_[i + 1] = from_[i] + length(i);
	}
	/// Octets: 20 to 36 thousand, and 120 thousand of every 25th
	[[nodiscard]] static std::uint32_t length(unsigned frame)
	{
		return frame % 25 == 0 ? 120'000 : 20'000 + frame % 5 * 4'000;
	}
	[[nodiscard]] unsigned count() const { return unsigned(from_.size() - 1); }
	[[nodiscard]] std::size_t from(unsigned frame) const { return from_[frame]; }
	[[nodiscard]] std::size_t octets() const { return from_.back(); }
	/// The one that begins there
	[[nodiscard]] unsigned at(std::size_t place) const
	{
		const auto i = std::lower_bound(from_.begin(), from_.end() - 1, place);

		if (i == from_.end() - 1 || *i != place)
			throw std::runtime_error("a message that is no frame");
		return unsigned(i - from_.begin());
	}
	/// What is in a frame: never 0, which is what memory is before
	[[nodiscard]] static char octet(unsigned frame, std::size_t i)
	{
		return char(1 + (frame * 37 + i + i / 251) % 255);
	}

private:
	std::vector<std::size_t> from_;
};

/// What became of a frame
struct Outcome {
	std::int64_t delay = -1; // ns
	std::uint32_t valid = 0;
	std::string map; // one letter for each segment, or for several: '#' is there, '.' isn't
};

class Receiver {
public:
	Receiver(const Options &o, const Socket &control, const sockaddr_in &address)
		: o_(o),
		  frames_(o.frames),
		  outcomes_(o.frames),
		  met_(bench::meet(o.device, address, control, true, shape(), [&](End &end) {
			  std::memset(end.at(0), 0, frames_.octets());
			  for (unsigned i = 0; !o.record && i < o.frames; i++)
				  end.receive(i, words() + i * word, word);
		  }))
	{
		bench::tell(control, 'r');
		start_ = bench::hear<std::int64_t>(control);
		for (std::int64_t last = now(); came_ < o.frames && !(sent_all_ && now() - last > enough);) {
			if (o.record ? take_records() : take_words())
				last = now();
			else if (!sent_all_ && bench::has_been_told(control))
				sent_all_ = bench::hear<char>(control) == 'e';
		}
		bench::tell(control, 'e');
	}

	void print() const
	{
		unsigned whole = 0, holes = 0, none = 0;
		std::uint64_t valid = 0;
		std::vector<std::int64_t> delays;

		for (unsigned i = 0; i < o_.frames; i++) {
			const auto &out = outcomes_[i];

			valid += out.valid;
			if (out.delay < 0) {
				none++;
				continue;
			}
			delays.push_back(out.delay);
			(out.valid == Frames::length(i) ? whole : holes)++;
		}
		std::cout << "frames " << o_.frames << "\nwhole " << whole << "\nwith_holes " << holes << "\nmissing "
			  << none << "\noctets " << frames_.octets() << "\noctets_missing " << frames_.octets() - valid
			  << "\noctets_wrong " << wrong_ << '\n';
		if (delays.empty())
			throw std::runtime_error("no frame has come");
		std::sort(delays.begin(), delays.end());
		const auto ms = [](std::int64_t ns) {
			return double(ns) / ns_in_ms;
		};
		const auto late =
			std::count_if(delays.begin(), delays.end(), [&](auto d) { return d > o_.late * ns_in_ms; });
		std::cout << std::fixed << std::setprecision(1) << "delay_median_ms " << ms(delays[delays.size() / 2])
			  << "\ndelay_99_ms " << ms(delays[(delays.size() - 1) * 99 / 100]) << "\ndelay_most_ms "
			  << ms(delays.back()) << "\nlate " << late << '\n';
		for (unsigned i = 0, shown = 0; i < o_.frames && shown < 3; i++) {
			if (outcomes_[i].map.find('.') != std::string::npos) {
				std::cout << "map " << i << ' ' << outcomes_[i].map << '\n';
				shown++;
			}
		}
	}
	[[nodiscard]] bool right() const { return wrong_ == 0; }

private:
	[[nodiscard]] Shape shape() const
	{
		return {.kind = o_.record ? Kind::record : Kind::rc_write,
			.octets = words() + o_.frames * word,
			.sends = 4,
			.receives = std::max(o_.frames, 1u),
			.record_timeout = o_.patience};
	}
	/// Where what is sent behind the frames begins
	[[nodiscard]] std::size_t words() const { return frames_.octets(); }

	void came(unsigned frame, std::uint32_t valid)
	{
		auto &out = outcomes_.at(frame);

		if (out.delay >= 0)
			throw std::runtime_error("a frame that has come before");
		out.delay = now() - (start_ + frame * (ns_in_s / o_.rate));
		out.valid = valid;
		came_++;
	}

	/// Octets in a range that aren't what they should be: those of the frame, or none where it is a hole
	void compare(unsigned frame, std::size_t from, std::uint32_t length, bool there)
	{
		const char *const octets = met_.end->at(frames_.from(frame) + from);

		for (std::uint32_t i = 0; i < length; i++)
			wrong_ += octets[i] != (there ? Frames::octet(frame, from + i) : 0);
	}

	bool take_records()
	{
		const std::uint64_t first = met_.end->place().address;

		return met_.end->recorded(
			       [&](const kiwarpdv_record &r) { record(r, frames_.at(r.addr - first)); }, nap_us) > 0;
	}

	void record(const kiwarpdv_record &r, unsigned frame)
	{
		struct Told {
			Receiver *receiver;
			unsigned frame;
			std::uint64_t from;
			bool there;
		} told{this, frame, r.addr, true};
		const auto tell = [](void *argument, std::uint64_t addr, std::uint32_t length) {
			const auto &t = *static_cast<Told *>(argument);

			t.receiver->compare(t.frame, addr - t.from, length, t.there);
			return 0;
		};

		if (r.length != Frames::length(frame))
			throw std::runtime_error("a frame of another length");
		came(frame, r.valid);
		(void)kiwarpdv_for_each_valid(&r, tell, &told);
		told.there = false;
		// Of a bit that stands for several segments some may have come.
		if (r.unit == 1)
			(void)kiwarpdv_for_each_hole(&r, tell, &told);
		for (std::uint32_t i = 0; i < (r.segs + r.unit - 1) / r.unit; i++)
			outcomes_[frame].map += r.map[i / 64] >> i % 64 & 1 ? '#' : '.';
	}

	bool take_words()
	{
		ibv_wc wc{};

		if (met_.end->received(&wc, 1, nap_us) == 0)
			return false;
		std::uint32_t frame = 0;
		std::memcpy(&frame, met_.end->at(words() + wc.wr_id * word), sizeof(frame));
		if (frame >= frames_.count())
			throw std::runtime_error("word of a frame that there isn't");
		came(frame, Frames::length(frame));
		compare(frame, 0, Frames::length(frame), true);
		return true;
	}

	Options o_;
	Frames frames_;
	std::vector<Outcome> outcomes_;
	bench::Meeting met_;
	std::int64_t start_ = 0;
	unsigned came_ = 0;
	std::uint64_t wrong_ = 0;
	bool sent_all_ = false;
};

void send(const Options &o, const Socket &control, const sockaddr_in &address)
{
	const Frames frames(o.frames);
	const Kind kind = o.record ? Kind::record : Kind::rc_write;
	// A Write and a Send for each frame never fill it.
	const Shape shape{.kind = kind,
		.octets = frames.octets(),
		.sends = 2 * o.frames + 1,
		.receives = 4,
		.record_timeout = o.patience};
	const auto met = bench::meet(o.device, address, control, false, shape, [&](End &end) {
		for (unsigned i = 0; i < o.frames; i++) {
			for (std::uint32_t k = 0; k < Frames::length(i); k++)
				*end.at(frames.from(i) + k) = Frames::octet(i, k);
		}
	});
	End &end = *met.end;

	(void)bench::hear<char>(control);
	// Time for the word to arrive
	const std::int64_t start = now() + 200 * ns_in_ms;
	bench::tell(control, start);
	for (std::uint32_t i = 0; i < o.frames; i++) {
		sleep_until(start + i * (ns_in_s / o.rate));
		end.post(kind, {{frames.from(i), Frames::length(i), frames.from(i)}});
		if (!o.record)
			end.send_inline(&i, sizeof(i));
		end.reap();
	}
	while (end.under_way() > 0)
		end.reap();
	bench::tell(control, 'e');
	(void)bench::hear<char>(control);
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program("A stream of frames from one host to another", "demo_stream", {"record", "connection"});
	auto &app = program.app();
	Options o;

	app.add_option("--device", o.device, "to use")->required();
	app.add_option("--frames", o.frames, "of the stream")->check(CLI::Range(1, 1000));
	app.add_option("--rate", o.rate, "frames a second")->check(CLI::Range(1, 1000));
	app.add_option("--patience", o.patience, "ms without a new part until a frame is taken as it is")
		->check(CLI::Range(1, 60'000));
	app.add_option("--late", o.late, "ms after which a frame counts as late");
	return program.run(argc, argv, [&] {
		const auto address = program.address();
		// That of the connection which is shown; the other is for what both ends tell each other.
		auto data = address;

		data.sin_port = htons(std::uint16_t(ntohs(address.sin_port) + 1));
		o.record = program.is("record");
		if (!program.server()) {
			send(o, bench::connect_to(address), data);
			return;
		}
		const auto control = bench::accept_from(bench::listen_at(address, 1));
		const Receiver receiver(o, control, data);
		receiver.print();
		if (!receiver.right())
			throw std::runtime_error("other octets have come than were sent");
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
