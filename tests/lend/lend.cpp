// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// lend ADDRESS PORT serve: registers memory for each connection, one after the other, until it is killed. It says with
// which
//   words its memory ends when a connection does. A line of input, and it deregisters its memory at once.
// lend ADDRESS PORT CASE: a client. It writes messages so large that they leave without a copy, changes its buffers as
// soon as it may, and reads back what has arrived.
//   keep SECONDS     buffers are changed when their requests have completed
//   deregister       the region is deregistered while a request is under way, and changed then
//   deregister-two   two regions, by two threads at once, while a request of each is under way
//   pieces           messages that end in as many pieces of pages as requests can have, at every place of a batch
//   atomic-among     atomics, and a Read behind each, while the server writes into the client's memory without a pause
//   atomic           a Read of what an atomic behind it changes
//   last-words WAY   many small Writes that complete, a large one behind them, and the end; WAY: exit, destroy or error
// When "ready" is printed, the caller may have the network change, and then writes a line:
//   dead-deregister  the region goes while requests are under way, to a peer that nobody reaches; then the QP into
//   error dead-destroy     the QP is destroyed then dead-exit        the process ends without a word dead-hold the
//   process waits to be killed dead-error       the QP goes into the error state, and each request is told of
//   slow-deregister  the region goes at once, although the peer acknowledges slowly; a second line, when the network is
//   good many COUNT       dead-error with so many connections slow-read        a Read of the server's memory, to be
//   left alone
// Status 0: all is as it has to be.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <infiniband/verbs.h>
#include <memory>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t area = 32 << 20;	   // bytes of the server
constexpr std::size_t slots = 4;	   // messages at a time
constexpr std::size_t slot = area / slots; // bytes that each has
constexpr std::size_t under_way = 1 << 20; // bytes of a message that leaves without a copy
constexpr std::uint64_t last_word = 0x6b69776172703031;
constexpr std::chrono::seconds at_once{8}; // more than it takes anywhere, and less than a wait for a peer
constexpr int access_all =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

struct Remote {
	std::uint64_t address;
	std::uint32_t rkey;
	std::uint32_t reserved;
};

[[noreturn]] void die(const std::string &what)
{
	std::fprintf(stderr, "lend: %s\n", what.c_str());
	std::exit(1);
}
void check(bool good, const char *what)
{
	if (!good)
		die(std::string(what) + ": " + std::strerror(errno));
}
void say(const char *what)
{
	std::puts(what);
	std::fflush(stdout);
}

// --- connections ----------------------------------------------------------------------------------

