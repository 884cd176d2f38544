// SPDX-License-Identifier: GPL-2.0
// fuzz_replay connect|listen ADDRESS PORT [trace] <SESSIONS: what fuzz_sessions wrote, over TCP, towards a listener of
// the module or as what its initiators connect to. STags and offsets that the vectors use are replaced by those that
// the other side tells about in its private data (address 8, STag 4, length 4) or in a Read Request. Ends with 0 if
// each session came to its end.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <string>

#include "session.hpp"

using Clock = std::chrono::steady_clock;

// A session takes milliseconds; this one is a hang.
static constexpr auto patience = std::chrono::seconds(60);
// A Read Request comes at once, or doesn't.
static constexpr auto read_wait = std::chrono::milliseconds(300);

[[noreturn]] static void die(const char *what)
{
	perror(what);
	exit(2);
}

namespace {

class Link {
public:
	explicit Link(int socket) : fd(socket), end(Clock::now() + patience)
	{
		const int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	~Link()
	{
		if (fd >= 0)
			close(fd);
	}
	Link(const Link &) = delete;
	Link &operator=(const Link &) = delete;

	// Sends all, and takes what comes meanwhile. False if the other side ended it.
	bool send(model::Octets octets)
	{
		while (!octets.empty()) {
			if (!turn(POLLIN | POLLOUT, end))
				return false;
			const ssize_t n = ::send(fd, octets.data(), octets.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
			if (n < 0 && errno != EAGAIN)
				return false;
			if (n > 0)
				octets = octets.subspan(size_t(n));
		}
		return true;
	}

	// Waits for more octets. False at the end of the stream, or of that time.
	bool more(Clock::time_point until)
	{
		const size_t before = received.size();

		while (received.size() == before)
			if (Clock::now() >= until || !turn(POLLIN, until))
				return false;
		return true;
	}

	void finish() const { shutdown(fd, SHUT_WR); }
	void reset()
	{
		const linger l = {1, 0};
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		close(fd);
		fd = -1;
	}

	Bytes received;
	bool ended = false;
	Clock::time_point limit() const { return end; }

private:
	bool turn(short events, Clock::time_point until)
	{
		pollfd p = {fd, events, 0};
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(until, end) - Clock::now());

		if (ended || left.count() <= 0)
			return false;
		poll(&p, 1, int(left.count()));
		if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
			return true;
		uint8_t buffer[16384];
		const ssize_t n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
		if (n > 0)
			received.insert(received.end(), buffer, buffer + n);
		else if (n == 0 || errno != EAGAIN)
			ended = true;
		return !ended;
	}

	int fd;
	const Clock::time_point end;
};

// Where the other side has memory for us
struct Target {
	uint64_t address = 0, sink_offset = 0;
	uint32_t stag = 0, sink_stag = 0;
};

// One session after the other, and what became of them
class Replay {
public:
	Replay(bool listening, bool trace) : listens(listening), traces(trace) {}

	void run(Link &link, Session &s)
	{
		number++;
		const bool open = listens ? respond(link, s) : initiate(link, s);

		count("sessions");
		if (open && s.ways & Session::resets) {
			link.reset();
			count("reset by us");
			return;
		}
		link.finish();
		while (!link.ended)
			if (!link.more(link.limit()))
				break;
		if (!link.ended) {
			count("HUNG");
			hung = true;
		}
		terminates(link);
	}

	void report() const
	{
		for (const auto &[what, n] : counts)
			printf("%s: %u\n", what.c_str(), n);
	}

	bool hung = false;

private:
	void count(const std::string &what)
	{
		counts[what]++;
		if (traces)
			printf("%u %s\n", number, what.c_str());
	}

	static void learn(Target &t, const Bytes &data)
	{
		if (data.size() < 16)
			return;
		t.address = get(data.data(), 8);
		t.stag = uint32_t(get(&data[8], 4));
	}

	// The frame of the other side, if a good one comes
	std::optional<model::StartFrame> their_frame(Link &link)
	{
		model::Startup s;

		while (s = model::startup(link.received, !listens), !s.frame && !s.malformed)
			if (!link.more(link.limit()))
				return std::nullopt;
		if (s.malformed) {
			count("MALFORMED FRAME OF THE MODULE");
			hung = true;
			return std::nullopt;
		}
		heard = s.consumed;
		return s.frame;
	}

	bool initiate(Link &link, Session &s)
	{
		const model::Startup own = model::startup(s.frame, false);
		Target t;

		if (!pieces(link, s.frame, s.script.cuts))
			return false;
		if (s.ways & Session::impatient || !own.frame) {
			count("without an answer");
			return pieces(link, s.script.wire(), s.script.cuts);
		}
		const auto theirs = their_frame(link);
		if (!theirs) {
			count("closed instead of a Reply");
			return false;
		}
		count(theirs->reject ? "rejected" : "accepted");
		if (theirs->reject)
			return true;
		learn(t, theirs->data);
		return stream(link, s, *own.frame, *theirs, t);
	}

	bool respond(Link &link, Session &s)
	{
		const auto theirs = their_frame(link);
		const model::Startup own = model::startup(s.frame, true);
		Target t;

		if (!theirs)
			return false;
		learn(t, theirs->data);
		if (!pieces(link, s.frame, s.script.cuts))
			return false;
		if (!own.frame) {
			count("malformed Reply");
			return pieces(link, s.script.wire(), s.script.cuts);
		}
		sink(link, *theirs, *own.frame, t);
		return stream(link, s, *own.frame, *theirs, t);
	}

