// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// talk WAY serve PORT | talk WAY call ADDRESS PORT: two processes send each other octets over TCP, both at once and in
// pieces of random sizes, and compare what they receive. Ends with 0 if all octets came, in order, and the end of the
// connection behind them. WAY is how this one waits, or what it does meanwhile:
//
//   threads   one sends, one receives       dup    the same by other descriptors, the first one closed
//   poll, select, epoll                     fork   the child receives, the parent sends
//   edge      epoll with EPOLLET            child  epoll, while a child comes, closes and goes
//   oneshot   epoll with EPOLLONESHOT       exec   another program goes on
//   again     epoll, three connections       forks  a child has the connection for itself
//   nested    epoll of an epoll             echo   sends back what comes; die: is killed
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::uint64_t total = 5'000'003;
constexpr std::size_t largest = 200'000;

[[noreturn]] void fail(const char *what)
{
	std::fprintf(stderr, "talk: %s: %s\n", what, std::strerror(errno));
	std::exit(1);
}

/// The octet at an offset: no two places of a stream look alike for long.
std::uint8_t octet(std::uint64_t offset)
{
	std::uint64_t mixed = (offset >> 3) * 0x9e3779b97f4a7c15;

	mixed ^= mixed >> 29;
	return static_cast<std::uint8_t>(mixed >> 8 * (offset & 7));
}

using Random = std::minstd_rand;

/// Small ones as often as large ones
std::size_t random_size(Random &random)
{
	return 1 + (random() % largest >> random() % 17);
}

class Sender {
public:
	bool done() const { return sent_ == total; }

	/// Sends a piece, by one of the calls that can. Returns false if it would have to wait.
	bool step(int fd)
	{
		std::vector<std::uint8_t> octets(std::min<std::uint64_t>(random_size(random_), total - sent_));

		for (std::size_t i = 0; i < octets.size(); i++)
			octets[i] = octet(sent_ + i);
		const std::size_t half = octets.size() / 2;
		iovec pieces[] = {{octets.data(), half}, {octets.data() + half, octets.size() - half}};
		msghdr message{};
		message.msg_iov = pieces;
		message.msg_iovlen = 2;
		ssize_t n = -1;
		switch (random_() % 4) {
		case 0:
			n = ::write(fd, octets.data(), octets.size());
			break;
		case 1:
			n = ::send(fd, octets.data(), octets.size(), MSG_NOSIGNAL);
			break;
		case 2:
			n = ::writev(fd, pieces, 2);
			break;
		default:
			n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
			break;
		}
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0)
			fail("sending");
		sent_ += static_cast<std::uint64_t>(n);
		if (done() && ::shutdown(fd, SHUT_WR))
			fail("shutdown");
		return true;
	}

private:
	std::uint64_t sent_ = 0;
	Random random_{static_cast<unsigned>(::getpid())};
};

class Receiver {
public:
	bool done() const { return ended_; }

	bool step(int fd)
	{
		std::vector<std::uint8_t> octets(random_size(random_));
		iovec piece = {octets.data(), octets.size()};
		msghdr message{};

		message.msg_iov = &piece;
		message.msg_iovlen = 1;
		ssize_t n = -1;
		switch (random_() % 5) {
		case 0:
			n = ::read(fd, octets.data(), octets.size());
			break;
		case 1:
			n = ::recv(fd, octets.data(), octets.size(), 0);
			break;
		case 2:
			n = ::readv(fd, &piece, 1);
			break;
		case 3:
			// What was looked at comes again.
			n = ::recv(fd, octets.data(), octets.size(), MSG_PEEK);
			if (n > 0)
				compare(octets.data(), static_cast<std::size_t>(n));
			if (n > 0)
				n = ::recv(fd, octets.data(), static_cast<std::size_t>(n), MSG_WAITALL);
			break;
		default:
			n = ::recvmsg(fd, &message, 0);
			break;
		}
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			fail("receiving");
		compare(octets.data(), static_cast<std::size_t>(n));
		received_ += static_cast<std::uint64_t>(n);
		ended_ = n == 0;
		if (ended_ && received_ != total) {
			std::fprintf(stderr, "talk: the end after %llu octets\n",
				static_cast<unsigned long long>(received_));
			std::exit(1);
		}
		return true;
	}

private:
	void compare(const std::uint8_t *octets, std::size_t n) const
	{
		for (std::size_t i = 0; i < n; i++)
			if (octets[i] != octet(received_ + i)) {
				std::fprintf(stderr, "talk: octet %llu is wrong\n",
					static_cast<unsigned long long>(received_ + i));
				std::exit(1);
			}
	}

