// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Endpoints: one TCP socket and one state machine each, from TCP's connect or accept through the MPA start-up to the
// end of the connection.
//
//	CONNECTING -> REPLY_WAIT ----------------------------------------------------.
//	REQUEST_WAIT -> REQUEST_READY -> REQUESTED -> REPLY_SEND -> RTR_WAIT -> OPEN -> CLOSING
//
// By number (number.cpp) there is no user: the attempts of one end begin in DIAL_WAIT, and the other decides by itself.
//
// and from everywhere to DEAD. A connection that has sent its FIN goes there by way of LINGER, which keeps the socket
// until the peer has acknowledged all that it was sent: TCP would reset a connection that is closed with bytes unread.
//
// What goes on without a call of the program runs in the understudy. What the user, which is rdma_cm's part above, has
// to hear is told by the functions of Upcalls, with the endpoint's lock held.
//
// References to an endpoint: its being alive, until it is DEAD; the user's; an inbox that a queue pair keeps; and the
// understudy's.
#pragma once

#include <cstdint>

#include "address.hpp"
#include "memory.hpp"
#include "proto/mpa.h"
#include "qp.hpp"
#include "sys.hpp"
#include "turn_lock.hpp"
#include "understudy.hpp"

namespace kiwu {

struct Endpoint;
struct Listener;

/// What the user hears of an endpoint. Each returns false if there is no memory, and is called again.
struct Upcalls {
	/// The attempt of an initiator is over; status: 0, or an errno value, and nothing will follow
	bool (*connected)(void *user, Endpoint &endpoint, int status);
	/// The connection of a responder is up.
	bool (*established)(void *user, Endpoint &endpoint);
	/// The connection has ended; nothing will follow.
	bool (*closed)(void *user, Endpoint &endpoint);
	/// A peer wants a connection; listener is the user of that. The new user, if there is one, has a reference.
	bool (*requested)(void *listener, Endpoint &endpoint);
};
inline constinit const Upcalls *upcalls = nullptr;

/// What a side wants of a connection
struct Wanted {
	std::uint16_t ird = 0, ord = 0;
	const void *private_data = nullptr;
	std::uint16_t length = 0;
};

/// What only the start-up needs
struct Startup {
	kiw_mpa_cfg cfg{};
	kiw_mpa_frame request{};
	kiw_mpa_result terms{};
	bool retried = false; // initiator: this is the attempt with revision 1
	bool reject = false;  // responder: the Reply is a rejection
	bool ready = false;   // responder: the Request is complete; under the listener's lock
	Time accepted = 0;
	std::uint16_t data_length = 0;
	std::uint16_t in_have = 0, out_length = 0, out_sent = 0;
	std::uint8_t data[KIW_MPA_PD_MAX] = {}; // initiator: the user's private data
	std::uint8_t in[KIW_MPA_FRAME_MAX] = {};
	std::uint8_t out[KIW_MPA_FRAME_MAX] = {};
};

struct Endpoint {
	enum class State : std::uint8_t {
		fresh,
		dial_wait,
		connecting,
		reply_wait,
		request_wait,
		request_ready,
		requested,
		reply_send,
		rtr_wait, // from here on the start-up is over
		open,
		closing,
		linger,
		dead,
	};
	enum class End : std::uint8_t { done, fin, reset };

	Watched watched;
	Inbox inbox;
	TurnLock lock;

	// All that follows under the lock
	State state = State::fresh;
	bool initiates = false;
	void *user = nullptr;
	int fd = -1;
	Address local, remote;
	std::uint8_t ird = 0, ord = 0;
	/// The peer's private data, valid while the user is told of the start-up
	const std::uint8_t *told = nullptr;
	std::uint16_t told_length = 0;

	Endpoint() noexcept;

	/// An initiator with a reference for its user. The socket is bound to the address and taken over on success.
	/// Returns 0 or an errno value: the user hears of nothing then.
	static int connect(void *user, Qp &qp, int socket, const Address &local, const Address &remote,
		const Wanted &wanted, Endpoint *&endpoint);
	/// The endpoint of a connection that TCP has accepted for a listener; takes the socket in any case.
	template <typename T = Endpoint>
	static void serve(Listener &listener, int socket);

	/// The user decides on a request. Returns 0 or an errno value, and the request is rejected then.
	int accept(Qp &qp, const Wanted &wanted);
	/// Returns 0, also where nobody is left to reject.
	int reject(const void *private_data, std::uint16_t length);
	/// Depths that the peer has asked for
	void asked(std::uint8_t &ird, std::uint8_t &ord) const;
	/// The user hears nothing any more, and gives its reference back. An attempt or an undecided request ends.
	void leave();
	/// The user closes the connection, in order unless something is under way.
	void disconnect();
	/// The queue pair goes.
	void lose_qp();

