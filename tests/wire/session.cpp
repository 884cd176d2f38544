// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "session.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(bool good, const char *what)
{
	if (!good)
		vt::fail(what, errno);
}

static socklen_t length_of(const vt::Where &where)
{
	return where.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// --- settings ---

static bool same_address(const sockaddr *a, const vt::Where &where)
{
	if (!a || a->sa_family != where.address.ss_family)
		return false;
	if (a->sa_family == AF_INET)
		return !memcmp(&reinterpret_cast<const sockaddr_in *>(a)->sin_addr,
			&reinterpret_cast<const sockaddr_in *>(&where.address)->sin_addr, sizeof(in_addr));
	return !memcmp(&reinterpret_cast<const sockaddr_in6 *>(a)->sin6_addr,
		&reinterpret_cast<const sockaddr_in6 *>(&where.address)->sin6_addr, sizeof(in6_addr));
}

// Sets the MTU of the interface that has an address. Returns what it was.
static int set_mtu(const vt::Where &where, int value)
{
	const vt::InNamespace inside(where.netns);
	ifaddrs *all = nullptr;
	ifreq request{};

	check(getifaddrs(&all) == 0, "getifaddrs");
	for (const ifaddrs *i = all; i; i = i->ifa_next)
		if (same_address(i->ifa_addr, where))
			strncpy(request.ifr_name, i->ifa_name, IFNAMSIZ - 1);
	freeifaddrs(all);
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	check(fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0, "SIOCGIFMTU");
	const int before = request.ifr_mtu;
	request.ifr_mtu = value;
	check(ioctl(fd, SIOCSIFMTU, &request) == 0, "SIOCSIFMTU");
	::close(fd);
	return before;
}

Mtu::Mtu(int value) : client_before(set_mtu(vt::client_end(), value)), server_before(set_mtu(vt::server_end(), value))
{
}

// In this order, as both may have the same interface
Mtu::~Mtu()
{
	set_mtu(vt::server_end(), server_before);
	set_mtu(vt::client_end(), client_before);
}

void Mtu::server(int value)
{
	set_mtu(vt::server_end(), value);
}

// --- TCP ---

RawListener::RawListener()
{
	vt::Where where = vt::server_end();
	const vt::InNamespace inside(where.netns);
	sockaddr_storage name{};
	socklen_t size = sizeof(name);

	fd = socket(where.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(fd >= 0 && bind(fd, where.sa(0), length_of(where)) == 0 && listen(fd, 16) == 0, "listen");
	getsockname(fd, reinterpret_cast<sockaddr *>(&name), &size);
	port = ntohs(reinterpret_cast<sockaddr_in *>(&name)->sin_port);
}

RawListener::~RawListener()
{
	::close(fd);
}

int RawListener::take() const
{
	wait_for(fd, POLLIN, "accept");
	const int connection = ::accept(fd, nullptr, nullptr);
	check(connection >= 0, "accept");
	return connection;
}

int dial(uint16_t port, const std::function<void(int fd)> &prepare)
{
	vt::Where to = vt::server_end();
	const vt::Where from = vt::client_end();
	const vt::InNamespace inside(from.netns);
	const int fd = socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0, "socket");
	if (prepare)
		prepare(fd);
	check(connect(fd, to.sa(port), length_of(to)) == 0, "connect");
	return fd;
}

const vt::Listener &listener()
{
	static const vt::Listener instance;

	return instance;
}

Request next_request(const vt::Options &options)
{
	auto [id, event] = listener().request();
	auto events = std::make_shared<vt::EventChannel>();

	check(rdma_migrate_id(id.get(), events->get()) == 0, "rdma_migrate_id");
	return {std::make_unique<vt::Side>(std::move(id), events, options), event};
}

std::unique_ptr<vt::Side> accept_next(const vt::Options &options, const std::function<void(const vt::Side &)> &prepare)
{
	auto [side, event] = next_request(options);
	rdma_conn_param param = vt::parameters(options.reply_data, options.reads);

	if (prepare)
		prepare(*side);
	check(rdma_accept(side->id(), &param) == 0, "rdma_accept");
	return std::move(side);
}

bool no_event(const vt::EventChannel &events, int milliseconds)
{
	pollfd p = {events.get()->fd, POLLIN, 0};

	return poll(&p, 1, milliseconds) == 0;
}

// --- memory ---

static uint8_t fresh_octet(size_t place)
{
	return uint8_t(0x80 | place * 7 % 127);
}

Target::Target(ibv_pd *pd, int access) : memory(2 * margin + size)
{
	for (size_t i = 0; i < memory.size(); i++)
		memory[i] = fresh_octet(i);
	mr.reset(ibv_reg_mr(pd, memory.data() + margin, size, access));
	check(mr != nullptr, "ibv_reg_mr");
	key = mr->rkey;
}

uint64_t Target::address(size_t offset) const
{
	return reinterpret_cast<uintptr_t>(memory.data()) + margin + offset;
}

Bytes Target::octets(size_t offset, size_t n) const
{
	return {memory.data() + margin + offset, memory.data() + margin + offset + n};
}

void Target::set(size_t offset, const Bytes &b)
{
	std::copy(b.begin(), b.end(), memory.data() + margin + offset);
}

bool Target::untouched_but(size_t offset, size_t n) const
{
	for (size_t i = 0; i < memory.size(); i++)
		if ((i < margin + offset || i >= margin + offset + n) && memory[i] != fresh_octet(i))
			return false;
	return true;
}

ibv_sge Target::sge(size_t offset, size_t n) const
{
	return {.addr = address(offset), .length = uint32_t(n), .lkey = mr->lkey};
}

Bytes Target::fresh(size_t offset, size_t n)
{
	Bytes b;

	for (size_t i = 0; i < n; i++)
		b.push_back(fresh_octet(margin + offset + i));
	return b;
}

// --- a connection ---

std::string Terms::text() const
{
	return std::string(kiwarp_connects ? "kiwarp connects" : "kiwarp listens") + ", CRC " + (crc ? "on" : "off") +
	       (markers_in ? ", it sends markers" : "") + (markers_out ? ", it wants markers" : "") +
	       (extensions ? ", RFC 7306" : "");
}

std::vector<Terms> both_crcs()
{
	return {{.crc = false}, {.crc = true}};
}

std::vector<Terms> all_terms()
{
	return {{.crc = false}, {.crc = true}, {.kiwarp_connects = true, .crc = false},
		{.kiwarp_connects = true, .crc = true}};
}

Session::Session(const Terms &wanted) : terms(wanted)
{
	vt::Options options;

	options.cap = {
		.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64};
	options.cq_entries = 128;
	options.reads = terms.reads;
	if (terms.markers_out)
		markers.emplace("markers", "Y");
	if (terms.kiwarp_connects)
		connect(options);
	else
		accept(options);
	raw->use(terms.crc, terms.markers_out, terms.markers_in);
	if (terms.kiwarp_connects)
		raw->expect(tagged_segment(op_write, 1, 0, {})); // the ready-to-receive message
	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
}

static uint8_t flags_of(const Terms &t)
{
	const uint8_t extensions = t.kiwarp_connects ? has_extensions : asks_for_extensions;

	return (t.crc ? with_crc : 0) | (t.markers_in ? with_markers : 0) | (t.extensions ? extensions : 0);
}

static void check_markers(const Terms &t, const Bytes &start_up)
{
	if (!(start_up[16] & with_markers) != !t.markers_out)
		throw Failure("the M bit of its start-up frame is wrong");
}

void Session::connect(const vt::Options &options)
{
	const RawListener tcp;

	side = vt::start_connecting(tcp.port, options);
	make_memory(*side);
	raw = std::make_unique<Peer>(tcp.take());
	const Bytes request = raw->link.frame(request_key);
	check_markers(terms, request);
	raw->link.send(frame({.key = reply_key,
		.flags = uint8_t(flags_of(terms) | enhanced),
		.revision = 2,
		.data = word(peer_to_peer | terms.reads, rtr_write | terms.reads)}));
}

void Session::accept(const vt::Options &options)
{
	raw = std::make_unique<Peer>(dial(listener().port(), terms.socket));
	raw->link.send(frame({.flags = flags_of(terms)}));
	side = accept_next(options, [this](const vt::Side &s) { make_memory(s); });
	const Bytes reply = raw->link.frame(reply_key);
	check_markers(terms, reply);
	if (reply[16] & rejected)
		throw Failure("kiwarp rejected");
}

void Session::make_memory(const vt::Side &s)
{
	region = std::make_unique<Target>(s.pd(), terms.access);
	source = std::make_unique<Target>(s.pd());
	receive = std::make_unique<Target>(s.pd(), IBV_ACCESS_LOCAL_WRITE);
	for (int n = 0; n < terms.receives; n++)
		post_receive(s, n);
}

void Session::post_receive(const vt::Side &s, int n)
{
	const vt::Sges sges = {receive->sge(n * 2 * terms.receive_size, terms.receive_size)};

	if (const int error = s.receive(sges, n))
		vt::fail("ibv_post_recv", error);
}

bool Session::has_received(int n, const Bytes &b) const
{
	return receive->octets(n * 2 * terms.receive_size, b.size()) == b;
}

bool Session::nothing_received(size_t but) const
{
	return receive->untouched_but(0, but);
}

void Session::repost(int n)
{
	post_receive(*side, n);
}

void Session::sync(uint32_t number)
{
	raw->send(send_segment(number, {}));
	for (ibv_wc wc{.wr_id = ~0UL}; wc.wr_id + 1 != number;) {
		wc = side->received();
		if (wc.status != IBV_WC_SUCCESS)
			throw Failure(std::string("a message came as ") + ibv_wc_status_str(wc.status));
	}
}

void Session::expect_terminate(const Bytes &terminate)
{
	raw->expect(terminate);
	raw->expect_end();
	raw->link.finish();
	side->wait_state(IBV_QPS_ERR);
	for (const ibv_wc &wc : vt::poll_all(side->recv_cq()))
		if (wc.status == IBV_WC_SUCCESS)
			throw Failure("it received a message all the same");
}

void Session::close()
{
	raw->link.finish();
	raw->expect_end();
	side->wait_disconnected();
}

void in_every_way(const std::vector<Terms> &terms, const std::function<void(Session &, Cut &)> &scenario, Cuts cuts)
{
	for (const Terms &t : terms) {
		size_t length = 1;
		for (size_t at = 0; at < length || at == Cut::bytewise;) {
			Cut cut = {.at = at};
			SCOPED_TRACE(t.text() + ", " + cut.text());
			Session session(t);
			try {
				scenario(session, cut);
			} catch (const std::exception &e) {
				ADD_FAILURE() << e.what();
			}
			if (testing::Test::HasFailure())
				return;
			length = t.kiwarp_connects || cuts == Cuts::few ? 0 : cut.length;
			at = Cut::behind(at);
		}
	}
}

void refused_too(const Refusal &refusal, const std::vector<Terms> &terms)
{
	refused(refusal, terms, Cuts::few);
}

void refused(const Refusal &refusal, const std::vector<Terms> &terms, Cuts cuts)
{
	const auto scenario = [&](Session &s, Cut &cut) {
		constexpr size_t elsewhere = 8000;
		const Bytes good = {1, 2, 3, 4};

		if (refusal.before)
			refusal.before(s);
		const Bytes segment = refusal.segment(s);
		s.peer().deliver(s.peer().framed(segment, refusal.spoil), cut);
		s.peer().send(write_segment(s.target().stag(), s.target().address(elsewhere), good));
		s.peer().send(send_segment(refusal.next, good));
		s.peer().send(untagged_segment(0xf, 0, refusal.next, 0, good));
		s.expect_terminate(terminate_segment(refusal.code, refusal.headers, segment));
		EXPECT_TRUE(s.target().untouched_but(0, refusal.written));
		EXPECT_TRUE(s.nothing_received(refusal.received));
	};

	in_every_way(terms, scenario, cuts);
}
