// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The order in which the user is told of requests is that in which TCP accepted the connections of a host: programs
// that open several at once expect the other side to see them in the order that they were made. A Request that is not
// complete holds up later ones for a moment only.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/resource.h>

#include "count.hpp"
#include "endpoint.hpp"
#include "memory.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

// Connections to accept before others get their turn
constexpr int accept_batch = 64;
// Connections that TCP keeps until the understudy takes them: TCP answers a SYN beyond them no sooner than when it
// comes again, in a second
constexpr int least_backlog = 128;
// A complete Request waits this long for those of connections that the same host made earlier, from TCP's accept of
// those.
constexpr Time order_patience = 20 * millisecond;
// After which something is tried again that failed for want of memory or descriptors
constexpr Time pause = 20 * millisecond;

// Connections of all listeners that nobody has been told of
constinit std::atomic<std::uint32_t> strangers = 0;

/// Strangers have at most a quarter of the process's descriptors; TCP keeps the others.
bool leaves_descriptors()
{
	rlimit limit{};

	return ::getrlimit(RLIMIT_NOFILE, &limit) || strangers.load(std::memory_order_relaxed) < limit.rlim_cur / 4;
}

} // namespace

Listener::Listener() noexcept : watched(on_event, on_release) {}

void Listener::on_release(Watched &watched)
{
	kiw::destroy(&of(watched));
}

int Listener::open(void *user, int socket, int backlog, Serve serve, Listener *&listener)
{
	auto made = kiw::make<Listener>();

	if (!made)
		return ENOMEM;
	backlog = std::clamp(backlog, 1, 1 << 16);
	made->user_ = user;
	made->serve_ = serve;
	made->fd_ = socket;
	made->most_waiting_ = 4 * static_cast<std::uint32_t>(backlog) + 64;
	made->most_told_ = static_cast<std::uint32_t>(backlog);
	if (const int error = sys::listen(socket, std::max(backlog, least_backlog)))
		return -error;
	if (const int error = understudy::watch(made->watched, socket, EPOLLIN))
		return error;
	listener = made.release();
	return 0;
}

void Listener::leave()
{
	{
		Turn turn(lock);

		user_ = nullptr;
		understudy::unwatch(watched, fd_);
		sys::close(fd_);
		fd_ = -1;
		for (Endpoint *each = first_; each; each = each->next_waiting_)
			each->inbox.post(stream_aborted);
	}
	understudy::forget(watched);
	watched.put();
}

void Listener::on_event(Watched &watched, std::uint32_t)
{
	Listener &l = of(watched);

	for (int i = 0; i < accept_batch; i++) {
		l.lock.lock();
		int socket = -EAGAIN;
		if (l.fd_ >= 0)
			socket = leaves_descriptors() ? sys::accept(l.fd_, SOCK_CLOEXEC | SOCK_NONBLOCK) : -EMFILE;
		l.lock.unlock();
		if (socket == -EAGAIN)
			return;
		if (socket >= 0) {
			l.serve_(l, socket);
		} else if (socket != -ECONNABORTED && socket != -EINTR) {
			// No memory, or no descriptor: TCP keeps them.
			understudy::at(watched, now() + pause);
			return;
		}
	}
	understudy::queue(watched);
}

bool Listener::add(Endpoint &endpoint)
{
	Turn turn(lock);
	Endpoint **link = &first_;

	if (!user_ || waiting_ >= most_waiting_)
		return false;
	while (*link)
		link = &(*link)->next_waiting_;
	*link = &endpoint;
	endpoint.next_waiting_ = nullptr;
	waiting_++;
	strangers.fetch_add(1, std::memory_order_relaxed);
	return true;
}

/// Takes it out of those that wait, if it is one of them.
void Listener::take_out(const Endpoint &endpoint)
{
	for (Endpoint **link = &first_; *link; link = &(*link)->next_waiting_)
		if (*link == &endpoint) {
			*link = endpoint.next_waiting_;
			waiting_--;
			strangers.fetch_sub(1, std::memory_order_relaxed);
			return;
		}
}

void Listener::forget()
{
	strangers.store(0, std::memory_order_relaxed);
}

void Listener::remove(Endpoint &endpoint)
{
	Turn turn(lock);

	if (endpoint.told_user_) {
		endpoint.told_user_ = false;
		told_--;
	}
	take_out(endpoint);
	pass();
}

/// Something has changed: the turn of others may have come.
void Listener::pass()
{
	for (Endpoint *each = first_; each; each = each->next_waiting_)
		if (each->startup_->ready) {
			understudy::queue(each->watched);
			return;
		}
}

bool Listener::may_tell(Endpoint &endpoint, Time &again)
{
	Turn turn(lock);
	const Time time = now();

	endpoint.startup_->ready = true;
	// The user of a listener that has gone isn't told: the endpoint ends.
	if (!user_)
		return true;
	for (Endpoint *each = first_; each && each != &endpoint; each = each->next_waiting_) {
		const Time patience = each->startup_->accepted + order_patience;

		if (!each->remote.same_host(endpoint.remote) || time >= patience)
			continue;
		again = patience + millisecond;
		return false;
	}
	// It is asked again when the user has decided on another.
	return told_ < most_told_;
}

bool Listener::tell(Endpoint &endpoint)
{
	Turn turn(lock);

	if (!user_)
		return true;
	if (!upcalls->requested(user_, endpoint))
		return false;
	take_out(endpoint);
	told_++;
	endpoint.told_user_ = true;
	pass();
	return true;
}

} // namespace kiwu