	static Endpoint &of(Watched &watched) { return reinterpret_cast<Endpoint &>(watched); }
	static Endpoint &of(Inbox &inbox) { return of(inbox.watched); }

protected:
	/// What a start-up without a user does
	struct Role {
		void (*run)(Endpoint &endpoint, std::uint32_t news);
		void (*leave)(Endpoint &endpoint); ///< it is over, one way or the other
		Watched::Release release;
	};

	explicit Endpoint(const Role &role) noexcept;
	template <typename T>
	static T *make();
	void release();

	static void on_event(Watched &watched, std::uint32_t what);
	static void on_release(Watched &watched);
	void begin_serving(Listener &listener, int socket);

	void run(std::uint32_t news);
	void run_connect();
	void run_accept();
	void run_open(std::uint32_t news);
	void run_linger();
	void configure();
	int compose_request();
	int dial();
	int redial();
	int dial_again();
	int tcp_connected();
	void connect_lost(int error);
	void reply_received(const kiw_mpa_frame &reply);
	void request_received();
	void tell_request();
	bool peer_waits() const;
	void compose_reply(kiw_mpa_frame &reply, const void *data, std::uint16_t length);
	int send_reply();
	void refuse(const void *data, std::uint16_t length);
	int push_frame();
	int pull_frame(kiw_mpa_kind kind, kiw_mpa_frame &frame);
	bool has_excess() const;
	void leave_listener();
	int bind_qp(Qp &qp, bool by_number = false);
	void drop_qp();
	int open(const kiw_mpa_result &terms);
	void establish();
	void begin_closing();
	void end(int status, End how);
	void owe_end(int status);
	void report();
	void begin_linger(Remains &remains);
	void close(bool reset);
	void limit(Time time);
	bool expired() const;
	void again_after(Time time);
	void await_acks();
	std::int64_t acked() const;
	bool stalled();
	std::uint32_t unacknowledged() const;

	enum : std::uint8_t { owed_connected = 1, owed_established = 2, owed_closed = 4 };

	bool announced_ = false; // the user was told, or is owed, a connection
	bool final_ = false;	 // the last that the user is to hear is told or owed
	bool streams_ = false;
	bool watches_ = false;
	bool ending_ = false; // one of endings
	bool alive_ = true;   // the reference for being alive is there
	std::uint8_t owed_ = 0;
	int status_ = 0;
	Qp *qp_ = nullptr; // reference held
	const Role *role_ = nullptr;
	Listener *listener_ = nullptr; // until the user has decided, reference held
	Startup *startup_ = nullptr;
	Time deadline_ = never;
	std::uint8_t refused_ = 0; // times that TCP has refused
	Time redial_at_ = never;
	std::int64_t acked_ = 0; // when the deadline was set
	Remains remains_;
	std::size_t remains_sent_ = 0;

private:
	friend struct Listener;
	Endpoint *next_waiting_ = nullptr; // under the listener's lock
	bool told_user_ = false;	   // likewise: the user knows, and hasn't decided
};

/// A listening socket, and the endpoints that it brings to its user
struct Listener {
	Watched watched;
	TurnLock lock; // inside of an endpoint's

	/// Makes an endpoint of a connection that TCP has accepted, as Endpoint::serve(); takes the socket in any case.
	using Serve = void (*)(Listener &listener, int socket);

	Listener() noexcept;

	/// Takes the socket over, which is bound, on success. Returns 0 or an errno value.
	static int open(void *user, int socket, int backlog, Serve serve, Listener *&listener);
	/// In a child of fork(): listeners are its parent's.
	static void forget();
	/// The user hears nothing any more, and gives its reference back. Requests that it knows stay.
	void leave();

	// For endpoints
	bool add(Endpoint &endpoint);
	void remove(Endpoint &endpoint);
	/// The Request of an endpoint is complete. Whether the user may be told of it now; if not, when to ask again.
	bool may_tell(Endpoint &endpoint, Time &again);
	bool tell(Endpoint &endpoint);

	static Listener &of(Watched &watched) { return reinterpret_cast<Listener &>(watched); }

private:
	void take_out(const Endpoint &endpoint);
	static void on_event(Watched &watched, std::uint32_t what);
	static void on_release(Watched &watched);
	void pass();

	void *user_ = nullptr;
	Serve serve_ = nullptr;
	int fd_ = -1;
	std::uint32_t waiting_ = 0, most_waiting_ = 0;
	std::uint32_t told_ = 0, most_told_ = 0;
	Endpoint *first_ = nullptr; // that wait, in the order in which TCP accepted them
};

/// Returns nullptr if there is no memory.
template <typename T>
T *Endpoint::make()
{
	auto made = kiw::make<T>();
	auto startup = kiw::make<Startup>();

	if (!made || !startup)
		return nullptr;
	made->startup_ = startup.release();
	return made.release();
}

template <typename T>
void Endpoint::serve(Listener &listener, int socket)
{
	if (T *made = make<T>())
		made->begin_serving(listener, socket);
	else
		sys::reset(socket);
}

} // namespace kiwu