rdma_cm_id *wait_event(rdma_event_channel *channel, rdma_cm_event_type type, void *data, std::size_t octets)
{
	rdma_cm_event *event;
	check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
	if (event->event != type)
		die(std::string("event ") + rdma_event_str(event->event) + " instead of " + rdma_event_str(type));
	if (data) {
		if (event->param.conn.private_data_len < octets)
			die("too little private data");
		std::memcpy(data, event->param.conn.private_data, octets);
	}
	rdma_cm_id *id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

void make_qp(rdma_cm_id *id)
{
	ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 16, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	check(rdma_create_qp(id, nullptr, &attr) == 0, "rdma_create_qp");
}

sockaddr_storage resolve(const char *address, const char *port)
{
	addrinfo *found;
	if (getaddrinfo(address, port, nullptr, &found))
		die(std::string("no address: ") + address);
	sockaddr_storage result = {};
	std::memcpy(&result, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return result;
}

// --- memory ---------------------------------------------------------------------------------------

class Memory {
public:
	Memory(ibv_pd *pd, std::size_t size) : data_(static_cast<std::uint8_t *>(aligned_alloc(4096, size)))
	{
		check(data_, "aligned_alloc");
		std::memset(data_, 0, size);
		mr_ = ibv_reg_mr(pd, data_, size, access_all);
		check(mr_, "ibv_reg_mr");
	}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	std::uint8_t *at(std::size_t offset) const { return data_ + offset; }
	ibv_mr *mr() const { return mr_; }
	ibv_sge sge(std::size_t offset, std::size_t length) const
	{
		return {reinterpret_cast<std::uintptr_t>(data_ + offset), static_cast<std::uint32_t>(length),
			mr_->lkey};
	}
	void deregister() { check(ibv_dereg_mr(mr_) == 0, "ibv_dereg_mr"); }
	// The same, and quickly
	void deregister_at_once()
	{
		const auto begin = std::chrono::steady_clock::now();
		deregister();
		if (std::chrono::steady_clock::now() - begin > at_once)
			die("ibv_dereg_mr has waited");
	}

private:
	std::uint8_t *data_;
	ibv_mr *mr_;
};

// Differs by seed and place, and takes no time to speak of
void pattern(std::uint8_t *to, std::size_t n, std::uint64_t seed)
{
	std::uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
	for (std::size_t i = 0; i < n; i += sizeof(x)) {
		x += 0xd1b54a32d192ed03;
		const std::uint64_t word = x ^ (x >> 29);
		std::memcpy(to + i, &word, std::min(sizeof(word), n - i));
	}
}

// --- the server -----------------------------------------------------------------------------------

/// Keeps Writes into a client's memory under way until the connection ends.
void write_to(const rdma_cm_id *id, const Memory &memory, const Remote &to)
{
	std::size_t under = 0;
	ibv_wc wc = {};

	std::memset(memory.at(0), 1, under_way);
	do {
		for (; under < 8; under++) {
			ibv_sge sge = memory.sge(0, under_way);
			ibv_send_wr wr = {.sg_list = &sge,
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = IBV_SEND_SIGNALED};
			wr.wr.rdma = {to.address, to.rkey};
			ibv_send_wr *bad;
			if (ibv_post_send(id->qp, &wr, &bad))
				return;
		}
		while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
			;
		under--;
	} while (wc.status == IBV_WC_SUCCESS);
}

[[noreturn]] void serve(const char *address, const char *port)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *listener;
	check(channel && rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
	sockaddr_storage here = resolve(address, port);
	check(rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&here)) == 0, "rdma_bind_addr");
	check(rdma_listen(listener, 16) == 0, "rdma_listen");
	std::unique_ptr<Memory> memory;
	std::unique_ptr<Remote> asked;
	std::jthread writes;
	std::jthread goes([&memory] {
		if (std::getchar() == '\n') {
			memory->deregister_at_once();
			say("deregistered");
		}
	});
	for (;;) {
		rdma_cm_event *event;
		check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
		const rdma_cm_event_type type = event->event;
		rdma_cm_id *id = event->id;
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data_len >= sizeof(Remote)) {
			asked = std::make_unique<Remote>();
			std::memcpy(asked.get(), event->param.conn.private_data, sizeof(*asked));
		}
		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			if (!memory)
				memory = std::make_unique<Memory>(id->pd, area);
			const Remote mine = {reinterpret_cast<std::uintptr_t>(memory->at(0)), memory->mr()->rkey, 0};
			rdma_conn_param param = {.private_data = &mine,
				.private_data_len = sizeof(mine),
				.responder_resources = 16,
				.initiator_depth = 16};
			check(rdma_accept(id, &param) == 0, "rdma_accept");
		} else if (type == RDMA_CM_EVENT_ESTABLISHED && asked && asked->rkey) {
			writes = std::jthread(write_to, id, std::cref(*memory), *std::exchange(asked, nullptr));
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			writes = std::jthread();
			std::uint64_t word;
			std::memcpy(&word, memory->at(area - sizeof(word)), sizeof(word));
			say(word == last_word ? "the last word is there" : "another last word");
			rdma_disconnect(id);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
		}
	}
}

// --- a client -------------------------------------------------------------------------------------

