// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A request becomes one datagram or several in our own memory: nobody can change the bytes under a CRC. Datagrams of
// one length to one destination form a train, also those of several requests, and UDP gets a train in one call. Then
// the requests complete; delivery isn't promised.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <netinet/udp.h>

#include "count.hpp"
#include "datagram.hpp"
#include "path.hpp"
#include "pieces.hpp"
#include "proto/crc.h"
#include "session/cqe.h"
#include "sys.hpp"

namespace kiwu {

namespace {

// Datagrams of a train, as UDP limits them
constexpr std::uint32_t train_datagrams = 64;
// Most bytes of a train, with the headers of IPv6 and UDP
constexpr std::uint32_t train_bytes = 65535 - 48;

// The source is looked up among the host's addresses, as they were so long ago or later.
constexpr Time known_for = 100 * millisecond;

bool may_wait(int error)
{
	return error == EAGAIN || error == ENOMEM;
}

} // namespace

/// Writes the header of the request's next datagram. Returns its length, and in payload the number of bytes that
/// follow; or 0, and in payload the request's status.
std::uint32_t DatagramQp::build_header(std::uint8_t *header, std::uint32_t &payload)
{
	const bool has_imm = req_.wqe.opcode == KIW_WR_SEND_IMM;
	const bool solicited = req_.wqe.flags & KIW_WQE_SOLICITED;
	// Only privileged programs can give a queue pair a controlled key, with the top bit set.
	const std::uint32_t qkey = req_.dest.qkey >> 31 ? qkey_ : req_.dest.qkey;

	payload = IB_WC_LOC_QP_OP_ERR;
	for (const u8 reserved : req_.dest.reserved)
		if (reserved)
			return 0;
	if (has_imm || req_.wqe.opcode == KIW_WR_SEND) {
		if (req_.len > (has_imm ? std::uint32_t{KIW_UD_MAX_IMM_MSG} : std::uint32_t{KIW_UD_MAX_MSG})) {
			payload = IB_WC_LOC_LEN_ERR;
			return 0;
		}
		payload = req_.len;
		return has_imm ? kiw_dgram_build_imm(header, solicited, qkey, msn_, req_.wqe.imm)
			       : kiw_dgram_build(header, solicited, qkey, msn_);
	}
	if (req_.wqe.opcode != KIW_WR_WRITE || is_to_group(req_.dest) || req_.wqe.remote_addr + req_.len < req_.len)
		return 0;
	// Segments grow if they would be too many.
	const std::uint32_t least = req_.len / KIW_DGRAM_MAX_SEGS + (req_.len % KIW_DGRAM_MAX_SEGS != 0);
	const kiw_dgram_write write = {.stag = req_.wqe.rkey,
		.to = req_.wqe.remote_addr,
		.id = write_id_,
		.length = req_.len,
		.seg_size = std::max(seg_size_, least)};
	if (write.seg_size > KIW_DGRAM_MAX_SEG) {
		payload = IB_WC_LOC_LEN_ERR;
		return 0;
	}
	payload = kiw_dgram_seg_len(&write, write_done_);
	return kiw_dgram_build_write(header, &write, write_done_, qkey);
}

/// Whether a datagram to the request's destination can join
bool DatagramQp::train_takes(std::uint32_t length) const
{
	if (!train_.length)
		return true;
	return train_.last == train_.size && length <= train_.size && train_.size <= train_most_ &&
	       train_.length / train_.size < train_datagrams && train_.length + length <= train_bytes && !train_.sent &&
	       std::memcmp(&train_.dest, &req_.dest, sizeof(train_.dest)) == 0;
}

/// Copies bytes of the request's message. Returns false if they aren't readable.
bool DatagramQp::copy_payload(std::uint8_t *to, std::uint32_t offset, std::uint32_t n)
{
	if (req_.wqe.flags & KIW_WQE_INLINE) {
		std::memcpy(to, static_cast<const std::uint8_t *>(req_.inline_data) + offset, n);
		return true;
	}
	return copy_pieces(
		core.own, req_.sge, req_.wqe.num_sge, 0, offset, n, [&](const void *from, std::uint32_t part) {
			std::memcpy(to, from, part);
			to += part;
		});
}

/// The current request failed, or all of it is in the train.
void DatagramQp::request_end()
{
	if (taken_request_ && req_.wqe.opcode == KIW_WR_WRITE)
		write_id_++;
	write_done_ = 0;
	taken_request_ = false;
}

/// Adds the next datagram of the current request. Returns the request's status, or -EAGAIN: the train goes first.
int DatagramQp::add()
{
	std::array<std::uint8_t, KIW_DGRAM_HDR_MAX> header{};
	std::uint32_t payload = 0;
	const std::uint32_t header_length = build_header(header.data(), payload);

	if (!header_length)
		return static_cast<int>(payload);
	const std::uint32_t length = header_length + payload + KIW_DGRAM_CRC_SIZE;
	if (!train_takes(length))
		return -EAGAIN;
	std::uint8_t *at = train_.bytes + train_.length;
	std::memcpy(at, header.data(), header_length);
	if (!copy_payload(at + header_length, write_done_, payload))
		return IB_WC_LOC_PROT_ERR;
	const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), at, header_length + payload));
	std::memcpy(at + header_length + payload, &crc, sizeof(crc));
	if (!train_.length) {
		train_.dest = req_.dest;
		train_.size = length;
	}
	train_.last = length;
	train_.length += length;
	const bool is_write = req_.wqe.opcode == KIW_WR_WRITE;
	if (is_write)
		write_done_ += payload;
	else
		msn_++;
	if (!is_write || write_done_ == req_.len)
		request_end();
	return IB_WC_SUCCESS;
}

