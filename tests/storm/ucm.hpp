// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The commands of rdma_cm as the kernel takes them, by ids that are numbers: those of librdmacm are memory, and
// librdmacm would be the first to stumble over an id that another thread destroys. All calls return 0 or errno.
#pragma once

#include <cstdint>
#include <span>
#include <sys/socket.h>

namespace storm {

class Ucm {
public:
	Ucm();
	~Ucm();
	Ucm(const Ucm &) = delete;
	Ucm &operator=(const Ucm &) = delete;

	/// What connect() and accept() tell of their side
	struct Param {
		std::uint32_t qp_num;
		std::uint8_t responder_resources;
		std::uint8_t initiator_depth;
		std::uint8_t private_data_len;
	};
	struct Event {
		std::uint32_t type;
		std::uint32_t id;
	};

	int create(std::uint32_t &id) const;
	int destroy(std::uint32_t id) const;
	int bind(std::uint32_t id, const sockaddr_storage &address) const;
	int resolve_addr(std::uint32_t id, const sockaddr_storage &from, const sockaddr_storage &to) const;
	int resolve_route(std::uint32_t id) const;
	int listen(std::uint32_t id, std::uint32_t backlog) const;
	int connect(std::uint32_t id, const Param &param) const;
	int accept(std::uint32_t id, const Param &param) const;
	int reject(std::uint32_t id, std::uint8_t private_data_len) const;
	int disconnect(std::uint32_t id) const;
	int init_qp_attr(std::uint32_t id, std::uint32_t state) const;
	int query(std::uint32_t id, std::uint32_t option) const;
	int set_option(
		std::uint32_t id, std::uint32_t level, std::uint32_t name, std::span<const std::uint8_t> value) const;
	/// From another file to this one
	int migrate(std::uint32_t id, const Ucm &from) const;
	/// EAGAIN where there is none.
	int get_event(Event &event) const;

private:
	int fd_;
};

} // namespace storm