class Client {
public:
	// The server writes into the client's memory, if the client asks for that.
	Client(const char *address, const char *port, bool asks) : channel(rdma_create_event_channel())
	{
		check(channel && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
		sockaddr_storage there = resolve(address, port);
		check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&there), 5000) == 0,
			"rdma_resolve_addr");
		wait_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, nullptr, 0);
		check(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
		wait_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, nullptr, 0);
		make_qp(id);
		Remote mine = {};
		rdma_conn_param param = {.responder_resources = 16, .initiator_depth = 16};
		if (asks) {
			memory = std::make_unique<Memory>(id->pd, area);
			mine = {reinterpret_cast<std::uintptr_t>(memory->at(0)), memory->mr()->rkey, 0};
			param.private_data = &mine;
			param.private_data_len = sizeof(mine);
		}
		check(rdma_connect(id, &param) == 0, "rdma_connect");
		wait_event(channel, RDMA_CM_EVENT_ESTABLISHED, &remote, sizeof(remote));
	}

	void post(ibv_wr_opcode opcode, std::vector<ibv_sge> sges, std::size_t to, std::uint64_t number)
	{
		ibv_send_wr wr = {.wr_id = number,
			.sg_list = sges.data(),
			.num_sge = static_cast<int>(sges.size()),
			.opcode = opcode,
			.send_flags = IBV_SEND_SIGNALED};
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr.wr.atomic = {
				.remote_addr = remote.address + to, .compare_add = 1, .swap = 0, .rkey = remote.rkey};
		else
			wr.wr.rdma = {remote.address + to, remote.rkey};
		ibv_send_wr *bad;
		const int error = ibv_post_send(id->qp, &wr, &bad);
		if (error)
			die(std::string("ibv_post_send: ") + std::strerror(error));
	}

	ibv_wc completion()
	{
		ibv_wc wc = {};
		int n;
		while ((n = ibv_poll_cq(id->send_cq, 1, &wc)) == 0)
			;
		check(n == 1, "ibv_poll_cq");
		return wc;
	}
	void complete(std::uint64_t number)
	{
		const ibv_wc wc = completion();
		if (wc.wr_id != number || wc.status != IBV_WC_SUCCESS)
			die("request " + std::to_string(wc.wr_id) + " instead of " + std::to_string(number) + ": " +
				ibv_wc_status_str(wc.status));
	}

	// Reads n bytes back, and compares
	void expect(Memory &sink, std::size_t from, std::size_t n, std::uint64_t seed)
	{
		post(IBV_WR_RDMA_READ, {sink.sge(from, n)}, from, seed);
		complete(seed);
		std::vector<std::uint8_t> wanted(n);
		pattern(wanted.data(), n, seed);
		const auto [a, b] = std::mismatch(wanted.begin(), wanted.end(), sink.at(from));
		if (a != wanted.end())
			die("message " + std::to_string(seed) + " of " + std::to_string(n) +
				" bytes: wrong from byte " + std::to_string(a - wanted.begin()));
	}

	rdma_event_channel *channel;
	rdma_cm_id *id = nullptr;
	Remote remote = {};
	std::unique_ptr<Memory> memory;
};

constexpr std::array<std::size_t, 6> sizes = {256 << 10, (1 << 20) - 1, (1 << 20) + 13, 4 << 20, 300001, 64 << 10};

// The parts of a message of n bytes: as many as parts, of which the first begins at an odd address
std::vector<ibv_sge> split(
	const std::vector<std::unique_ptr<Memory>> &from, std::size_t base, std::size_t n, std::size_t parts)
{
	std::vector<ibv_sge> sges;
	for (std::size_t i = 0, off = 0; i < parts; i++) {
		const std::size_t length = i + 1 == parts ? n - off : n / parts - i;
		sges.push_back(from[i]->sge(base + off, length));
		off += length;
	}
	return sges;
}

