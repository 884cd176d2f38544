// SPDX-License-Identifier: GPL-2.0
// left COMMAND...   right COMMAND...   by links to this program of these names: becomes COMMAND in that host, if it is
// a network
//     namespace of this guest, as "ip netns exec" does; if it is the other guest, has it run there, with the
//     environment and, where it exists there, the folder of here. What comes through a pipe is its input, else it has
//     none. Its outputs and its status come back; a signal that ends this process ends COMMAND.
// host serve   in the other guest: runs what is asked for
// host end     ends that
//
// The guests meet on a wire of their own, in the network namespace "control".
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

constexpr const char *address = "10.76.0.2";
constexpr std::uint16_t port = 1;
constexpr std::array forwarded{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

void check(bool good, const char *what)
{
	if (!good)
		throw std::system_error(errno, std::generic_category(), what);
}

enum class Type : std::uint8_t { run, end, input, signal, output, error, status };

struct Frame {
	Type type;
	std::string octets;
};

void write_all(int fd, std::string_view octets)
{
	while (!octets.empty()) {
		const auto n = write(fd, octets.data(), octets.size());

		check(n >= 0 || errno == EINTR, "write");
		if (n > 0)
			octets.remove_prefix(std::size_t(n));
	}
}

void send_frame(int fd, Type type, std::string_view octets = {})
{
	const std::uint32_t length = htonl(std::uint32_t(octets.size()));
	std::string all(1, char(type));

	all.append(reinterpret_cast<const char *>(&length), sizeof(length)).append(octets);
	write_all(fd, all);
}

void read_all(int fd, std::span<char> to)
{
	while (!to.empty()) {
		const auto n = read(fd, to.data(), to.size());

		check(n >= 0 || errno == EINTR, "read");
		if (n == 0)
			throw std::runtime_error("the other guest is gone");
		if (n > 0)
			to = to.subspan(std::size_t(n));
	}
}

Frame receive_frame(int fd)
{
	std::array<char, 5> head;
	std::uint32_t length = 0;

	read_all(fd, head);
	std::memcpy(&length, &head[1], sizeof(length));
	Frame frame{Type(head[0]), std::string(ntohl(length), '\0')};
	read_all(fd, frame.octets);
	return frame;
}

// --- namespaces ---

std::string file_of(const std::string &host)
{
	return "/run/netns/" + host;
}

bool is_here(const std::string &host)
{
	return access(file_of(host).c_str(), F_OK) == 0;
}

/// For the rest of this process, with the /sys of there
void enter(const std::string &host)
{
	const int there = open(file_of(host).c_str(), O_RDONLY | O_CLOEXEC);

	check(there >= 0 && setns(there, CLONE_NEWNET) == 0, host.c_str());
	check(unshare(CLONE_NEWNS) == 0, "unshare");
	check(mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) == 0, "private mounts");
	(void)umount2("/sys", MNT_DETACH);
	check(mount(host.c_str(), "/sys", "sysfs", 0, nullptr) == 0, "/sys");
}

