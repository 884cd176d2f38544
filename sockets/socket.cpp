// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <poll.h>
#include <sys/random.h>

#include "epoll.hpp"
#include "lock.hpp"
#include "poller.hpp"
#include "pool.hpp"
#include "real.hpp"
#include "rules.hpp"
#include "steward.hpp"
#include "watch.hpp"

namespace kiws {

namespace {

/// A beginning of a hello that stays one so long is a program's.
constexpr Time patience = 200 * millisecond;
/// The answer to ENTER may come to another process.
constexpr Time answer_time = 2 * millisecond;

Pool<Socket> pool;

/// A message of some octets of another: the pieces that hold them
class Part {
public:
	Part(const msghdr &message, std::size_t skip, std::size_t length) : message_(message)
	{
		for (std::size_t i = 0; i < message.msg_iovlen && length && count_ < most; i++) {
			const iovec &piece = message.msg_iov[i];

			if (skip >= piece.iov_len) {
				skip -= piece.iov_len;
				continue;
			}
			pieces_[count_].iov_base = static_cast<char *>(piece.iov_base) + skip;
			pieces_[count_].iov_len = std::min(length, piece.iov_len - skip);
			length -= pieces_[count_++].iov_len;
			skip = 0;
		}
		message_.msg_iov = pieces_;
		message_.msg_iovlen = count_;
	}
	Part(const Part &) = delete;
	Part &operator=(const Part &) = delete;
	msghdr &get() { return message_; }

private:
	// A longer message takes several calls.
	static constexpr std::size_t most = 64;

