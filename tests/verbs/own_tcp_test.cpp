// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A peer that speaks TCP itself, behind a tun interface: it could as well be another machine. It chooses its sequence
// numbers, sees ours, and acknowledges when it likes.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"

namespace vt {
namespace {

constexpr const char *host_address = "10.99.0.1";
constexpr const char *peer_address = "10.99.0.2";
constexpr std::uint16_t server_port = 7001;  // of a listener of ours
constexpr std::uint16_t calling_port = 5555; // of the peer, towards it
constexpr std::uint16_t called_port = 7002;  // of the peer, towards a client of ours

using Octets = std::vector<std::uint8_t>;

/// One segment of ours, as it came out of the tun interface.
struct Segment {
	std::uint16_t from, to;
	std::uint32_t sequence;
	std::uint8_t flags;
	Octets data;
};

/// The interface, with a kiwarp device on our side of it.
class Tun {
public:
	Tun()
	{
		ifreq request{};

		fd_ = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
		if (fd_ < 0)
			fail("/dev/net/tun", errno);
		request.ifr_flags = IFF_TUN | IFF_NO_PI;
		std::strcpy(request.ifr_name, "kiwtun"); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
		if (ioctl(fd_, TUNSETIFF, &request))
			fail("TUNSETIFF", errno);
		if (!run("ip address add 10.99.0.1/24 dev kiwtun && ip link set kiwtun up && "
			 "rdma link add kiwtun type kiwarp netdev kiwtun"))
			fail("the link kiwtun");
	}
	/// The interface goes, and its device with it.
	~Tun() { close(fd_); }
	Tun(const Tun &) = delete;
	Tun &operator=(const Tun &) = delete;

	void send(std::uint16_t from, std::uint16_t to, std::uint32_t sequence, std::uint32_t acknowledged,
		std::uint8_t flags, const Octets &data = {}) const
	{
		Octets packet(sizeof(iphdr) + sizeof(tcphdr) + data.size());
		iphdr ip{};
		tcphdr tcp{};

		ip.version = 4;
		ip.ihl = sizeof(ip) / 4;
		ip.tot_len = htons(static_cast<std::uint16_t>(packet.size()));
		ip.ttl = 64;
		ip.protocol = IPPROTO_TCP;
		inet_pton(AF_INET, peer_address, &ip.saddr);
		inet_pton(AF_INET, host_address, &ip.daddr);
		ip.check = fold(sum(&ip, sizeof(ip)));
		tcp.source = htons(from);
		tcp.dest = htons(to);
		tcp.seq = htonl(sequence);
		tcp.ack_seq = htonl(acknowledged);
		tcp.doff = sizeof(tcp) / 4;
		reinterpret_cast<std::uint8_t *>(&tcp)[13] = flags;
		tcp.window = htons(65535);
		std::memcpy(packet.data() + sizeof(ip), &tcp, sizeof(tcp));
		std::copy(data.begin(), data.end(), packet.begin() + sizeof(ip) + sizeof(tcp));
		const std::size_t length = sizeof(tcp) + data.size();
		tcp.check = fold(sum(&ip.saddr, 8) + htons(IPPROTO_TCP) + htons(static_cast<std::uint16_t>(length)) +
				 sum(packet.data() + sizeof(ip), length));
		std::memcpy(packet.data(), &ip, sizeof(ip));
		std::memcpy(packet.data() + sizeof(ip), &tcp, sizeof(tcp));
		if (write(fd_, packet.data(), packet.size()) != static_cast<ssize_t>(packet.size()))
			fail("tun", errno);
	}

	/// The next segment of ours, if one comes within so many milliseconds.
	std::optional<Segment> receive(int milliseconds) const
	{
		std::array<std::uint8_t, 65536> packet;
		pollfd wait = {fd_, POLLIN, 0};

		while (poll(&wait, 1, milliseconds) == 1) {
			const ssize_t n = read(fd_, packet.data(), packet.size());
			iphdr ip;
			tcphdr tcp;

			if (n < static_cast<ssize_t>(sizeof(ip) + sizeof(tcp)))
				continue;
			std::memcpy(&ip, packet.data(), sizeof(ip));
			if (ip.version != 4 || ip.protocol != IPPROTO_TCP)
				continue;
			std::memcpy(&tcp, packet.data() + ip.ihl * 4, sizeof(tcp));
			const auto begin = packet.begin() + ip.ihl * 4 + tcp.doff * 4;
			return Segment{ntohs(tcp.source), ntohs(tcp.dest), ntohl(tcp.seq),
				reinterpret_cast<const std::uint8_t *>(&tcp)[13],
				Octets(begin, packet.begin() + ntohs(ip.tot_len))};
		}
		return std::nullopt;
	}