int keep(Client &c, int seconds)
{
	std::vector<std::unique_ptr<Memory>> source; // the same place in each holds the same part
	for (int i = 0; i < 6; i++)
		source.push_back(std::make_unique<Memory>(c.id->pd, area));
	Memory sink(c.id->pd, area);
	std::vector<std::uint8_t> whole(slot);
	std::uint64_t seed = 1;
	const std::time_t end = std::time(nullptr) + seconds;

	do {
		std::array<std::size_t, slots> length;
		for (std::size_t i = 0; i < slots; i++) {
			const std::size_t base = i * slot + 7 * i, n = sizes[(seed + i) % sizes.size()];
			const std::size_t parts = 1 + (seed + i) % source.size();
			length[i] = n;
			pattern(whole.data(), n, seed + i);
			std::vector<ibv_sge> sges = split(source, base, n, parts);
			std::size_t off = 0;
			for (const ibv_sge &s : sges) {
				auto *to = reinterpret_cast<void *>(s.addr); // NOLINT(performance-no-int-to-ptr)
				std::memcpy(to, whole.data() + off, s.length);
				off += s.length;
			}
			c.post(IBV_WR_RDMA_WRITE, sges, base, seed + i);
		}
		for (std::size_t i = 0; i < slots; i++) {
			c.complete(seed + i);
			for (const auto &memory : source)
				std::memset(memory->at(i * slot), 0xee, slot);
		}
		for (std::size_t i = 0; i < slots; i++)
			c.expect(sink, i * slot + 7 * i, length[i], seed + i);
		seed += slots;
	} while (std::time(nullptr) < end);
	std::printf("%llu messages\n", static_cast<unsigned long long>(seed - 1));
	return 0;
}

// Messages of 64 KB. What of them is lent, the caller sees; they are read back in parts that never are.
constexpr std::size_t short_message = 64 << 10;

void expect_short(Client &c, Memory &sink, std::uint64_t number)
{
	constexpr std::size_t part = short_message / 4;
	std::vector<std::uint8_t> wanted(short_message);
	const std::size_t base = number * short_message;

	pattern(wanted.data(), short_message, number);
	for (std::size_t at = 0; at < short_message; at += part) {
		c.post(IBV_WR_RDMA_READ, {sink.sge(base + at, part)}, base + at, number);
		c.complete(number);
	}
	check(std::equal(wanted.begin(), wanted.end(), sink.at(base)), "compare");
}

