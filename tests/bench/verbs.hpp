// SPDX-License-Identifier: GPL-2.0
// Queue pairs for the measuring programs: datagram queue pairs, those that peers write through, and connected ones for
// comparison.
#ifndef BENCH_VERBS_HPP
#define BENCH_VERBS_HPP

#include "socket.hpp"

#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <kiwarpdv.h>
#include <memory>
#include <optional>
#include <rdma/rdma_cma.h>
#include <string>
#include <vector>

namespace bench {

/// How a message gets from one end to the other
enum class Kind : std::uint8_t {
	ud_send,  ///< a Send in a datagram
	record,	  ///< RDMA Write over datagrams, recorded at the target
	rc_send,  ///< a Send through a connection
	rc_write, ///< RDMA Write through a connection
};

constexpr std::uint32_t q_key = 0x1357;
/// Octets of the header in front of a datagram that is received
constexpr std::uint32_t grh = 40;
/// Octets of messages that are copied when they are posted
constexpr std::uint32_t most_inline = 128;

constexpr bool connected(Kind kind)
{
	return kind == Kind::rc_send || kind == Kind::rc_write;
}

template <typename T, int (*close)(T *)>
struct Closer {
	void operator()(T *object) const { (void)close(object); }
};
template <typename T, int (*close)(T *)>
using Owned = std::unique_ptr<T, Closer<T, close>>;

/// One of a device's own
struct Address {
	ibv_gid gid;
	std::uint8_t slot;
};

struct Shape {
	Kind kind = Kind::ud_send;
	/// Of the memory that is registered
	std::size_t octets = 0;
	std::uint32_t sends = 1;
	std::uint32_t receives = 1;
	std::uint32_t inlines = most_inline;
	/// The number of a datagram queue pair, 0 for any
	std::uint32_t number = 0;
	/// Milliseconds until an incomplete message is recorded, 0 for the default
	std::uint32_t record_timeout = 0;
	/// Of a connection: receives come out of a shared receive queue
	bool srq = false;
	/// Of a connection: requests are posted by ibv_wr_*, and completions taken by ibv_start_poll
	bool extended = false;
};

/// What a peer has to know of an end
struct Place {
	ibv_gid gid;
	std::uint32_t number;
	std::uint32_t rkey;
	std::uint64_t address;
};

/// A queue pair with its queues, and memory that is the peer's to write
class End {
public:
	/// A datagram queue pair, ready to send
	End(ibv_context *context, const Shape &shape);
	/// That of a connection, which isn't made yet
	End(rdma_cm_id *id, const Shape &shape);
	~End();
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	[[nodiscard]] Place place() const;
	void set_peer(const Place &peer);
	[[nodiscard]] const Place &peer() const { return peer_; }

	[[nodiscard]] char *at(std::size_t offset) { return memory_.data() + offset; }
	void receive(std::uint64_t id, std::size_t offset, std::uint32_t octets);
	/// Has a datagram queue pair get what is broadcast, too.
	void join_broadcast();
	/// What it sends from now on is for all that have joined.
	void send_to_all();

	/// Of messages that are posted as one list: of the memory, and for Writes to where in that of the peer
	struct Message {
		std::size_t from;
		std::uint32_t octets;
		std::size_t to;
	};
	/// The last of them completes, for all.
	void post(Kind kind, const std::vector<Message> &list);
	/// A Send of up to so many octets as go inline, which are the caller's again
	void send_inline(const void *octets, std::uint32_t length) { send_to(ah_.get(), peer_.number, octets, length); }
	void send_to(ibv_ah *ah, std::uint32_t number, const void *octets, std::uint32_t length);
	/// Of what was posted, what has not completed
	[[nodiscard]] std::uint32_t under_way() const { return under_way_; }
	/// Takes the completions of what was posted.
	void reap();

	/// Receives that have completed: how many, up to so many. Waits for one if a time is given.
	int received(ibv_wc *wc, int max, std::int64_t microseconds = 0);
	/// Likewise messages that peers have written, each with what has come of it: some of them, returns how many.
	std::uint64_t recorded(const std::function<void(const kiwarpdv_record &)> &take, std::int64_t microseconds = 0);
	[[nodiscard]] ibv_pd *pd() const { return pd_.get(); }
	/// An address handle of that address, for the caller to destroy
	[[nodiscard]] ibv_ah *make_ah(const ibv_gid &gid) const;

private:
	void make_queues(ibv_context *context);
	void make_datagram_qp();
	void make_connected_qp();
	[[nodiscard]] Owned<ibv_cq, ibv_destroy_cq> make_extended_cq(std::uint32_t entries, std::uint64_t flags) const;
	/// One of the list, by the calls that build requests
	void build(ibv_qp_ex *ex, Kind kind, const Message &message);
	int poll(ibv_cq *cq, int max, ibv_wc *wc, std::int64_t microseconds) const;

	Shape shape_;
	std::vector<char> memory_;
	ibv_context *context_;
	Owned<ibv_pd, ibv_dealloc_pd> pd_;
	Owned<ibv_mr, ibv_dereg_mr> mr_;
	Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
	Owned<ibv_cq, ibv_destroy_cq> send_cq_, recv_cq_;
	Owned<ibv_srq, ibv_destroy_srq> srq_;
	Owned<ibv_qp, ibv_destroy_qp> own_qp_;
	Owned<ibv_ah, ibv_destroy_ah> ah_;
	rdma_cm_id *id_ = nullptr;
	ibv_qp *qp_ = nullptr;
	Address address_{};
	Place peer_{};
	std::uint32_t under_way_ = 0;
	bool joined_ = false;
	std::vector<ibv_sge> sges_;
	std::vector<ibv_send_wr> requests_;
};

/// The device of that name; throws if there is none.
ibv_context *open_device(const std::string &name);
/// Its address of IPv4; throws if it has none.
Address own_address(ibv_context *context);
/// For calls that return an errno value: throws it.
void need(int error, const char *what);
/// Throws if that is no success.
void good(ibv_wc_status status);

/// A connection by rdma_cm; calls return when it is there.
class Connection {
public:
	/// Listens there.
	static Connection listener(sockaddr_in address);
	/// Finds the way there.
	static Connection towards(sockaddr_in address);
	/// The next that asks for one
	[[nodiscard]] Connection request() const;
	void accept() const;
	void connect() const;
	[[nodiscard]] rdma_cm_id *id() const { return id_.get(); }

private:
	Owned<rdma_cm_id, rdma_destroy_id> id_;
};

/// An end, and what it hangs on
struct Meeting {
	std::optional<Connection> listener, connection;
	std::unique_ptr<End> end;
};
using Prepare = std::function<void(End &)>;

/// Makes the queue pair, and the connection if it is for one; prepares it before anything can come; and tells either
/// end of the other. @p address is where the server is on that device.
Meeting meet(const std::string &device, const sockaddr_in &address, const Socket &control, bool server,
	const Shape &shape, const Prepare &prepare);

} // namespace bench

#endif
