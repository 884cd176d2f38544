// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams from UDP's queue. Header, CRC, then Q_Key are checked before any byte is placed. A datagram that fails is
// counted and dropped without an answer; the queue pair goes on.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/udp.h>

#include "address.hpp"
#include "batch.hpp"
#include "count.hpp"
#include "datagram.hpp"
#include "pieces.hpp"
#include "proto/crc.h"
#include "session/rq.h"
#include "sys.hpp"

namespace kiwu {

namespace {

// Packets, which may be trains of datagrams, that a thread takes before others get their turn
constexpr int take_budget = 64;
// Next header of a GRH on InfiniBand
constexpr std::uint8_t next_header_ib = 0x1b;

/// InfiniBand's GRH, which is a header of IPv6
struct Grh {
	__be32 version_class_flow;
	__be16 payload_length;
	std::uint8_t next_header;
	std::uint8_t hop_limit;
	in6_addr from, to;
};
static_assert(sizeof(Grh) == KIW_GRH_LEN);

in6_addr map(const Address &address)
{
	in6_addr mapped{};

	if (address.any.sa_family == AF_INET6)
		return address.v6.sin6_addr;
	mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
	std::memcpy(mapped.s6_addr + 12, &address.v4.sin_addr, 4);
	return mapped;
}

} // namespace

/// A received datagram
struct DatagramQp::Packet {
	const std::uint8_t *bytes = nullptr;
	std::uint32_t length = 0;
	bool own = false;	 // addressed to the queue pair's own number, not to a group
	bool unicast = false;	 // to an address of this host alone
	in6_addr from{}, to{};	 // of IPv4, as mapped ones
	std::uint16_t port = 0;	 // of the sender
	std::uint16_t train = 0; // bytes of each datagram of several
	std::uint8_t hop_limit = 0, traffic_class = 0;

