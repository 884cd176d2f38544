// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "poller.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "real.hpp"
#include "table.hpp"
#include "watch.hpp"

namespace kiws {

namespace {

/// Without memory nobody rings, and the sockets are looked at so often.
constexpr Time blind = 10 * millisecond;

/// Room for some of a kind without an allocation
template <typename T, std::size_t few>
class Room {
public:
	explicit Room(std::size_t n) : all_(n > few ? static_cast<T *>(std::calloc(n, sizeof(Place))) : few_) {}
	~Room()
	{
		if (all_ != few_)
			std::free(all_);
	}
	Room(const Room &) = delete;
	Room &operator=(const Room &) = delete;
	explicit operator bool() const { return all_; }
	T &operator[](std::size_t i) { return all_[i]; }
	T *get() { return all_; }

private:
	struct Place {
		T value;
	};

	T few_[few]{};
	T *all_;
};

/// One call of poll() in which sockets take part
class Poll {
public:
	Poll(pollfd *fds, nfds_t n) : fds_(fds), n_(n), sockets_(n), kernel_(2 * n + 1) {}
	~Poll()
	{
		if (watch_)
			watch_->end();
		for (nfds_t i = 0; sockets_ && i < n_; i++)
			if (sockets_[i])
				sockets_[i]->put();
	}
	Poll(const Poll &) = delete;
	Poll &operator=(const Poll &) = delete;

	/// Returns false if none takes part.
	bool find();
	int run(Time end, const sigset_t *mask);

private:
	bool look(bool sleeps);
	bool look_at(Socket &socket, nfds_t i, bool sleeps);
	int count();
	bool count_one(Socket &socket, pollfd &fd, short reported);

	pollfd *const fds_;
	const nfds_t n_;
	Room<Socket *, 8> sockets_;
	Room<pollfd, 17> kernel_;
	nfds_t used_ = 0;
	Watch *watch_ = nullptr;
	Time again_ = forever;
	bool once_more_ = false;
};

bool Poll::find()
{
	bool any = false;

	if (!sockets_ || !kernel_)
		return false;
	for (nfds_t i = 0; i < n_; i++)
		if (const Use use = table.find(fds_[i].fd); use && use->get()) {
			sockets_[i] = &*use;
			any = true;
		}
	return any;
}

/// Returns whether the lane has something for the program.
bool Poll::look_at(Socket &socket, nfds_t i, bool sleeps)
{
	const Locked locked(socket.stream());

	if (!locked) {
		// A signal handler has interrupted a call for it: nothing is to be had from here.
		again_ = 0;
		return false;
	}
	if (sleeps) {
		if (!watch_ || !watch_->add(socket))
			again_ = std::min(again_, now() + blind);
		if (socket.link && !socket.link->gone) {
			socket.link->arm();
			kernel_[used_++] = {.fd = socket.link->fd(), .events = POLLIN, .revents = 0};
		}
	}
	(void)socket.greet(fds_[i].fd);
	socket.progress();
	socket.try_lane();
	const short ready = socket.ready(fds_[i].events);
	again_ = std::min(again_, socket.look_again());
	kernel_[i].events = socket.of_tcp(fds_[i].events);
	if (!kernel_[i].events)
		kernel_[i].fd = -1;
	return ready;
}

/// Prepares what the kernel is asked. Returns whether it is only asked, and nothing waits.
bool Poll::look(bool sleeps)
{
	bool found = false;

	used_ = n_;
	again_ = forever;
	if (sleeps)
		watch_ = Watch::mine();
	for (nfds_t i = 0; i < n_; i++) {
		kernel_[i] = {.fd = fds_[i].fd, .events = fds_[i].events, .revents = 0};
		if (sockets_[i] && look_at(*sockets_[i], i, sleeps))
			found = true;
	}
	if (watch_)
		kernel_[used_++] = {.fd = watch_->fd(), .events = POLLIN, .revents = 0};
	return found;
}

/// Returns whether the program is told something of it.
bool Poll::count_one(Socket &socket, pollfd &fd, short reported)
{
	const Locked locked(socket.stream());
	const bool greets = socket.stream().greeting != Stream::Greeting::done;

	if (!locked) {
		fd.revents = reported;
		return reported;
	}
	if (socket.link && !socket.link->gone)
		socket.disarm(nullptr);
	socket.progress();
	if (greets && reported) {
		(void)socket.greet(fd.fd);
		// What TCP has reported may be the hello.
		if (socket.stream().greeting == Stream::Greeting::done)
			once_more_ = true;
		if (once_more_ || socket.stream().greeting == Stream::Greeting::unread)
			reported = static_cast<short>(reported & ~(POLLIN | POLLRDNORM));
	}
	reported = socket.translate(reported);
	fd.revents =
		static_cast<short>((reported & (fd.events | POLLERR | POLLHUP | POLLNVAL)) | socket.ready(fd.events));
	return fd.revents;
}

int Poll::count()
{
	int n = 0;

	for (nfds_t i = 0; i < n_; i++) {
		fds_[i].revents = kernel_[i].fd < 0 ? short(0) : kernel_[i].revents;
		if (sockets_[i] ? count_one(*sockets_[i], fds_[i], fds_[i].revents) : fds_[i].revents)
			n++;
	}
	return n;
}

int Poll::run(Time end, const sigset_t *mask)
{
	for (;;) {
		const bool over = end != forever && now() >= end;
		const bool asks = look(false) || over || !again_ || look(true);
		const Time wakes = std::min(end, again_);
		timespec time{};

		if (!asks && wakes != forever)
			time = until(wakes);
		const int result = real().ppoll(kernel_.get(), used_, asks || wakes != forever ? &time : nullptr, mask);
		const int error = errno;
		if (watch_)
			watch_->end();
		watch_ = nullptr;
		if (result < 0) {
			errno = error;
			return -1;
		}
		const int n = count();
		if (n || ((over || !again_) && !once_more_))
			return n;
		once_more_ = false;
	}
}

} // namespace

int poll_until(pollfd *fds, nfds_t n, Time end, const sigset_t *mask)
{
	Poll poll(fds, n);

	if (poll.find())
		return poll.run(end, mask);
	const timespec time = end == forever ? timespec{} : until(end);
	return real().ppoll(fds, n, end == forever ? nullptr : &time, mask);
}

int wait_for(int fd, short events, Time end)
{
	pollfd one = {.fd = fd, .events = events, .revents = 0};
	const int n = poll_until(&one, 1, end, nullptr);

	if (n < 0)
		return errno;
	return n ? 0 : EAGAIN;
}

} // namespace kiws
