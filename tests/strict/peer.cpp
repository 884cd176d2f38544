// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A receiver that wants an FPDU's header at the start of each TCP segment, as RNICs do that put no stream together.
//
//	strict_peer receive INTERFACE ADDRESS PORT [crc] [markers]
//
// takes one connection, says that its peer's FPDUs shall have these, and reads up to its end. Writes how many segments
// there were, of how many FPDUs, and how many of them begin within one. What a network card would cut counts as cut.
// Needs CAP_NET_ADMIN and CAP_NET_RAW.
//
//	strict_peer send ADDRESS PORT
//
// is a program of verbs: RDMA Writes of many sizes to it, one by one and in lists.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace {

void check(bool good, const char *what)
{
	if (!good)
		throw std::system_error(errno, std::generic_category(), what);
}

// --- the receiver ---------------------------------------------------------------------------------

constexpr std::size_t frame_size = 20;
constexpr unsigned marker_distance = 512;

struct Descriptor {
	explicit Descriptor(int number) : fd(number) {}
	~Descriptor() { close(fd); }
	Descriptor(const Descriptor &) = delete;
	Descriptor &operator=(const Descriptor &) = delete;

	const int fd;
};

/// What is before each packet: struct virtio_net_hdr, the header of which is not C++
struct Segmented {
	std::uint8_t flags, type; // type: 0 if a network card would not cut it
	std::uint16_t headers, size, checksum_start, checksum_offset;
};

/// The TCP segments of one direction of a connection
class Segments {
public:
	Segments(const char *interface, std::uint16_t port)
		: packets_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP))),
		  port_(port)
	{
		sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
		constexpr int on = 1, room = 256 << 20;

		address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
		check(packets_.fd >= 0 && address.sll_ifindex, "packet socket");
		check(setsockopt(packets_.fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) == 0, "PACKET_VNET_HDR");
		// What doesn't fit is counted.
		(void)setsockopt(packets_.fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
		check(bind(packets_.fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0, "bind");
	}

	[[nodiscard]] int fd() const { return packets_.fd; }

	/// Takes what is there.
	void take()
	{
		sockaddr_ll from{};
		socklen_t length = sizeof(from);
		ssize_t got = 0;

		while ((got = recvfrom(packets_.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT,
				reinterpret_cast<sockaddr *>(&from), &length)) > 0)
			if (from.sll_pkttype != PACKET_OUTGOING)
				look(static_cast<std::size_t>(got));
	}

	/// Where segments begin, by bytes of the stream
	[[nodiscard]] std::set<std::uint32_t> starts() const
	{
		tpacket_stats lost{};
		socklen_t length = sizeof(lost);

		check(getsockopt(packets_.fd, SOL_PACKET, PACKET_STATISTICS, &lost, &length) == 0, "PACKET_STATISTICS");
		if (lost.tp_drops)
			throw std::runtime_error("packets were lost");
		return starts_;
	}

private:
	void look(std::size_t got)
	{
		Segmented segmented{};
		iphdr ip{};
		tcphdr tcp{};

		constexpr std::size_t before = sizeof(segmented) + ETH_HLEN;

		std::memcpy(&segmented, buffer_.data(), sizeof(segmented));
		std::memcpy(&ip, &buffer_[before], sizeof(ip));
		const std::size_t at = before + 4 * ip.ihl;
		if (ip.protocol != IPPROTO_TCP || got < at + sizeof(tcp))
			return;
		std::memcpy(&tcp, &buffer_[at], sizeof(tcp));
		if (ntohs(tcp.dest) != port_)
			return;
		if (tcp.syn)
			first_ = ntohl(tcp.seq) + 1;
		// A short frame may be padded.
		const std::size_t end = segmented.type ? got : std::min(got, before + ntohs(ip.tot_len));
		const std::size_t headers = at + 4 * tcp.doff;
		const std::size_t step = segmented.type ? segmented.size : buffer_.size();
		for (std::size_t byte = 0; headers + byte < end; byte += step)
			starts_.insert(ntohl(tcp.seq) - first_ + static_cast<std::uint32_t>(byte));
	}

	const Descriptor packets_;
	const std::uint16_t port_;
	std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(1 << 17);
	std::uint32_t first_ = 0;
	std::set<std::uint32_t> starts_;
};

/// Where FPDUs begin, each with the marker before it; throws if the stream doesn't end behind one
std::set<std::uint32_t> fpdus(const std::vector<std::uint8_t> &stream, bool markers)
{
	std::set<std::uint32_t> starts;
	std::size_t at = 0;
	const auto marker_at = [markers](std::size_t byte) {
		return markers && byte % marker_distance == 0;
	};

	while (at + 2 < stream.size()) {
		starts.insert(static_cast<std::uint32_t>(at));
		if (marker_at(at))
			at += 4;
		const std::size_t ulpdu = stream.at(at) << 8 | stream.at(at + 1);
		for (std::size_t left = (2 + ulpdu + 3) / 4 * 4 + 4; left; left -= 4, at += 4)
			if (marker_at(at) && left != (2 + ulpdu + 3) / 4 * 4 + 4)
				at += 4;
	}
	if (at != stream.size())
		throw std::runtime_error("the stream ends within an FPDU");
	return starts;
}

int receive(const char *interface, const char *host, const char *port, bool crc, bool markers)
{
	sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(std::stoul(port)))};
	constexpr int on = 1, room = 256 << 20; // for a window that never ends
	const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	Segments segments(interface, ntohs(address.sin_port));

	check(inet_pton(AF_INET, host, &address.sin_addr) == 1, host);
	check(setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
			setsockopt(listener.fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) == 0 &&
			bind(listener.fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0 &&
			listen(listener.fd, 1) == 0,
		"listen");
	const Descriptor connection(accept(listener.fd, nullptr, nullptr));
	check(connection.fd >= 0, "accept");
	std::array<char, frame_size> frame{};
	check(recv(connection.fd, frame.data(), frame.size(), MSG_WAITALL) == frame_size, "MPA Request");
	if (frame[17] != 1 || frame[18] || frame[19])
		throw std::runtime_error("the peer's MPA Request isn't of revision 1 without private data");
	std::memcpy(frame.data(), "MPA ID Rep Frame", 16);
	frame[16] = static_cast<char>((markers ? 0x80 : 0) | (crc ? 0x40 : 0));
	check(send(connection.fd, frame.data(), frame.size(), MSG_NOSIGNAL) == frame_size, "MPA Reply");

	std::vector<std::uint8_t> stream, part(1 << 20);
	for (bool ended = false; !ended;) {
		std::array<pollfd, 2> either = {
			{{.fd = connection.fd, .events = POLLIN}, {.fd = segments.fd(), .events = POLLIN}}};

		check(poll(either.data(), either.size(), 60000) > 0, "poll");
		segments.take();
		const ssize_t got = recv(connection.fd, part.data(), part.size(), MSG_DONTWAIT);
		check(got >= 0 || errno == EAGAIN, "recv");
		ended = got == 0;
		stream.insert(stream.end(), part.begin(), part.begin() + std::max<ssize_t>(got, 0));
	}
	segments.take();
	const std::set<std::uint32_t> good = fpdus(stream, markers);
	unsigned all = 0, without = 0;
	for (const std::uint32_t start : segments.starts()) {
		if (start < frame_size || start - frame_size >= stream.size())
			continue;
		all++;
		without += !good.contains(start - frame_size);
	}
	std::cout << all << " segments, of " << good.size() << " FPDUs; " << without << " of them begin within one\n";
	return all ? 0 : 1;
}