int short_writes(Client &c, bool together)
{
	constexpr std::uint64_t number = 32;
	Memory source(c.id->pd, area), sink(c.id->pd, area);
	std::array<ibv_sge, number> sges;
	std::array<ibv_send_wr, number> list = {};
	ibv_send_wr *bad;

	for (std::uint64_t i = 0; i < number; i++) {
		pattern(source.at(i * short_message), short_message, i);
		sges[i] = source.sge(i * short_message, short_message);
		list[i] = {.wr_id = i,
			.next = together && i + 1 < number ? &list[i + 1] : nullptr,
			.sg_list = &sges[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED};
		list[i].wr.rdma = {c.remote.address + i * short_message, c.remote.rkey};
	}
	for (std::uint64_t i = 0; i < number; i++) {
		if (i == 0 || !together)
			check(ibv_post_send(c.id->qp, &list[i], &bad) == 0, "ibv_post_send");
		c.complete(i);
		// Until the peer has acknowledged it
		if (!together)
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
	}
	std::memset(source.at(0), 0xee, number * short_message);
	for (std::uint64_t i = 0; i < number; i++)
		expect_short(c, sink, i);
	return 0;
}

int short_reads(Client &c)
{
	Memory source(c.id->pd, area), sink(c.id->pd, area);

	pattern(source.at(0), area, 3);
	for (std::size_t at = 0; at < area / 4; at += short_message / 4) {
		c.post(IBV_WR_RDMA_WRITE, {source.sge(at, short_message / 4)}, at, at);
		c.complete(at);
	}
	for (std::size_t at = 0; at < area / 4; at += short_message) {
		c.post(IBV_WR_RDMA_READ, {sink.sge(at, short_message)}, at, at);
		c.complete(at);
	}
	check(std::equal(source.at(0), source.at(area / 4), sink.at(0)), "compare");
	return 0;
}

// TCP takes a whole message at once only when it has sent much before.
void warm_up(Client &c, Memory &memory)
{
	for (std::uint64_t i = 0; i < 32; i++)
		c.post(IBV_WR_RDMA_WRITE, {memory.sge(0, under_way)}, 0, i);
	for (std::uint64_t i = 0; i < 32; i++)
		c.complete(i);
}

int deregister(Client &c)
{
	Memory source(c.id->pd, area), sink(c.id->pd, area);
	constexpr std::size_t n = 256 << 10;
	warm_up(c, source);
	pattern(source.at(0), n, 99);
	c.post(IBV_WR_RDMA_WRITE, {source.sge(0, n)}, 0, 99);
	source.deregister();
	std::memset(source.at(0), 0xee, n);
	c.complete(99);
	c.expect(sink, 0, n, 99);
	return 0;
}

int deregister_two(Client &c)
{
	Memory first(c.id->pd, area), second(c.id->pd, area), sink(c.id->pd, area);
	constexpr std::size_t n = 256 << 10;
	warm_up(c, first);
	pattern(first.at(0), n, 98);
	pattern(second.at(0), n, 99);
	c.post(IBV_WR_RDMA_WRITE, {first.sge(0, n)}, 0, 98);
	c.post(IBV_WR_RDMA_WRITE, {second.sge(0, n)}, n, 99);
	{
		const std::jthread other([&first] { first.deregister(); });
		second.deregister();
	}
	std::memset(first.at(0), 0xee, n);
	std::memset(second.at(0), 0xee, n);
	c.complete(98);
	c.complete(99);
	c.expect(sink, 0, n, 98);
	c.expect(sink, n, n, 99);
	return 0;
}

// Pages of which no two neighbours are neighbours in memory
class Scattered {
public:
	Scattered(ibv_pd *pd, std::size_t pages)
	{
		void *at = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(at != MAP_FAILED, "mmap");
		data_ = static_cast<std::uint8_t *>(at);
		madvise(at, pages * page, MADV_NOHUGEPAGE);
		for (std::size_t first : {0, 1})
			for (std::size_t i = first; i < pages; i += 2)
				data_[i * page] = 1;
		mr_ = ibv_reg_mr(pd, data_, pages * page, IBV_ACCESS_LOCAL_WRITE);
		check(mr_, "ibv_reg_mr");
	}
	static constexpr std::size_t page = 4096;
	std::uint8_t *at(std::size_t offset) const { return data_ + offset; }
	ibv_sge sge(std::size_t offset, std::uint32_t length) const
	{
		return {reinterpret_cast<std::uintptr_t>(data_ + offset), length, mr_->lkey};
	}

private:
	std::uint8_t *data_;
	ibv_mr *mr_;
};

int pieces(Client &c)
{
	constexpr std::size_t small = 15, parts = 2, room = 768 << 10, step = 1400;
	Memory warm(c.id->pd, area), sink(c.id->pd, area);
	Scattered source(c.id->pd, room / Scattered::page + 4 * small);
	std::uint64_t seed = 200;

	warm_up(c, warm);
	for (std::size_t n = 256 << 10; n < room - step; n += step, seed++) {
		std::vector<std::uint8_t> whole(n + parts * small);
		pattern(whole.data(), whole.size(), seed);
		std::memcpy(source.at(0), whole.data(), n);
		std::vector<ibv_sge> sges = {source.sge(0, static_cast<std::uint32_t>(n))};
		// Each of them has one byte in each of two pages.
		for (std::size_t i = 0; i < small; i++) {
			const std::size_t at = room + (2 * i + 1) * Scattered::page - 1;
			std::memcpy(source.at(at), whole.data() + n + parts * i, parts);
			sges.push_back(source.sge(at, parts));
		}
		c.post(IBV_WR_RDMA_WRITE, sges, 0, seed);
		c.complete(seed);
		c.expect(sink, 0, whole.size(), seed);
	}
	return 0;
}

// The Read has the word as it was, however long its pages are with the server's TCP.
int atomic(Client &c)
{
	Memory sink(c.id->pd, area);
	constexpr std::size_t last = under_way - sizeof(std::uint64_t);

	for (std::uint64_t round = 0; round < 100; round++) {
		std::uint64_t read, old;
		c.post(IBV_WR_RDMA_READ, {sink.sge(0, under_way)}, 0, 2 * round);
		c.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {sink.sge(under_way, sizeof(old))}, last, 2 * round + 1);
		c.complete(2 * round);
		c.complete(2 * round + 1);
		std::memcpy(&read, sink.at(last), sizeof(read));
		std::memcpy(&old, sink.at(under_way), sizeof(old));
		if (read != old)
			die("round " + std::to_string(round) + ": read " + std::to_string(read) + ", there was " +
				std::to_string(old));
	}
	return 0;
}

