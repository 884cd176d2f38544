// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace user {

namespace {

using std::chrono::steady_clock;

// Of a target's memory
constexpr std::uint32_t length = 1 << 20;

void tell(const std::string &line)
{
	std::printf("%s\n", line.c_str());
	std::fflush(stdout);
}

/// Two words of the next line. Returns false when there is none.
bool obey(std::string &word, unsigned long &number, unsigned long &second)
{
	char line[256], first[256];

	number = second = 0;
	if (!std::fgets(line, sizeof(line), stdin) || std::sscanf(line, "%255s %lu %lu", first, &number, &second) < 1)
		return false;
	word = first;
	return true;
}

/// Of memory that a peer may write to meanwhile
[[gnu::no_sanitize("thread")]] unsigned long sum(const Memory &memory)
{
	const volatile std::uint8_t *bytes = memory.bytes.data();
	unsigned long all = 0;

	for (std::size_t i = 0; i < length; i++)
		all += bytes[i];
	return all;
}

int target()
{
	ibv_qp_init_attr attr = attributes(64);
	rdma_cm_id *listener = nullptr;
	End end;
	rdma_addrinfo *passive = resolve(nullptr, RAI_PASSIVE);

	if (rdma_create_ep(&listener, passive, nullptr, &attr) || rdma_listen(listener, 16))
		return 1;
	rdma_freeaddrinfo(passive);
	tell("port " + port_of(listener));
	if (rdma_get_request(listener, &end.id))
		return 1;
	Memory memory(end.id->pd, length);
	const Told told = {memory.address(), memory.mr->rkey, length};
	rdma_conn_param param{};
	param.private_data = &told;
	param.private_data_len = sizeof(told);
	param.responder_resources = param.initiator_depth = 16;
	if (rdma_accept(end.id, &param))
		return 1;
	tell("up");
	std::string word;
	unsigned long number = 0, second = 0;
	while (obey(word, number, second)) {
		if (word == "sleep") {
			std::this_thread::sleep_for(std::chrono::seconds(number));
			tell("slept");
		} else if (word == "spin") {
			const auto until = steady_clock::now() + std::chrono::seconds(number);

			while (steady_clock::now() < until)
				asm volatile("");
			tell("slept");
		} else if (word == "unmap") {
			constexpr std::uintptr_t page = 65536;

			// In the midst of it
			::munmap(reinterpret_cast<void *>((memory.address(length / 2) + page - 1) / page * page), page);
			tell("unmapped");
		} else if (word == "sum") {
			tell("sum " + std::to_string(sum(memory)));
		} else {
			break;
		}
	}
	rdma_destroy_ep(listener);
	return 0;
}

/// Processor time of this thread, which polls: it stands still while the process is stopped.
double seconds_used()
{
	timespec t{};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Returns how many have completed when all have, or none has for a second.
unsigned long send(End &end, Memory &memory, unsigned long count, std::uint32_t bytes)
{
	unsigned long posted = 0, completed = 0;
	double last = seconds_used();
	ibv_wc wc{};

	while (completed < count && seconds_used() - last < 1) {
		while (posted < count && end.post(IBV_WR_SEND, {memory.sge(0, bytes)}) == 0)
			posted++;
		while (ibv_poll_cq(end.id->send_cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS) {
			completed++;
			last = seconds_used();
		}
	}
	return completed;
}

int source(const std::string &port, const std::string &manner)
{
	// Nothing of it goes before the process does: static memory and objects that are never destroyed.
	static End &end = *new End;
	Told told{};

	connect(end, port, told, 128);
	static Memory &memory = *new Memory(end.id->pd, length);
	std::iota(memory.bytes.begin(), memory.bytes.end(), std::uint8_t{0});
	tell("up");
	std::string word;
	unsigned long number = 0, second = 0;
	while (obey(word, number, second) && word != "end")
		tell("completed " + std::to_string(send(end, memory, number, static_cast<std::uint32_t>(second))));
	if (manner == "_exit")
		_exit(0);
	if (manner == "kill")
		::kill(::getpid(), SIGKILL);
	std::exit(0);
}

int sockets()
{
	unsigned count = 0;

	for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
		std::error_code error;

		// Those may be a journal's.
		if (const std::string name = entry.path().filename(); name == "0" || name == "1" || name == "2")
			continue;
		const std::string is = std::filesystem::read_symlink(entry.path(), error).string();

		count += is.starts_with("socket:");
	}
	tell("sockets " + std::to_string(count));
	return 0;
}

} // namespace

int play(const std::string &role, char **arguments)
{
	if (role == "target")
		return target();
	if (role == "source")
		return source(arguments[0], arguments[1]);
	return role == "sockets" ? sockets() : 2;
}

void connect(End &end, const std::string &port, Told &told, std::uint32_t depth)
{
	ibv_qp_init_attr attr = attributes(depth);
	rdma_addrinfo *active = resolve(port.c_str(), 0);
	rdma_conn_param param{};

	param.responder_resources = param.initiator_depth = 16;
	if (rdma_create_ep(&end.id, active, nullptr, &attr) || rdma_connect(end.id, &param))
		throw std::runtime_error("connect");
	rdma_freeaddrinfo(active);
	if (end.id->event->param.conn.private_data_len >= sizeof(told))
		std::memcpy(&told, end.id->event->param.conn.private_data, sizeof(told));
}

Peer::Peer(std::vector<std::string> arguments)
{
	int to[2], from[2];
	posix_spawn_file_actions_t actions;
	std::vector<char *> argv;

	arguments.insert(arguments.begin(), {"/proc/self/exe", "--peer"});
	for (std::string &argument : arguments)
		argv.push_back(argument.data());
	argv.push_back(nullptr);
	if (::pipe2(to, O_CLOEXEC) || ::pipe2(from, O_CLOEXEC))
		throw std::runtime_error("pipe2");
	::posix_spawn_file_actions_init(&actions);
	::posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	::posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
	::posix_spawn_file_actions_destroy(&actions);
	::close(to[0]);
	::close(from[1]);
	if (error)
		throw std::runtime_error("posix_spawn");
	to_ = ::fdopen(to[1], "w");
	from_ = ::fdopen(from[0], "r");
}

Peer::~Peer()
{
	if (pid_ > 0) {
		signal(SIGKILL);
		wait();
	}
	std::fclose(to_);
	std::fclose(from_);
}

void Peer::say(const std::string &line)
{
	std::fprintf(to_, "%s\n", line.c_str());
	std::fflush(to_);
}

std::string Peer::hear()
{
	char line[256];

	if (!std::fgets(line, sizeof(line), from_))
		return "";
	line[std::strcspn(line, "\n")] = '\0';
	return line;
}

unsigned long Peer::hear(const std::string &word)
{
	const std::string line = hear();

	if (!line.starts_with(word + " "))
		throw std::runtime_error("not " + word + " but " + line);
	return std::stoul(line.substr(word.size() + 1));
}

bool Peer::has_said() const
{
	pollfd descriptor = {.fd = ::fileno(from_), .events = POLLIN, .revents = 0};

	return ::poll(&descriptor, 1, 0) == 1;
}

void Peer::signal(int number) const
{
	::kill(pid_, number);
}

void Peer::stop() const
{
	signal(SIGSTOP);
	::waitpid(pid_, nullptr, WUNTRACED);
}

int Peer::wait()
{
	int status = 0;

	::waitpid(pid_, &status, 0);
	pid_ = -1;
	return status;
}

} // namespace user