// --- the sender -----------------------------------------------------------------------------------

int send(const char *host, const char *port)
{
	constexpr unsigned list = 8, rounds = 8;
	rdma_addrinfo hints{}, *found = nullptr;
	ibv_qp_init_attr attr{};
	rdma_cm_id *id = nullptr;
	std::vector<std::uint8_t> bytes(1 << 20);

	hints.ai_port_space = RDMA_PS_TCP;
	check(rdma_getaddrinfo(host, port, &hints, &found) == 0, "rdma_getaddrinfo");
	attr.cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	attr.qp_type = IBV_QPT_RC;
	check(rdma_create_ep(&id, found, nullptr, &attr) == 0, "rdma_create_ep");
	rdma_freeaddrinfo(found);
	ibv_mr *mr = rdma_reg_msgs(id, bytes.data(), bytes.size());
	check(mr != nullptr, "rdma_reg_msgs");
	check(rdma_connect(id, nullptr) == 0, "rdma_connect");
	for (unsigned round = 0; round < rounds; round++)
		for (const std::uint32_t length : {1U, 100U, 1400U, 4096U, 10000U, 65536U, 1U << 20})
			for (const unsigned n : {1U, list}) {
				std::vector<ibv_send_wr> wrs(n);
				ibv_sge sge = {reinterpret_cast<std::uintptr_t>(bytes.data()), length, mr->lkey};
				ibv_send_wr *bad = nullptr;
				ibv_wc wc{};

				for (unsigned i = 0; i < n; i++) {
					wrs[i].sg_list = &sge;
					wrs[i].num_sge = 1;
					wrs[i].opcode = IBV_WR_RDMA_WRITE;
					wrs[i].send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED;
					// Nobody places them.
					wrs[i].wr.rdma.remote_addr = 4096;
					wrs[i].wr.rdma.rkey = 0x1234;
					wrs[i].next = i + 1 < n ? &wrs[i + 1] : nullptr;
				}
				check(ibv_post_send(id->qp, wrs.data(), &bad) == 0, "ibv_post_send");
				check(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "completion");
			}
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return 0;
}

} // namespace

int main(int argc, char **argv)
try {
	const std::vector<std::string> words(argv + 1, argv + argc);
	const auto has = [&](const char *word) {
		return std::find(words.begin(), words.end(), word) != words.end();
	};

	if (words.size() >= 4 && words[0] == "receive")
		return receive(argv[2], argv[3], argv[4], has("crc"), has("markers"));
	if (words.size() == 3 && words[0] == "send")
		return send(argv[2], argv[3]);
	std::cerr << "usage: strict_peer receive INTERFACE ADDRESS PORT [crc] [markers] | strict_peer send ADDRESS "
		     "PORT\n";
	return 2;
} catch (const std::exception &e) {
	std::cerr << "strict_peer: " << e.what() << '\n';
	return 1;
}