// What the server lends meanwhile must not keep the atomics waiting.
int atomic_among(Client &c)
{
	Memory sink(c.id->pd, area);

	// The server writes by now.
	while (static_cast<volatile std::uint8_t *>(c.memory->at(0))[0] == 0)
		;
	for (std::uint64_t round = 0; round < 20; round++) {
		c.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {sink.sge(0, sizeof(std::uint64_t))}, 0, 2 * round);
		c.post(IBV_WR_RDMA_READ, {sink.sge(8, 1000)}, 0, 2 * round + 1);
		c.complete(2 * round);
		c.complete(2 * round + 1);
	}
	return 0;
}

// What the caller does to the network meanwhile
void await_line()
{
	for (int ch; (ch = std::getchar()) != '\n' && ch != EOF;)
		;
}

// Begins requests, in a network that the caller changed
void strand(Client &c, Memory &memory)
{
	warm_up(c, memory);
	say("ready");
	await_line();
	for (std::uint64_t i = 0; i < 4; i++)
		c.post(IBV_WR_RDMA_WRITE, {memory.sge(0, under_way)}, 0, 100 + i);
	say("under way");
}

// Each request is told of, in order, and none succeeds behind one that failed.
void told(Client &c, bool may_succeed)
{
	for (std::uint64_t i = 0; i < 4; i++) {
		const ibv_wc wc = c.completion();
		may_succeed &= wc.status == IBV_WC_SUCCESS;
		if (wc.wr_id != 100 + i || (wc.status == IBV_WC_SUCCESS) != may_succeed)
			die("request " + std::to_string(wc.wr_id) + ": " + ibv_wc_status_str(wc.status));
	}
}

void fail(Client &c)
{
	ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	check(ibv_modify_qp(c.id->qp, &attr, IBV_QP_STATE) == 0, "ibv_modify_qp");
}

int dead(Client &c, std::string_view what)
{
	Memory source(c.id->pd, area);
	strand(c, source);
	if (what == "dead-exit")
		_exit(0);
	if (what == "dead-hold")
		for (;;)
			pause();
	if (what == "dead-destroy") {
		rdma_destroy_qp(c.id);
		source.deregister();
	} else if (what == "dead-error") {
		fail(c);
		told(c, false);
	} else {
		source.deregister();
		fail(c);
		told(c, true);
	}
	return 0;
}

int many(const char *address, const char *port, int count)
{
	std::vector<std::unique_ptr<Client>> clients;
	std::vector<std::unique_ptr<Memory>> sources;

	for (int i = 0; i < count; i++) {
		clients.push_back(std::make_unique<Client>(address, port, false));
		sources.push_back(std::make_unique<Memory>(clients.back()->id->pd, under_way));
	}
	say("ready");
	await_line();
	for (int i = 0; i < count; i++)
		for (std::uint64_t j = 0; j < 4; j++)
			clients[i]->post(IBV_WR_RDMA_WRITE, {sources[i]->sge(0, under_way)}, 0, 100 + j);
	say("under way");
	for (const auto &c : clients)
		fail(*c);
	for (const auto &c : clients)
		told(*c, false);
	return 0;
}