/// Fills the train from the ring. Returns Sent::some if there may be more in it.
DatagramQp::Sent DatagramQp::fill()
{
	int status = IB_WC_SUCCESS;

	while (status == IB_WC_SUCCESS) {
		if (!taken_request_) {
			switch (kiw_sq_take(&core.sq, &req_)) {
			case KIW_TAKE_NONE:
				return Sent::all;
			case KIW_TAKE_ONE:
				taken_request_ = true;
				break;
			case KIW_TAKE_BAD:
				kiw_sq_done(&core.sq, req_.index, IB_WC_LOC_QP_OP_ERR);
				return Sent::some;
			case KIW_TAKE_RING:
				count(KIW_STAT_RING_ERRORS);
				return Sent::broken;
			}
		}
		status = add();
	}
	if (status != -EAGAIN) {
		kiw_sq_done(&core.sq, req_.index, static_cast<ib_wc_status>(status));
		request_end();
	}
	return Sent::some;
}

/// Sends so many bytes of the train, from the first unsent one. Returns 0 or UDP's errno value.
int DatagramQp::hand_over(UdPath &path, std::uint32_t n)
{
	iovec bytes = {.iov_base = train_.bytes + train_.sent, .iov_len = n};
	msghdr message{};

	message.msg_name = &path.to;
	message.msg_namelen = path.to.length();
	message.msg_iov = &bytes;
	message.msg_iovlen = 1;
	message.msg_control = path.control;
	message.msg_controllen = path.control_length;
	const ssize_t sent = sys::sendmsg(fd, &message, 0);
	if (sent < 0)
		return sent == -ENOBUFS ? ENOMEM : static_cast<int>(-sent);
	train_.sent += n;
	return 0;
}

/// Sends the rest of the train. If UDP refuses a train, for example because the path has a small MTU, the datagrams go
/// one after the other. Returns 0 or UDP's errno value.
int DatagramQp::push_by(UdPath &path)
{
	if (!train_.sent && train_.length > train_.size) {
		UdPath whole = path;

		whole.cut(static_cast<std::uint16_t>(train_.size));
		const int error = hand_over(whole, train_.length);
		if (!error || may_wait(error))
			return error;
		if (error == EINVAL || error == EMSGSIZE)
			train_most_ = train_.size - 1;
	}
	int error = 0;
	while (!error && train_.sent < train_.length)
		error = hand_over(path, std::min(train_.size, train_.length - train_.sent));
	return error;
}

/// Gives UDP the rest of the train. Returns the status of the train's requests, or -EAGAIN or -ENOMEM: the rest stays.
int DatagramQp::push()
{
	int error = 0;

	// UDP may refuse because what is known of the host's addresses is of yesterday.
	for (const Time age : {known_for, Time{0}}) {
		UdPath path;

		if (!find_ud_path(train_.dest, six_, age, path))
			return IB_WC_LOC_QP_OP_ERR;
		error = push_by(path);
		if (!error)
			return IB_WC_SUCCESS;
		if (may_wait(error))
			return -error;
	}
	// No route, or a packet filter drops it.
	return IBV_WC_GENERAL_ERR;
}

/// The train is gone, and with it all current requests but one that isn't in it. If UDP refused the train, also one
/// that is partly in it: all parts fail alike.
void DatagramQp::train_end(int status)
{
	if (status != IB_WC_SUCCESS && write_done_)
		request_end();
	const std::uint32_t end = taken_request_ ? req_.index : core.sq.next;
	for (std::uint32_t i = core.sq.done; i != end; i++)
		if (!kiw_swr(&core.sq, i)->done)
			kiw_sq_done(&core.sq, i, static_cast<ib_wc_status>(status));
	train_.length = train_.sent = 0;
}

/// Requests that UDP didn't get yet are forgotten.
void DatagramQp::unsend()
{
	train_.length = train_.sent = 0;
	request_end();
}

/// Sends a train. Returns Sent::some if there may be more to send.
DatagramQp::Sent DatagramQp::send_next(int &budget)
{
	const Sent sent = train_.sent ? Sent::some : fill();

	if (!train_.length) {
		--budget;
		return sent;
	}
	budget -= static_cast<int>(train_.length / train_.size + 1);
	const int status = push();
	if (status == -EAGAIN)
		return Sent::stalled;
	if (status == -ENOMEM)
		return Sent::starved;
	train_end(status);
	return sent;
}

DatagramQp::Sent DatagramQp::send_datagrams(int budget)
{
	kiw_sq &sq = core.sq;
	Sent sent = Sent::some;

	if (!train_.bytes) {
		train_.bytes = static_cast<std::uint8_t *>(std::malloc(UINT16_MAX));
		if (!train_.bytes)
			return Sent::starved;
	}
	kiw_sq_flag(&sq, KIW_RING_DRAINING);
	while (sent == Sent::some && budget > 0) {
		sent = send_next(budget);
		if ((sq.next - sq.done >= KIW_CQE_BATCH || sent != Sent::some) && !kiw_sq_complete(&sq))
			return Sent::broken;
		if (sent == Sent::all && kiw_sq_rest(&sq, 0)) {
			kiw_sq_flag(&sq, KIW_RING_DRAINING);
			sent = Sent::some;
		}
	}
	return sent;
}

} // namespace kiwu