	/// The next segment to a port that the predicate accepts.
	Segment await(std::uint16_t to, const std::function<bool(const Segment &)> &wanted) const
	{
		std::optional<Segment> found;

		wait_until(
			[&] {
				found = receive(50);
				return found && found->to == to && wanted(*found);
			},
			"a segment");
		return *found;
	}

private:
	static std::uint32_t sum(const void *octets, std::size_t n)
	{
		const auto *p = static_cast<const std::uint8_t *>(octets);
		std::uint32_t total = 0;

		for (std::size_t i = 0; i < n; i++) // the order of octets in a word doesn't matter, if it is always one
			total += i % 2 ? p[i] << 8 : p[i];
		return total;
	}

	static std::uint16_t fold(std::uint32_t total)
	{
		while (total >> 16)
			total = (total & 0xffff) + (total >> 16);
		return static_cast<std::uint16_t>(~total);
	}

	int fd_ = -1;
};

constexpr std::uint8_t fin = 1, syn = 2, rst = 4, push = 8, ack = 16;

Octets frame(const char *key, std::initializer_list<std::uint8_t> rest)
{
	Octets octets(key, key + 16);

	for (std::uint8_t octet : rest)
		octets.push_back(octet);
	return octets;
}

/// Without a CRC, which the terms don't ask for
const Octets empty_write = {0, 14, 0xc1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

/// A queue pair of ours on an id that the caller made.
class End {
public:
	explicit End(rdma_cm_id *id) : id_(id), pd_(make_pd(id->verbs)), cq_(make_cq(id->verbs, 32))
	{
		ibv_qp_init_attr init{};

		init.send_cq = init.recv_cq = cq_.get();
		init.qp_type = IBV_QPT_RC;
		init.cap = {
			.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
		if (rdma_create_qp(id, pd_.get(), &init))
			fail("rdma_create_qp", errno);
	}
	~End() { destroy(); }
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	ibv_pd *pd() const { return pd_.get(); }
	ibv_cq *cq() const { return cq_.get(); }
	ibv_qp *qp() const { return id_->qp; }
	void destroy()
	{
		if (id_->qp)
			rdma_destroy_qp(id_);
	}

private:
	rdma_cm_id *id_;
	Pd pd_;
	Cq cq_;
};

sockaddr_in address_of(const char *text, std::uint16_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

Id make_id(const EventChannel &events)
{
	rdma_cm_id *id = nullptr;

	if (rdma_create_id(events.get(), &id, nullptr, RDMA_PS_TCP))
		fail("rdma_create_id", errno);
	return Id(id);
}

// The peer gives a server's connection and a client's the sequence numbers that two ends of one connection would have,
// ends the second, and acknowledges nothing. What it then gets of the server's Send is what was in the buffer between
// post and completion.
TEST(OwnTcp, TwoConnectionsOfAPeerArentTakenForOne)
{
	constexpr std::size_t octets = 64 << 10;
	constexpr std::uint8_t before = 0xa5, after = 0x5a;
	const Tun tun;
	EventChannel events;
	const Id listener = make_id(events), client_id = make_id(events);
	sockaddr_in here = address_of(host_address, server_port), there = address_of(peer_address, called_port);
	rdma_conn_param parameters{};

	parameters.responder_resources = parameters.initiator_depth = 1;
	ASSERT_EQ(rdma_bind_addr(listener.get(), reinterpret_cast<sockaddr *>(&here)), 0);
	ASSERT_EQ(rdma_listen(listener.get(), 4), 0);

	// The client's SYN says where its stream begins, behind a Request of 24 octets.
	ASSERT_EQ(rdma_resolve_addr(client_id.get(), nullptr, reinterpret_cast<sockaddr *>(&there), 2000), 0);
	events.wait(RDMA_CM_EVENT_ADDR_RESOLVED, client_id.get());
	ASSERT_EQ(rdma_resolve_route(client_id.get(), 2000), 0);
	events.wait(RDMA_CM_EVENT_ROUTE_RESOLVED, client_id.get());
	End client(client_id.get());
	ASSERT_EQ(rdma_connect(client_id.get(), &parameters), 0);
	const Segment client_syn = tun.await(called_port, [](const Segment &s) { return (s.flags & syn) != 0; });

	// The server's connection: its peer's stream, behind a Request of 20 octets, begins where the client's does.
	const std::uint32_t to_server = client_syn.sequence + 24 - 20;
	tun.send(calling_port, server_port, to_server, 0, syn);
	const Segment server_syn = tun.await(calling_port, [](const Segment &s) { return (s.flags & syn) != 0; });
	std::uint32_t sent = to_server + 1, got = server_syn.sequence + 1;
	// Revision 1, and it takes FPDUs beyond one segment, as other kiwarps do: payload in long runs
	const Octets request = frame("MPA ID Req Frame", {0x04, 1, 0, 0});
	tun.send(calling_port, server_port, sent, got, push | ack, request);
	sent += request.size();
	const Event call = events.wait(RDMA_CM_EVENT_CONNECT_REQUEST);
	const Id server_id(call.id);
	End server(server_id.get());
	ASSERT_EQ(rdma_accept(server_id.get(), &parameters), 0);

	// The client's connection: its peer's stream, behind a Reply of 24 octets, begins where the server's does.
	const std::uint32_t to_client = server_syn.sequence + 20 - 24;
	tun.send(called_port, client_syn.from, to_client, client_syn.sequence + 1, syn | ack);
	bool replied = false;
	int established = 0;
	wait_until(
		[&] {
			const std::optional<Segment> s = tun.receive(50);

			if (s && s->to == called_port && s->data.size() >= 24 && !replied) {
				Octets reply = frame("MPA ID Rep Frame", {0x10, 2, 0, 4});
				reply.insert(reply.end(), s->data.begin() + 20, s->data.begin() + 24);
				tun.send(called_port, client_syn.from, to_client + 1,
					s->sequence + static_cast<std::uint32_t>(s->data.size()), push | ack, reply);
				replied = true;
			}
			if (s && s->to == calling_port && s->sequence == got && !s->data.empty()) {
				got += static_cast<std::uint32_t>(s->data.size());
				tun.send(calling_port, server_port, sent, got, push | ack, empty_write);
				sent += empty_write.size();
			}
			established += events.poll(RDMA_CM_EVENT_ESTABLISHED).has_value();
			return established == 2;
		},
		"both connections");

	// The client's end goes.
	client.destroy();

	Region from(server.pd(), octets);
	ibv_sge sge = from.sge();
	ibv_send_wr send{}, *bad = nullptr;
	send.wr_id = 1;
	send.sg_list = &sge;
	send.num_sge = 1;
	send.opcode = IBV_WR_SEND;
	send.send_flags = IBV_SEND_SIGNALED;
	from.fill(before);
	ASSERT_EQ(ibv_post_send(server.qp(), &send, &bad), 0);
	EXPECT_WC(poll_one(server.cq()), 1, IBV_WC_SUCCESS);
	from.deregister();
	from.fill(after);

	// Only now it acknowledges, and takes what comes.
	std::vector<bool> arrived(2 * octets);
	Octets stream(2 * octets);
	std::uint32_t have = 0;
	const std::uint32_t first = got;
	// Headers and CRCs stand between them.
	const auto payload = [&](std::uint8_t value) {
		return static_cast<std::size_t>(std::count(stream.begin(), stream.begin() + have, value));
	};
	tun.send(calling_port, server_port, sent, got, ack);
	wait_until(
		[&] {
			const std::optional<Segment> s = tun.receive(50);

			if (!s || s->to != calling_port)
				return payload(before) + payload(after) >= octets;
			for (std::size_t i = 0; i < s->data.size(); i++) {
				const std::uint32_t at = s->sequence - first + static_cast<std::uint32_t>(i);

				if (at < stream.size() && !arrived[at]) {
					arrived[at] = true;
					stream[at] = s->data[i];
				}
			}
			while (have < stream.size() && arrived[have])
				have++;
			if (s->flags & rst)
				return true;
			tun.send(calling_port, server_port, sent, first + have + !!(s->flags & fin), ack);
			return payload(before) + payload(after) >= octets;
		},
		"the whole message");
	EXPECT_GE(payload(before), octets);
	EXPECT_LT(payload(after), 1000U);
	server.destroy();
}

} // namespace
} // namespace vt