	msghdr message_;
	iovec pieces_[most];
	std::size_t count_ = 0;
};

std::size_t length_of(const msghdr &message)
{
	std::size_t length = 0;

	for (std::size_t i = 0; i < message.msg_iovlen; i++)
		length += message.msg_iov[i].iov_len;
	return length;
}

bool is_nonblocking(int fd, int flags)
{
	return (flags & MSG_DONTWAIT) || (real().fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/// When a blocking call of a socket ends, by SO_RCVTIMEO or SO_SNDTIMEO
Time end_of(int fd, int option)
{
	timeval time{};
	socklen_t size = sizeof(time);

	if (::getsockopt(fd, SOL_SOCKET, option, &time, &size) || (!time.tv_sec && !time.tv_usec))
		return forever;
	return now() + static_cast<Time>(time.tv_sec) * second + static_cast<Time>(time.tv_usec) * 1000;
}

} // namespace

Socket *Socket::make(Stream::Greeting greeting)
{
	Stream *stream = Stream::make(greeting);
	Socket *socket = stream ? pool.take() : nullptr;

	if (!socket) {
		if (stream)
			stream->put(nullptr);
		return nullptr;
	}
	static_cast<SocketState &>(*socket) = {};
	socket->stream_ = stream;
	socket->uses_.store(1, std::memory_order_release);
	return socket;
}

bool Socket::get()
{
	std::uint32_t uses = uses_.load(std::memory_order_relaxed);

	while (uses)
		if (uses_.compare_exchange_weak(uses, uses + 1, std::memory_order_acquire))
			return true;
	return false;
}

void Socket::put()
{
	if (uses_.fetch_sub(1, std::memory_order_acq_rel) > 1)
		return;
	stream_->put(ring_);
	pool.give(this);
}

// --- hello ---

bool Socket::say_hello(int fd)
{
	std::uint8_t octets[Hello::size];
	Stream &stream = *stream_;

	if (!stream.greeted) {
		Hello hello{.port = steward.port(peer.any.sa_family), .nonce = {}};

		if (::getrandom(hello.nonce.data(), hello.nonce.size(), 0) != static_cast<ssize_t>(hello.nonce.size()))
			hello.port = 0;
		if (!hello.port) {
			why = "this process can't listen by rdma_cm";
			stream.greeting = Stream::Greeting::done;
			return true;
		}
		nonce = hello.nonce;
		port = hello.port;
	}
	Hello{.port = port, .nonce = nonce}.write(octets);
	const ssize_t n =
		real().send(fd, octets + stream.greeted, Hello::size - stream.greeted, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return false; // not connected yet, or never; the program's own calls tell
	stream.greeted = static_cast<std::uint8_t>(stream.greeted + n);
	if (stream.greeted < Hello::size)
		return false;
	stream.greeting = Stream::Greeting::done;
	why = "the peer didn't dial";
	steward.expect(*this);
	holds_until_ = now() + rules().wait * millisecond;
	return true;
}

bool Socket::look_for(int fd)
{
	std::uint8_t octets[Hello::size];
	Hello hello{};
	const ssize_t n = real().recv(fd, octets, sizeof(octets), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR; // nothing is there; another error is the program's
	First first = n ? look_for_hello(octets, static_cast<std::size_t>(n), hello) : First::data;
	if (first == First::part) {
		const Time time = now();

		if (!waits_since_)
			waits_since_ = time;
		again_ = time + 5 * millisecond;
		if (time < waits_since_ + patience)
			return false;
		first = First::data;
	}
	waits_since_ = 0;
	again_ = forever;
	stream_->greeting = Stream::Greeting::done;
	why = first == First::data ? "the peer said no hello" : "the peer's hello is of another version";
	if (first == First::data)
		return true;
	(void)real().recv(fd, octets, sizeof(octets), MSG_DONTWAIT);
	if (first == First::hello) {
		nonce = hello.nonce;
		port = hello.port;
		why = "another process has the socket, too";
		socklen_t length = sizeof(peer), own_length = sizeof(own);
		invited_ = ::getpeername(fd, &peer.any, &length) == 0 && ::getsockname(fd, &own.any, &own_length) == 0;
		peer.unmap();
		own.unmap();
		accept();
	}
	return true;
}

void Socket::accept()
{
	if (!invited_ || stream_->holders > 1)
		return;
	invited_ = false;
	steward.dial(*this);
	holds_until_ = dial_end;
}

bool Socket::greet(int fd)
{
	switch (stream_->greeting) {
	case Stream::Greeting::unsent:
		return say_hello(fd);
	case Stream::Greeting::unread:
		return look_for(fd);
	default:
		return true;
	}
}

// --- the lane ---

bool Socket::on_lane() const
{
	const Incoming &in = stream_->in;

	return in.entered() != never && in.offset() >= in.entered() && !(in.has_left() && in.waiting() == 0);
}

void Socket::progress()
{
	if (!link)
		return;
	const bool changed = link->progress();
	const Incoming &in = stream_->in;
	const Outgoing &out = stream_->out;

	if (link->gone && !lost &&
		((in.entered() != never && !in.has_left() && !in.ends()) || (!out.on_tcp() && !finished))) {
		lost = true;
		wake();
	}
	if (!changed)
		return;
	changes++;
	if (watchers)
		ring(*this);
}

void Socket::disarm(const Set *looks)
{
	link->disarm();
	ring_sets(*this, looks);
}

void Socket::wake()
{
	changes++;
	if (watchers)
		ring(*this);
	ring_sets(*this, nullptr);
}

void Socket::finish()
{
	finished = true;
	if (link && !link->gone)
		link->finish();
}

void Socket::try_lane()
{
	accept();
	if (link && link->up && !link->gone && stream_->out.entered() == never && stream_->holders == 1 && !finished)
		link->enter();
}

bool Socket::holds() const
{
	return (dial == Dial::expects || dial == Dial::dials || (link && !link->up && !link->gone)) &&
	       now() < holds_until_;
}

bool Socket::take_hello(int fd)
{
	if (stream_->greeting == Stream::Greeting::unread)
		(void)look_for(fd);
	// Of a part the rest has to come.
	if (stream_->greeting == Stream::Greeting::unsent && !stream_->greeted)
		stream_->greeting = Stream::Greeting::done;
	invited_ = false;
	return stream_->greeting != Stream::Greeting::unread;
}

bool Socket::leave()
{
	if (dial == Dial::expects || dial == Dial::dials)
		steward.forget(*this, "the program needs the socket as it is");
	progress();
	if (!link || link->gone)
		return true;
	if (stream_->out.entered() == never)
		link->enter();
	if (stream_->out.on_lane()) {
		link->leave();
		wake();
	}
	if (stream_->in.has_left())
		return stream_->out.on_tcp();
	if (!asked_ && !stream_->in.ends())
		link->ask_to_leave();
	asked_ = true;
	return false;
}

bool Socket::is_plain() const
{
	const Incoming &in = stream_->in;

	return stream_->greeting == Stream::Greeting::done && !invited_ && !link && dial != Dial::expects &&
	       dial != Dial::dials && !stream_->broken &&
	       (in.entered() == never || (in.has_left() && in.waiting() == 0));
}

short Socket::ready(short events)
{
	const Incoming &in = stream_->in;
	const Outgoing &out = stream_->out;
	short found = 0;

	if (stream_->greeting != Stream::Greeting::unread)
		again_ = forever;
	if (again_ == forever && (events & (POLLOUT | POLLWRNORM))) {
		if (holds())
			again_ = holds_until_;
		else if (out.has_left() && !out.on_tcp())
			again_ = now() + answer_time;
	}
	if (stream_->broken)
		return static_cast<short>(POLLERR | POLLHUP | (events & (POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM)));
	if (in.waiting() || in.ended() || stopped_)
		found |= POLLIN | POLLRDNORM;
	if (in.ends())
		found |= POLLRDHUP;
	if (out.on_lane() && !finished && link && link->room() >= Stream::ring_size / 4)
		found |= POLLOUT | POLLWRNORM;
	if (lost && on_lane() && !in.waiting() && !in.ends())
		found |= POLLIN | POLLRDNORM | POLLHUP | POLLERR;
	if (!out.on_tcp() && !finished && (lost || (link && link->mute)))
		found |= POLLOUT | POLLWRNORM | POLLERR;
	return static_cast<short>(found & (events | POLLERR | POLLHUP));
}

short Socket::of_tcp(short events) const
{
	const Outgoing &out = stream_->out;
	int asked = events & (POLLPRI | POLLRDHUP);

	if (!on_lane() && stream_->in.from_tcp() && !waits_since_ && !(tcp_ended_ && lane_tells()))
		asked |= events & (POLLIN | POLLRDNORM);
	if (out.on_tcp() && !holds())
		asked |= events & (POLLOUT | POLLWRNORM);
	// Its end is of interest, once.
	return static_cast<short>(tcp_ended_ ? asked & ~POLLRDHUP : asked | POLLRDHUP);
}

short Socket::translate(short reported)
{
	if (reported & (POLLRDHUP | POLLHUP | POLLERR))
		tcp_ended_ = true;
	if (lane_tells() && !(reported & POLLERR))
		reported =
			static_cast<short>(reported & ~(POLLRDHUP | POLLHUP | (tcp_ended_ ? POLLIN | POLLRDNORM : 0)));
	return reported;
}

// --- fork ---

void Socket::hold()
{
	pool.lock().lock();
}

void Socket::release()
{
	pool.lock().unlock();
}

void Socket::bequeath(int fd)
{
	const Locked locked(*stream_);

	// Once for all its descriptors
	if (first_fd_ < 0 || first_fd_ == fd) {
		first_fd_ = fd;
		stream_->holders++;
		stream_->users++;
	}
}

void Socket::inherit()
{
	link = nullptr;
	id = nullptr;
	watchers = 0;
	members = nullptr;
	listed = false;
	first_fd_ = -1;
	// Those in the table, and the caller's: there is no other thread.
	uses_ = descriptors + 1;
	if (dial == Dial::dials || dial == Dial::expects || dial == Dial::done)
		dial = Dial::failed;
}

// --- receiving ---

void Socket::taken(std::size_t octets)
{
	const bool before = on_lane();

	stream_->in.taken(octets);
	// What comes next, comes by the other way.
	if (on_lane() != before)
		wake();
}

ssize_t Socket::take_ring(msghdr &message, std::size_t done, std::size_t length, int flags)
{
	const Incoming &in = stream_->in;
	Part part(message, done, std::min(length, in.waiting()));
	std::size_t copied = 0;

	for (std::size_t i = 0; i < part.get().msg_iovlen; i++) {
		const iovec &piece = part.get().msg_iov[i];

		if (!(flags & MSG_TRUNC))
			stream_->peek(piece.iov_base, copied, piece.iov_len);
		copied += piece.iov_len;
	}
	if (!(flags & MSG_PEEK)) {
		taken(copied);
		received.lane += copied;
		if (link)
			link->flush();
	}
	return static_cast<ssize_t>(copied);
}

ssize_t Socket::take_tcp(int fd, msghdr &message, std::size_t done, std::size_t length, int flags)
{
	const Incoming &in = stream_->in;
	Part part(message, done, static_cast<std::size_t>(std::min<std::uint64_t>(length, in.from_tcp())));
	const ssize_t n = real().recvmsg(fd, &part.get(), (flags & ~MSG_WAITALL) | MSG_DONTWAIT);

	if (n < 0)
		return -errno;
	message.msg_controllen = part.get().msg_controllen;
	message.msg_namelen = part.get().msg_namelen;
	message.msg_flags = part.get().msg_flags;
	if (!(flags & MSG_PEEK)) {
		taken(static_cast<std::size_t>(n));
		received.tcp += static_cast<std::size_t>(n);
	}
	return n;
}

ssize_t Socket::take(int fd, msghdr &message, std::size_t done, std::size_t length, int flags)
{
	const Incoming &in = stream_->in;

	if (stream_->broken)
		return -ECONNRESET;
	if (!greet(fd) && stream_->greeting == Stream::Greeting::unread)
		return -EAGAIN;
	progress();
	if (in.waiting()) {
		message.msg_controllen = 0;
		message.msg_namelen = 0;
		message.msg_flags = 0;
		return take_ring(message, done, length, flags);
	}
	if (in.ended())
		return 0;
	if (!on_lane()) {
		const ssize_t n = take_tcp(fd, message, done, length, flags);

		// A lane tells the end; TCP's own may be told sooner than what the lane still carries.
		if (n != 0 || !length || !lane_tells())
			return n;
		tcp_ended_ = true;
		return -EAGAIN;
	}
	if (stopped_)
		return 0;
	if (!lost)
		return -EAGAIN;
	// What it carried may be lost. TCP tells of a reset.
	char octet = 0;
	if (real().recv(fd, &octet, sizeof(octet), MSG_DONTWAIT | MSG_PEEK) < 0 && errno != EAGAIN)
		return -errno;
	return -ECONNRESET;
}

ssize_t Socket::receive(int fd, msghdr &message, int flags)
{
	const std::size_t length = length_of(message);
	const bool all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
	std::size_t done = 0;
	Time end = 0;

	if (flags & (MSG_OOB | MSG_ERRQUEUE)) {
		const ssize_t n = real().recvmsg(fd, &message, flags);

		return n < 0 ? -errno : n;
	}
	for (;;) {
		ssize_t n = -EAGAIN;
		{
			Locked locked(*stream_);

			if (locked)
				n = take(fd, message, done, length - done, flags);
		}
		if (n > 0)
			done += static_cast<std::size_t>(n);
		if (n >= 0 && (!all || n == 0 || done == length))
			return static_cast<ssize_t>(done);
		if (n >= 0)
			continue;
		if (n != -EAGAIN || is_nonblocking(fd, flags))
			return done ? static_cast<ssize_t>(done) : n;
		if (!end)
			end = end_of(fd, SO_RCVTIMEO);
		const int error = wait_for(fd, POLLIN, end);
		if (error)
			return done ? static_cast<ssize_t>(done) : -error;
	}
}

// --- sending ---

ssize_t Socket::give(int fd, const msghdr &message, std::size_t done, std::size_t length, int flags)
{
	const Outgoing &out = stream_->out;

	if (stream_->broken)
		return -ECONNRESET;
	if (!greet(fd) && stream_->greeting == Stream::Greeting::unsent)
		return -EAGAIN;
	progress();
	try_lane();
	if (holds()) {
		again_ = holds_until_;
		return -EAGAIN;
	}
	if (out.on_lane() && !finished) {
		if (lost || !link || link->mute)
			return -ECONNRESET;
		const std::size_t n = std::min(length, link->room());
		if (!n)
			return length ? -EAGAIN : 0;
		link->send(message.msg_iov, done, n);
		sent.lane += n;
		return static_cast<ssize_t>(n);
	}
	if (!out.on_tcp() && !finished) {
		if (lost || (link && link->gone))
			return -ECONNRESET;
		again_ = now() + answer_time;
		return -EAGAIN;
	}
	Part part(message, done, length);
	const ssize_t n = real().sendmsg(fd, &part.get(), flags | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	stream_->out.sent(static_cast<std::size_t>(n));
	sent.tcp += static_cast<std::size_t>(n);
	return n;
}

ssize_t Socket::send(int fd, const msghdr &message, int flags)
{
	const std::size_t length = length_of(message);
	std::size_t done = 0;
	Time end = 0;

	do {
		ssize_t n = -EAGAIN;
		{
			Locked locked(*stream_);

			if (locked)
				n = give(fd, message, done, length - done, flags);
		}
		if (n >= 0) {
			done += static_cast<std::size_t>(n);
			continue;
		}
		if (n != -EAGAIN || is_nonblocking(fd, flags))
			return done ? static_cast<ssize_t>(done) : n;
		if (!end)
			end = end_of(fd, SO_SNDTIMEO);
		const int error = wait_for(fd, POLLOUT, end);
		if (error)
			return done ? static_cast<ssize_t>(done) : -error;
	} while (done < length);
	return static_cast<ssize_t>(done);
}

} // namespace kiws