	void take(const msghdr &message);
	void take(int level, int type, const void *data);
};

void DatagramQp::Packet::take(int level, int type, const void *data)
{
	const auto value = [&](auto &to) {
		std::memcpy(&to, data, sizeof(to));
	};
	int number = 0;
	in_pktinfo four{};
	in6_pktinfo six{};

	if (level == IPPROTO_IP && type == IP_PKTINFO) {
		value(four);
		to = {};
		to.s6_addr[10] = to.s6_addr[11] = 0xff;
		std::memcpy(to.s6_addr + 12, &four.ipi_addr, 4);
		unicast = four.ipi_spec_dst.s_addr == four.ipi_addr.s_addr;
	} else if (level == IPPROTO_IPV6 && type == IPV6_PKTINFO) {
		value(six);
		if (!IN6_IS_ADDR_V4MAPPED(&six.ipi6_addr)) {
			to = six.ipi6_addr;
			unicast = !IN6_IS_ADDR_MULTICAST(&to);
		}
	} else if (level == IPPROTO_IP && type == IP_TOS) {
		value(traffic_class);
	} else if ((level == IPPROTO_IP && type == IP_TTL) || (level == IPPROTO_IPV6 && type == IPV6_HOPLIMIT)) {
		value(number);
		hop_limit = static_cast<std::uint8_t>(number);
	} else if (level == IPPROTO_IPV6 && type == IPV6_TCLASS) {
		value(number);
		traffic_class = static_cast<std::uint8_t>(number);
	} else if (level == SOL_UDP && type == UDP_GRO) {
		value(number);
		train = static_cast<std::uint16_t>(number);
	}
}

void DatagramQp::Packet::take(const msghdr &message)
{
	for (const cmsghdr *each = CMSG_FIRSTHDR(&message); each;
		each = CMSG_NXTHDR(const_cast<msghdr *>(&message), const_cast<cmsghdr *>(each)))
		take(each->cmsg_level, each->cmsg_type, CMSG_DATA(each));
}

// --- placing --------------------------------------------------------------------------------------

kiw_take DatagramQp::take_request()
{
	if (!srq)
		return kiw_rq_take(&core.rq, &recv_);
	const kiw_take taken = srq->take(srq_wait, recv_);
	// A datagram doesn't wait.
	if (taken == KIW_TAKE_NONE)
		srq->leave(srq_wait);
	return taken;
}

/// Copies bytes into the buffers of the receive request, which has room for them. Returns false if they aren't
/// writable.
static bool scatter(
	const kiw_owner &owner, const kiw_recv_req &request, std::uint32_t offset, const void *from, std::uint32_t n)
{
	const auto *bytes = static_cast<const std::uint8_t *>(from);

	return copy_pieces(owner, request.sge, request.num_sge, IB_ACCESS_LOCAL_WRITE, offset, n,
		[&](void *to, std::uint32_t part) {
			std::memcpy(to, bytes, part);
			bytes += part;
		});
}

/// The header stands before the message: IP's in the form of InfiniBand's GRH, an IPv4 header as one of IPv6 with
/// mapped addresses.
bool DatagramQp::complete(const Packet &packet, const kiw_dgram &d)
{
	const Grh grh = {.version_class_flow = htonl(6U << 28 | std::uint32_t{packet.traffic_class} << 20),
		.payload_length = htons(static_cast<std::uint16_t>(sizeof(udphdr) + packet.length)),
		.next_header = next_header_ib,
		.hop_limit = packet.hop_limit,
		.from = packet.from,
		.to = packet.to};
	const kiw_received received = {.len = KIW_GRH_LEN + d.payload_len,
		.op = KIW_WR_RECV,
		.flags = static_cast<u8>(
			KIW_CQE_GRH | (d.solicited ? KIW_CQE_SOLICITED : 0) | (d.has_imm ? KIW_CQE_WITH_IMM : 0)),
		.from = packet.port,
		.imm = d.imm};

	if (received.len > recv_.room) {
		count(KIW_STAT_UD_TOO_LONG);
		return kiw_rq_fail(&core.rq, &recv_, IB_WC_LOC_LEN_ERR);
	}
	if (!scatter(core.own, recv_, 0, &grh, sizeof(grh)) ||
		!scatter(core.own, recv_, sizeof(grh), packet.bytes + d.hdr_len, d.payload_len)) {
		count(KIW_STAT_UD_BAD_RECEIVES);
		return kiw_rq_fail(&core.rq, &recv_, IB_WC_LOC_PROT_ERR);
	}
	return kiw_rq_complete(&core.rq, &recv_, &received);
}

// --- judging --------------------------------------------------------------------------------------

/// Returns the counter of dropped datagrams to increase, or KIW_STAT_NUM.
static kiw_stat judge(const std::uint8_t *bytes, std::uint32_t length, kiw_dgram &d)
{
	__le32 wire = 0;

	switch (kiw_dgram_parse(bytes, length, &d)) {
	case KIW_DGRAM_OK:
		break;
	case KIW_DGRAM_MALFORMED:
		return KIW_STAT_UD_MALFORMED;
	case KIW_DGRAM_OTHER_VERSION:
		return KIW_STAT_UD_VERSIONS;
	}
	const std::uint32_t covered = length - KIW_DGRAM_CRC_SIZE;
	std::memcpy(&wire, bytes + covered, sizeof(wire));
	return wire == kiw_crc_wire(kiw_crc_update(kiw_crc_init(), bytes, covered)) ? KIW_STAT_NUM
										    : KIW_STAT_UD_CRC_ERRORS;
}

/// Returns false: the queue pair is broken, by invalid ring contents or no room for completions.
bool DatagramQp::deliver(const Packet &packet, const kiw_dgram &d)
{
	kiw_stat dropped = KIW_STAT_NUM;

	if (state_ != IBV_QPS_RTR && state_ != IBV_QPS_RTS)
		dropped = KIW_STAT_UD_NOT_READY;
	else if (d.qkey != qkey_)
		dropped = KIW_STAT_UD_QKEY_ERRORS;
	else if (packet.own && !packet.unicast) // broadcasts, and groups of other sockets
		dropped = KIW_STAT_UD_STRAYS;
	else if (d.is_write && (!records_ || !packet.own)) // peers never write to groups
		dropped = KIW_STAT_UD_RECORD_REFUSED;
	if (dropped != KIW_STAT_NUM) {
		count(dropped);
		return true;
	}
	if (d.is_write)
		return records_->take(
			{.from = packet.from, .port = packet.port, .id = d.write.id}, d, packet.bytes + d.hdr_len);
	switch (take_request()) {
	case KIW_TAKE_ONE:
		return complete(packet, d);
	case KIW_TAKE_BAD:
		count(KIW_STAT_UD_BAD_RECEIVES);
		return kiw_rq_fail(&core.rq, &recv_, IB_WC_LOC_QP_OP_ERR);
	case KIW_TAKE_RING:
		count(KIW_STAT_RING_ERRORS);
		return false;
	case KIW_TAKE_NONE:
		break;
	}
	count(KIW_STAT_UD_NO_RECEIVES);
	return true;
}

bool DatagramQp::receive(const Packet &packet)
{
	kiw_dgram d{};
	const kiw_stat dropped = judge(packet.bytes, packet.length, d);

	taken_++;
	if (dropped == KIW_STAT_NUM)
		return deliver(packet, d);
	count(dropped);
	return true;
}

// --- the sockets ----------------------------------------------------------------------------------

/// Takes what a socket has, up to the budget. Returns as deliver().
bool DatagramQp::receive_from(int socket, bool own)
{
	std::uint8_t *stage = take_stage();

	if (!stage) {
		late(millisecond);
		return true;
	}
	bool whole = true;
	int left = take_budget;
	for (; whole && left > 0; left--) {
		alignas(cmsghdr) std::uint8_t control[512];
		iovec room = {.iov_base = stage, .iov_len = stage_size};
		Address from;
		msghdr message{};
		message.msg_name = &from;
		message.msg_namelen = sizeof(from.storage);
		message.msg_iov = &room;
		message.msg_iovlen = 1;
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		const ssize_t got = sys::recvmsg(socket, &message);
		// An error is one that another datagram met on its way, and is told once.
		if (got == -EAGAIN)
			break;
		if (got < 0)
			continue;
		Packet packet;
		packet.own = own;
		packet.take(message);
		from.unmap();
		packet.from = map(from);
		packet.port = ntohs(from.port());
		std::uint32_t rest = static_cast<std::uint32_t>(got);
		const std::uint32_t size = packet.train ? packet.train : std::max(rest, 1U);
		packet.bytes = stage;
		do {
			packet.length = std::min(size, rest);
			whole = receive(packet);
			packet.bytes += packet.length;
			rest -= packet.length;
		} while (whole && rest);
	}
	more_datagrams_ |= left == 0;
	leave_stage(stage);
	return whole;
}

bool DatagramQp::receive_datagrams()
{
	more_datagrams_ = false;
	bool whole = receive_from(fd, true);
	for (Group *each = groups_; whole && each; each = each->next)
		if (each->fd >= 0)
			whole = receive_from(each->fd, false);
	return whole;
}

} // namespace kiwu