	// The Read that the other side has begun
	void sink(Link &link, const model::StartFrame &theirs, const model::StartFrame &own, Target &t) const
	{
		const auto until = Clock::now() + read_wait;
		size_t at = 0;

		do {
			const model::Octets all = model::Octets(link.received).subspan(heard);
			for (;;) {
				const model::Fpdu f = model::take_fpdu(all, at, 0, own.markers && theirs.revision);
				if (!f.complete)
					break;
				at = f.end;
				const model::Parsed p = model::segment(f.ulpdu, {});
				if (p.error || p.segment.opcode != op_read || !p.segment.read.size)
					continue;
				t.sink_stag = p.segment.read.sink_stag;
				t.sink_offset = p.segment.read.sink_offset;
				return;
			}
		} while (link.more(until));
	}

	bool stream(
		Link &link, Session &s, const model::StartFrame &own, const model::StartFrame &theirs, const Target &t)
	{
		if (!(s.ways & Session::stubborn)) {
			s.script.crc = own.crc || theirs.crc;
			s.script.markers = theirs.markers;
			s.script.base = 0;
		}
		for (Record &r : s.script.records)
			resolve(r.ulpdu, t);
		const bool open = pieces(link, s.script.wire(), s.script.cuts);
		count(open ? "sent to the end" : "ended before the stream's end");
		return open;
	}

	static void replace(Bytes &u, size_t at, uint64_t value, int octets)
	{
		Bytes b;

		put(b, value, octets);
		std::copy(b.begin(), b.end(), u.begin() + ptrdiff_t(at));
	}

	// The vectors' STags, see tests/proto/vectors.h
	static void resolve(Bytes &u, const Target &t)
	{
		constexpr uint32_t write_stag = 0x12345678, source_stag = 0xcd02, response_stag = 0xab01,
				   response_offset = 0x1000;
		constexpr uint64_t within = 0x1ffff; // twice the region: in it or behind

		if (u.size() < 14)
			return;
		const auto stag = uint32_t(get(&u[2], 4));
		const uint64_t offset = get(&u[6], 8);
		if (u[0] & tagged && stag == write_stag) {
			replace(u, 2, t.stag, 4);
			replace(u, 6, t.address + (offset & within), 8);
		} else if (u[0] & tagged && stag == response_stag) {
			replace(u, 2, t.sink_stag, 4);
			replace(u, 6, t.sink_offset + offset - response_offset, 8);
		} else if (u.size() >= 46 && !(u[0] & tagged) && get(&u[34], 4) == source_stag) {
			replace(u, 34, t.stag, 4);
			replace(u, 38, t.address + (get(&u[38], 8) & within), 8);
		}
	}

	static bool pieces(Link &link, const Bytes &octets, uint8_t cuts)
	{
		unsigned n = 0;
		bool open = true;
		const uint8_t *rest = octets.data();

		// Small pieces at first only, where it matters
		Script::cut(octets, cuts, [&](model::Octets piece) {
			if (n++ < 200 && open) {
				open = link.send(piece);
				rest = piece.data() + piece.size();
			}
		});
		return open && link.send({rest, octets.data() + octets.size()});
	}

	void terminates(const Link &link)
	{
		// Seen without following the stream: a Terminate is the last FPDU.
		const Bytes &b = link.received;
		for (size_t n = 28; n <= std::min<size_t>(b.size(), 88); n += 4) {
			const uint8_t *p = &b[b.size() - n];
			if (get(p + 2, 2) != 0x4147 || get(p + 8, 4) != 2)
				continue;
			char text[40];
			snprintf(text, sizeof(text), "Terminate %x/%x/%02x", p[20] >> 4, p[20] & 0xf, p[21]);
			count(text);
			return;
		}
	}

	const bool listens, traces;
	unsigned number = 0; // of the session
	size_t heard = 0;    // octets of their frame
	std::map<std::string, unsigned> counts;
};

} // namespace

static int make_socket(const addrinfo &ai, bool listening)
{
	const int fd = socket(ai.ai_family, SOCK_STREAM, 0);
	const int on = 1;

	if (fd < 0)
		die("socket");
	if (!listening) {
		if (connect(fd, ai.ai_addr, ai.ai_addrlen))
			die("connect");
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, ai.ai_addr, ai.ai_addrlen) || listen(fd, 8))
		die("listen");
	return fd;
}

static int next(int listener)
{
	pollfd p = {listener, POLLIN, 0};

	if (poll(&p, 1, int(std::chrono::milliseconds(patience).count())) != 1) {
		fprintf(stderr, "nobody connects\n");
		exit(2);
	}
	return accept(listener, nullptr, nullptr);
}

int main(int argc, char **argv)
{
	addrinfo hints = {}, *ai;

	const bool trace = argc == 5 && strcmp(argv[4], "trace") == 0;
	if ((argc != 4 && !trace) || (strcmp(argv[1], "connect") != 0 && strcmp(argv[1], "listen") != 0)) {
		fprintf(stderr, "usage: fuzz_replay connect|listen ADDRESS PORT [trace] <SESSIONS\n");
		return 2;
	}
	const bool listening = strcmp(argv[1], "listen") == 0;
	hints.ai_flags = AI_NUMERICHOST;
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(argv[2], argv[3], &hints, &ai)) {
		fprintf(stderr, "bad address\n");
		return 2;
	}
	const int listener = listening ? make_socket(*ai, true) : -1;
	Replay replay(listening, trace);
	while (auto session = read(std::cin)) {
		Link link(listening ? next(listener) : make_socket(*ai, false));
		replay.run(link, *session);
		if (replay.hung)
			break;
	}
	replay.report();
	return replay.hung;
}