// TCP holds all of the messages by then, and the peer hasn't acknowledged them: nothing waits, nothing is lost, and
// what is written afterwards doesn't leave.
int slow_deregister(Client &c)
{
	Memory source(c.id->pd, area), sink(c.id->pd, area);
	constexpr std::size_t n = 256 << 10, messages = 3;

	warm_up(c, source);
	say("ready");
	await_line();
	for (std::size_t i = 0; i < messages; i++) {
		pattern(source.at(i * n), n, 50 + i);
		c.post(IBV_WR_RDMA_WRITE, {source.sge(i * n, n)}, i * n, 50 + i);
	}
	say("under way");
	source.deregister_at_once();
	std::memset(source.at(0), 0xee, messages * n);
	say("deregistered");
	await_line();
	for (std::size_t i = 0; i < messages; i++)
		c.complete(50 + i);
	for (std::size_t i = 0; i < messages; i++)
		c.expect(sink, i * n, n, 50 + i);
	return 0;
}

// Completed requests arrive, whatever is still under way when the process or the queue pair ends.
int last_words(Client &c, std::string_view way)
{
	constexpr std::size_t n = 128 << 10, messages = 24;
	Memory source(c.id->pd, area);

	std::memcpy(source.at(n), &last_word, sizeof(last_word));
	for (std::uint64_t i = 0; i < messages; i++) {
		c.post(IBV_WR_RDMA_WRITE, {source.sge(0, n)}, 0, i);
		c.complete(i);
	}
	c.post(IBV_WR_RDMA_WRITE, {source.sge(n, sizeof(last_word))}, area - sizeof(last_word), messages);
	c.complete(messages);
	c.post(IBV_WR_RDMA_WRITE, {source.sge(0, under_way)}, 0, messages + 1);
	if (way == "destroy")
		rdma_destroy_qp(c.id);
	else if (way == "error")
		fail(c);
	_exit(0);
}

int slow_read(Client &c)
{
	Memory sink(c.id->pd, area);

	warm_up(c, sink);
	say("ready");
	await_line();
	c.post(IBV_WR_RDMA_READ, {sink.sge(0, 4 * under_way)}, 0, 1);
	say("under way");
	for (;;)
		pause();
}

} // namespace

int main(int argc, char **argv)
{
	const std::string_view what = argc > 3 ? argv[3] : "";
	if (what == "serve")
		serve(argv[1], argv[2]);
	const std::string_view argument = argc > 4 ? argv[4] : "";
	const bool counts = what == "keep" || what == "many";
	const std::string_view plain[] = {"deregister", "deregister-two", "pieces", "atomic", "atomic-among",
		"slow-deregister", "slow-read", "dead-deregister", "dead-destroy", "dead-exit", "dead-hold",
		"dead-error", "short-writes", "short-writes-together", "short-reads"};
	if (std::ranges::find(plain, what) == std::end(plain) && !(argc == 5 && (counts || what == "last-words"))) {
		std::fprintf(stderr, "usage: lend ADDRESS PORT serve|keep SECONDS|many COUNT|last-words WAY|CASE\n");
		return 2;
	}
	const int number = counts ? static_cast<int>(std::strtol(argv[4], nullptr, 10)) : 0;
	if (what == "many")
		return many(argv[1], argv[2], number);
	Client c(argv[1], argv[2], what == "atomic-among");
	if (what == "keep")
		return keep(c, number);
	if (what.starts_with("short-writes"))
		return short_writes(c, what == "short-writes-together");
	if (what == "short-reads")
		return short_reads(c);
	if (what == "deregister")
		return deregister(c);
	if (what == "deregister-two")
		return deregister_two(c);
	if (what == "pieces")
		return pieces(c);
	if (what == "atomic-among")
		return atomic_among(c);
	if (what == "atomic")
		return atomic(c);
	if (what == "slow-deregister")
		return slow_deregister(c);
	if (what == "slow-read")
		return slow_read(c);
	if (what == "last-words")
		return last_words(c, argument);
	return dead(c, what);
}
