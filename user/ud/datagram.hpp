// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagram queue pairs: a UDP socket in place of a stream (datagram.md). Its port is the queue pair's number. No
// datagram is ever answered, and none ends the queue pair.
//
// The lock is that of a queue pair; the thread that takes it does what is due. Sending is in send.cpp, receiving in
// receive.cpp, memberships of groups in group.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <infiniband/verbs.h>

#include "kiwarp-abi.h"
#include "proto/dgram.h"
#include "qp.hpp"
#include "record.hpp"
#include "session/sq.h"

namespace kiwu {

struct DatagramQp;
struct UdPath;

/// Datagrams for one call of UDP: of one length, but for the last, and to one destination
struct Train {
	std::uint8_t *bytes = nullptr; // owned
	std::uint32_t length = 0;      // 0: all else is invalid
	std::uint32_t sent = 0;
	std::uint32_t size = 0, last = 0; // of each datagram, and of the last one
	kiw_ud_dest dest{};
};

/// An attachment to a group. The first of a group has the socket, which is bound to the group and the port of groups.
struct Group {
	Watched watched;
	DatagramQp *qp = nullptr; // reference held
	Group *next = nullptr;
	ibv_gid gid{};
	std::uint16_t lid = 0;
	int fd = -1;

	Group() noexcept;
};

/// In a child of fork(): attachments are its parent's.
void forget_groups();

struct DatagramQp : Qp {
	DatagramQp() noexcept;

	/// Gives it its socket, on a port of the program or on any, and by that its number. Returns 0 or an errno
	/// value.
	int open(const kiw_create_qp_req &request);
	/// As Qp::make(), behind open().
	int make(std::uint32_t send_stride, std::uint32_t recv_stride);
	/// No datagram is received or sent any more.
	void close();

	int modify(const ibv_qp_attr &attr, int mask);
	/// What the program has set; secrets only where the mask names them
	void query(ibv_qp_attr &attr, int mask);

	/// Return 0 or an errno value.
	int join(const ibv_gid &gid, std::uint16_t lid);
	int leave(const ibv_gid &gid, std::uint16_t lid);
	bool is_member();

	static DatagramQp &of(Qp &qp) { return static_cast<DatagramQp &>(qp); }

private:
	static const Kind kind_of_datagrams;
	static void release(Watched &watched);

	int ring(bool send);
	void settle_datagrams(bool receive);
	void enter_error();
	void flush();
	void break_down();
	void look_at_records();

	// send.cpp
	enum class Sent : std::uint8_t { all, some, starved, stalled, broken };
	Sent send_datagrams(int budget);
	Sent send_next(int &budget);
	Sent fill();
	int add();
	std::uint32_t build_header(std::uint8_t *header, std::uint32_t &payload);
	bool train_takes(std::uint32_t length) const;
	bool copy_payload(std::uint8_t *to, std::uint32_t offset, std::uint32_t n);
	int push();
	int push_by(UdPath &path);
	int hand_over(UdPath &path, std::uint32_t n);
	void train_end(int status);
	void request_end();
	void unsend();

	// receive.cpp
	bool receive_datagrams();
	bool receive_from(int socket, bool own);
	struct Packet;
	bool receive(const Packet &packet);
	bool deliver(const Packet &packet, const kiw_dgram &d);
	bool complete(const Packet &packet, const kiw_dgram &d);
	kiw_take take_request();

	ibv_qp_state state_ = IBV_QPS_RESET;
	std::uint32_t qkey_ = 0, sq_psn_ = 0;
	bool six_ = false; // the socket is one of IPv6
	kiw_recv_req recv_{};
	kiw_send_req req_{};
	bool taken_request_ = false; // and not all of it is in the train
	bool more_datagrams_ = false;
	Train train_;
	std::uint32_t train_most_ = UINT16_MAX; // bytes of a datagram that UDP takes in trains
	std::uint32_t seg_size_ = 0;
	std::uint32_t write_id_ = 0, write_done_ = 0;
	std::uint32_t msn_ = 0;
	Group *groups_ = nullptr;
	Records *records_ = nullptr; // owned; of a target
};

} // namespace kiwu