	std::uint64_t received_ = 0;
	bool ended_ = false;
	Random random_{static_cast<unsigned>(::getpid()) + 1};
};

/// Waits by a system call of its kind. Returns the events of poll().
using Wait = short (*)(int fd, short events);

short wait_by_poll(int fd, short events)
{
	pollfd one = {fd, events, 0};

	if (::poll(&one, 1, -1) != 1)
		fail("poll");
	return one.revents;
}

short wait_by_select(int fd, short events)
{
	fd_set reads, writes;

	FD_ZERO(&reads);
	FD_ZERO(&writes);
	if (events & POLLIN)
		FD_SET(fd, &reads);
	if (events & POLLOUT)
		FD_SET(fd, &writes);
	if (::select(fd + 1, &reads, &writes, nullptr, nullptr) < 1)
		fail("select");
	return static_cast<short>((FD_ISSET(fd, &reads) ? POLLIN : 0) | (FD_ISSET(fd, &writes) ? POLLOUT : 0));
}

int connections = 1; // of this process, this one included

/// A set that lives as long as the process, at another level if outer
short wait_by_set(int fd, short events, std::uint32_t flags, bool outer)
{
	static int set = -1, around = -1;
	static std::uint32_t before = 0;
	static int known = 0;
	const std::uint32_t wanted = static_cast<std::uint16_t>(events) | flags;
	epoll_event event = {wanted, {.u64 = 0x1234567812345678}}, found{};

	if (set < 0) {
		set = ::epoll_create1(EPOLL_CLOEXEC);
		around = ::epoll_create1(EPOLL_CLOEXEC);
		epoll_event inner = {EPOLLIN, {.u64 = 1}};
		if (::epoll_ctl(around, EPOLL_CTL_ADD, set, &inner))
			fail("epoll_ctl of a set");
	}
	if (known != connections) {
		known = connections;
		if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
			fail("epoll_ctl");
	} else if ((before != wanted || flags & EPOLLONESHOT) && ::epoll_ctl(set, EPOLL_CTL_MOD, fd, &event)) {
		fail("epoll_ctl");
	}
	before = wanted;
	do
		if (outer && ::epoll_wait(around, &found, 1, -1) != 1)
			fail("epoll_wait of the outer set");
	while (::epoll_wait(set, &found, 1, outer ? 0 : -1) == 0);
	if (found.data.u64 != 0x1234567812345678) {
		errno = EINVAL;
		fail("epoll_wait");
	}
	return static_cast<short>(found.events);
}

/// By a set, while a child of fork() comes that closes what it has, and goes
short wait_beside_child(int fd, short events)
{
	static int waits = 0;

	if (++waits == 5) {
		const pid_t child = ::fork();
		int status = 0;

		if (child == 0) {
			::close(fd);
			::_exit(0);
		}
		if (::waitpid(child, &status, 0) != child || status)
			fail("the child");
	}
	return wait_by_set(fd, events, 0, false);
}