[[noreturn]] void become(char **command)
{
	execvp(command[0], command);
	(void)std::fprintf(stderr, "%s: %s\n", command[0], std::strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/// A socket of the namespace "control", and its address
int control_socket(sockaddr_in &name)
{
	const int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	const int control = open("/run/netns/control", O_RDONLY | O_CLOEXEC);
	const int one = 1;

	check(here >= 0 && control >= 0 && setns(control, CLONE_NEWNET) == 0, "the namespace control");
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(fd >= 0 && setns(here, CLONE_NEWNET) == 0, "socket");
	close(here);
	close(control);
	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "TCP_NODELAY");
	name.sin_family = AF_INET;
	name.sin_port = htons(port);
	inet_pton(AF_INET, address, &name.sin_addr);
	return fd;
}

int connect_to_server()
{
	sockaddr_in name{};
	const int fd = control_socket(name);

	check(connect(fd, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) == 0, "connect");
	return fd;
}

// --- the guest that asks ---

/// The host, the folder, the number of arguments, these, and the environment, each with a NUL behind it
std::string request(const std::string &host, std::span<char *> arguments)
{
	std::array<char, 4096> folder{};
	std::string all = host;

	all.append(1, '\0').append(getcwd(folder.data(), folder.size()) ? folder.data() : "/");
	all.append(1, '\0').append(std::to_string(arguments.size())).append(1, '\0');
	for (const char *argument : arguments)
		all.append(argument).append(1, '\0');
	for (char **variable = environ; *variable; variable++)
		all.append(*variable).append(1, '\0');
	return all;
}

bool is_pipe(int fd)
{
	struct stat about {};

	return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

int ask(const std::string &host, std::span<char *> arguments)
{
	sigset_t signals;
	std::array<char, 65536> octets;

	sigemptyset(&signals);
	for (const int signal : forwarded)
		sigaddset(&signals, signal);
	check(sigprocmask(SIG_BLOCK, &signals, nullptr) == 0, "sigprocmask");
	const int server = connect_to_server();
	send_frame(server, Type::run, request(host, arguments));

	enum { from_server, from_signals, from_input, all };
	std::array<pollfd, all> polled{};
	polled[from_server] = {.fd = server, .events = POLLIN, .revents = 0};
	polled[from_signals] = {.fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN, .revents = 0};
	polled[from_input] = {.fd = is_pipe(STDIN_FILENO) ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
	if (polled[from_input].fd < 0)
		send_frame(server, Type::input);
	for (;;) {
		if (poll(polled.data(), all, -1) < 0) {
			check(errno == EINTR, "poll");
			continue;
		}
		if (polled[from_signals].revents) {
			signalfd_siginfo info{};

			check(read(polled[from_signals].fd, &info, sizeof(info)) == sizeof(info), "signalfd");
			send_frame(server, Type::signal, std::string(1, char(info.ssi_signo)));
		}
		if (polled[from_input].revents) {
			const auto n = read(STDIN_FILENO, octets.data(), octets.size());

			check(n >= 0, "input");
			send_frame(server, Type::input, {octets.data(), std::size_t(n)});
			if (n == 0)
				polled[from_input].fd = -1;
		}
		if (!polled[from_server].revents)
			continue;
		const auto frame = receive_frame(server);
		if (frame.type == Type::status)
			return std::uint8_t(frame.octets.at(0));
		write_all(frame.type == Type::output ? STDOUT_FILENO : STDERR_FILENO, frame.octets);
	}
}

// --- the guest that is asked ---

[[noreturn]] void run_asked(const std::string &asked)
try {
	std::vector<char *> words;

	signal(SIGPIPE, SIG_DFL);
	for (std::size_t at = 0; at < asked.size(); at += std::strlen(&asked[at]) + 1)
		words.push_back(const_cast<char *>(&asked[at]));
	const auto arguments = words.begin() + 3, environment = arguments + std::stol(words.at(2));
	std::vector<char *> command(arguments, environment), variables(environment, words.end());
	command.push_back(nullptr);
	variables.push_back(nullptr);
	environ = variables.data();
	enter(words[0]);
	if (chdir(words[1]) != 0)
		check(chdir("/") == 0, "chdir");
	become(command.data());
} catch (const std::exception &e) {
	(void)std::fprintf(stderr, "%s\n", e.what());
	_exit(125);
}

/// A command that runs, and the guest that asked for it
class Command {
public:
	Command(int client, const std::string &asked) : client_(client)
	{
		std::array<std::array<int, 2>, 3> pipes{};

		for (auto &p : pipes)
			check(pipe2(p.data(), O_CLOEXEC) == 0, "pipe");
		pid_ = fork();
		check(pid_ >= 0, "fork");
		if (pid_ == 0) {
			setsid();
			dup2(pipes[0][0], STDIN_FILENO);
			dup2(pipes[1][1], STDOUT_FILENO);
			dup2(pipes[2][1], STDERR_FILENO);
			run_asked(asked);
		}
		close(pipes[0][0]);
		close(pipes[1][1]);
		close(pipes[2][1]);
		input_ = pipes[0][1];
		outputs_ = {pipes[1][0], pipes[2][0]};
		for (const int fd : {input_, outputs_[0], outputs_[1]})
			check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
		ended_ = int(syscall(SYS_pidfd_open, pid_, 0));
		check(ended_ >= 0, "pidfd_open");
	}

	/// Passes on what comes, until the command has ended.
	void run()
	{
		enum { from_client, from_command, from_output, from_error, to_input, all };

		for (bool over = false; !over;) {
			// While the command doesn't take what it has, no more is asked of the client.
			const short listen = waiting_.empty() ? POLLIN | POLLRDHUP : POLLRDHUP;
			std::array<pollfd, all> polled{};

			polled[from_client] = {.fd = client_, .events = listen, .revents = 0};
			polled[from_command] = {.fd = ended_, .events = POLLIN, .revents = 0};
			polled[from_output] = {.fd = outputs_[0], .events = POLLIN, .revents = 0};
			polled[from_error] = {.fd = outputs_[1], .events = POLLIN, .revents = 0};
			polled[to_input] = {.fd = waiting_.empty() ? -1 : input_, .events = POLLOUT, .revents = 0};
			if (poll(polled.data(), all, -1) < 0) {
				check(errno == EINTR, "poll");
				continue;
			}
			if (polled[from_client].revents & (POLLRDHUP | POLLHUP | POLLERR))
				throw std::runtime_error("the client is gone");
			if (polled[from_client].revents & POLLIN)
				hear(receive_frame(client_));
			if (polled[to_input].revents)
				feed();
			// Asked before the outputs are read: what the command wrote before its end is there.
			over = polled[from_command].revents != 0;
			pass_on(outputs_[0], Type::output);
			pass_on(outputs_[1], Type::error);
		}
		int status = 0;
		check(waitpid(pid_, &status, 0) == pid_, "waitpid");
		const int shown = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		send_frame(client_, Type::status, std::string(1, char(shown)));
		// Closed with something unread, the connection would be reset, and the status lost.
		while (read(client_, &status, sizeof(status)) > 0)
			;
	}

	void kill_all() const { kill(-pid_, SIGKILL); }

private:
	void hear(const Frame &frame)
	{
		if (frame.type == Type::signal) {
			kill(pid_, frame.octets.at(0));
		} else if (!frame.octets.empty()) {
			waiting_ = frame.octets;
			feed();
		} else {
			close_input();
		}
	}

	void feed()
	{
		const auto n = write(input_, waiting_.data(), waiting_.size());

		if (n > 0)
			waiting_.erase(0, std::size_t(n));
		else if (errno == EPIPE || errno == EBADF)
			waiting_.clear();
	}

	void close_input()
	{
		close(input_);
		input_ = -1;
	}

	/// As much as a pipe holds
	void pass_on(int &fd, Type type)
	{
		std::array<char, 65536> octets;
		const auto n = fd < 0 ? -1 : read(fd, octets.data(), octets.size());

		if (n > 0)
			send_frame(client_, type, {octets.data(), std::size_t(n)});
		else if (n == 0)
			close(std::exchange(fd, -1));
	}

	int client_, input_ = -1, ended_ = -1;
	std::array<int, 2> outputs_{};
	pid_t pid_ = -1;
	std::string waiting_;
};

void answer(int client, const std::string &asked)
{
	signal(SIGPIPE, SIG_IGN);
	Command command(client, asked);

	try {
		command.run();
	} catch (const std::exception &) {
		command.kill_all();
	}
}

int serve()
{
	sockaddr_in name{};
	const int listener = control_socket(name), one = 1;

	check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0, "SO_REUSEADDR");
	check(bind(listener, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) == 0, "bind");
	check(listen(listener, SOMAXCONN) == 0, "listen");
	for (;;) {
		const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);

		check(client >= 0, "accept");
		const auto frame = receive_frame(client);
		if (frame.type == Type::end)
			return 0;
		const pid_t pid = fork();
		check(pid >= 0, "fork");
		if (pid == 0) {
			close(listener);
			answer(client, frame.octets);
			_exit(0);
		}
		close(client);
		while (waitpid(-1, nullptr, WNOHANG) > 0)
			;
	}
}

} // namespace

int main(int argc, char **argv)
try {
	const std::string_view path(argv[0]), argument(argc > 1 ? argv[1] : "");
	const std::string name(path.substr(path.rfind('/') + 1));

	if (argument.empty()) {
		(void)std::fprintf(stderr, "usage: left|right COMMAND...; host serve|end\n");
		return 2;
	}
	if (name == "host") {
		if (argument == "serve")
			return serve();
		send_frame(connect_to_server(), Type::end);
		return 0;
	}
	if (!is_here(name))
		return ask(name, {argv + 1, std::size_t(argc - 1)});
	enter(name);
	become(argv + 1);
} catch (const std::exception &e) {
	(void)std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
	return 125;
}