void talk(int fd, Wait wait)
{
	Sender sender;
	Receiver receiver;

	if (::fcntl(fd, F_SETFL, O_NONBLOCK))
		fail("fcntl");
	while (!sender.done() || !receiver.done()) {
		const short events = static_cast<short>((sender.done() ? 0 : POLLOUT) | (receiver.done() ? 0 : POLLIN));
		const short found = wait(fd, events);

		// Until they would have to wait, as an edge demands.
		if (found & (POLLOUT | POLLERR))
			while (!sender.done() && sender.step(fd))
				;
		if (found & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
			while (!receiver.done() && receiver.step(fd))
				;
	}
}

void talk_in_threads(int fd)
{
	std::thread other([fd] {
		Receiver receiver;

		while (!receiver.done())
			receiver.step(fd);
	});
	Sender sender;
	while (!sender.done())
		sender.step(fd);
	other.join();
}

/// A child has the connection for itself, as with servers that fork.
void talk_in_child(int fd)
{
	int status = 0;
	const pid_t child = ::fork();

	if (child == 0) {
		talk_in_threads(fd);
		::close(fd);
		std::exit(0);
	}
	::close(fd);
	if (::waitpid(child, &status, 0) != child || status)
		fail("the child");
	std::exit(0);
}

/// The child receives, the parent sends: they share the connection.
void talk_in_processes(int fd)
{
	// Some of it before
	Sender sender;
	Receiver receiver;
	int status = 0;

	for (int i = 0; i < 10 && !sender.done(); i++)
		sender.step(fd);
	const pid_t child = ::fork();
	if (child == 0) {
		while (!receiver.done())
			receiver.step(fd);
		::_exit(0);
	}
	while (!sender.done())
		sender.step(fd);
	if (::waitpid(child, &status, 0) != child || status)
		fail("the child");
}

/// Sends back what comes, until it ends.
void echo(int fd)
{
	std::vector<char> octets(65536);
	ssize_t n = 0;

	while ((n = ::read(fd, octets.data(), octets.size())) > 0)
		for (ssize_t sent = 0, more = 0; sent < n; sent += more)
			if ((more = ::write(fd, octets.data() + sent, static_cast<std::size_t>(n - sent))) <= 0)
				fail("echo");
	if (n < 0)
		fail("receiving");
}

/// Is killed in the midst of it.
void die(int fd)
{
	Sender sender;

	for (int i = 0; i < 100 && !sender.done(); i++)
		sender.step(fd);
	::kill(::getpid(), SIGKILL);
}

/// Another descriptor, and the first one closed
int moved(int fd)
{
	const int other = ::dup(fd);
	const int third = ::fcntl(other, F_DUPFD_CLOEXEC, 100);

	::close(fd);
	::close(other);
	return third;
}

sockaddr_in address_of(const char *host, const char *port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)));
	if (::inet_pton(AF_INET, host, &address.sin_addr) != 1)
		fail(host);
	return address;
}

/// Accepts a connection, and as many more as the process will have.
int serve(const char *port, int more)
{
	static int kept = -1;
	const int listener = kept >= 0 ? kept : ::socket(AF_INET, SOCK_STREAM, 0);
	const sockaddr_in address = address_of("0.0.0.0", port);
	const int on = 1;

	::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (kept < 0 && (::bind(listener, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) ||
				::listen(listener, 5)))
		fail("listen");
	const int fd = ::accept(listener, nullptr, nullptr);
	if (fd < 0)
		fail("accept");
	kept = listener;
	if (!more)
		::close(listener);
	return fd;
}

int call(const char *host, const char *port, bool nonblocking)
{
	const int fd = ::socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0);
	const sockaddr_in address = address_of(host, port);

	if (::connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) && errno != EINPROGRESS)
		fail("connect");
	return fd;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	const std::string_view way = argv[1];
	const bool blocks = way == "threads" || way == "fork" || way == "dup" || way == "echo" || way == "die" ||
			    way == "exec" || way == "forks";
	const std::string_view role = argv[2];
	int more = way == "again" ? 2 : 0;
	int fd = role == "serve"     ? serve(argv[3], more)
		 : role == "goes on" ? static_cast<int>(std::strtol(argv[3], nullptr, 10))
				     : call(argv[3], argv[4], !blocks);

	if (way == "exec") {
		::execl("/proc/self/exe", argv[0], "threads", "goes on", std::to_string(fd).c_str(), nullptr);
		fail("exec");
	}

	if (way == "threads")
		talk_in_threads(fd);
	else if (way == "dup")
		talk_in_threads(fd = moved(fd));
	else if (way == "echo")
		echo(fd);
	else if (way == "die")
		die(fd);
	else if (way == "fork")
		talk_in_processes(fd);
	else if (way == "poll")
		talk(fd, wait_by_poll);
	else if (way == "select")
		talk(fd, wait_by_select);
	else if (way == "epoll")
		talk(fd, [](int each, short events) { return wait_by_set(each, events, 0, false); });
	else if (way == "edge")
		talk(fd, [](int each, short events) { return wait_by_set(each, events, EPOLLET, false); });
	else if (way == "oneshot")
		talk(fd, [](int each, short events) { return wait_by_set(each, events, EPOLLONESHOT, false); });
	else if (way == "child")
		talk(fd, wait_beside_child);
	else if (way == "forks")
		talk_in_child(fd);
	else if (way == "again")
		for (const Wait wait =
				[](int each, short events) {
					return wait_by_set(each, events, 0, false);
				};
			; more--) {
			talk(fd, wait);
			if (!more)
				break;
			::close(fd);
			connections++;
			fd = role == "serve" ? serve(argv[3], more - 1) : call(argv[3], argv[4], true);
		}
	else if (way == "nested")
		talk(fd, [](int each, short events) { return wait_by_set(each, events, 0, true); });
	else
		return 2;
	if (::close(fd))
		fail("close");
	return 0;
}
