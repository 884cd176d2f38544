// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "injection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/support.hpp"

namespace faults {

namespace {

constexpr std::array kinds = {"failslab", "fail_page_alloc"};
// So that a look at how many are left tells how many were used
constexpr unsigned int plenty = 1000000;

std::string attribute(const std::string &kind, const std::string &name)
{
	return "/sys/kernel/debug/" + kind + "/" + name;
}

void set(const std::string &kind, const std::string &name, const std::string &value)
{
	std::ofstream file(attribute(kind, name));

	file << value << std::flush;
	if (!file)
		vt::fail("can't write " + value + " to " + attribute(kind, name));
}

void set_all(const std::string &name, std::uint64_t value)
{
	for (const char *kind : kinds)
		set(kind, name, std::to_string(value));
}

unsigned int times_left()
{
	unsigned int sum = 0;

	for (const char *kind : kinds) {
		unsigned int times = 0;
		std::ifstream file(attribute(kind, "times"));

		if (!(file >> times))
			vt::fail("can't read " + attribute(kind, "times"));
		sum += times;
	}
	return sum;
}

void only_from(Range where)
{
	set_all("require-start", where.start);
	set_all("require-end", where.end);
}

void spare(Range where)
{
	set_all("reject-start", where.start);
	set_all("reject-end", where.end);
}

// TCP forgets a FIN for which it gets no memory: the sockets of both sides would stay for ever.
void spare_the_fin()
{
	static const Range fin = kernel_function("tcp_send_fin");

	spare(fin);
}

// The kernel complains in its log of a cache for which it gets no memory.
void spare_caches()
{
	spare(kernel_function("__kmem_cache_create_args"));
}

// What holds for both ways; nothing fails yet.
void prepare(Range where)
{
	set_all("probability", 0);
	// The kernel's log is for complaints.
	set_all("verbose", 0);
	set_all("interval", 1);
	set_all("space", 0);
	set_all("stacktrace-depth", 32);
	// Not only allocations that may not wait
	for (const char *kind : kinds) {
		set(kind, "ignore-gfp-wait", "N");
		set(kind, "task-filter", "N");
	}
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
	set("fail_page_alloc", "min-order", "0");
	only_from(where);
	spare_the_fin();
}

// The tracer of allocations, with their stacks
class AllocationTrace {
public:
	AllocationTrace()
	{
		write("tracing_on", "0");
		write("trace", "0");
		write("options/stacktrace", "1");
		// With the offsets come the names of modules.
		write("options/sym-offset", "1");
		write("buffer_size_kb", "100000");
		enable("1");
		write("tracing_on", "1");
	}
	~AllocationTrace()
	{
		try {
			enable("0");
			write("buffer_size_kb", "1");
		} catch (const std::exception &) {
			std::abort();
		}
	}
	AllocationTrace(const AllocationTrace &) = delete;
	AllocationTrace &operator=(const AllocationTrace &) = delete;

	// Names of the module's functions
	static std::set<std::string> stop()
	{
		write("tracing_on", "0");
		std::ifstream trace(path("trace"));
		std::set<std::string> names;
		std::string line;

		while (std::getline(trace, line)) {
			// "# entries-in-buffer/entries-written: 120/120   #P:2"
			std::istringstream words(line);
			std::string hash, what, counts;
			words >> hash >> what >> counts;
			const std::size_t slash = counts.find('/');
			if (what == "entries-in-buffer/entries-written:" &&
				counts.substr(0, slash) != counts.substr(slash + 1))
				vt::fail("the trace of allocations is incomplete");
			if (line.starts_with(" => ") && line.ends_with(" [kiwarp]"))
				names.insert(line.substr(4, line.find_first_of("+ ", 4) - 4));
		}
		return names;
	}

private:
	static std::string path(const std::string &name) { return "/sys/kernel/debug/tracing/" + name; }
	static void write(const std::string &name, const std::string &value)
	{
		std::ofstream file(path(name));

		file << value << std::flush;
		if (!file)
			vt::fail("can't write " + value + " to " + path(name));
	}
	static void enable(const std::string &value)
	{
		for (const char *event : {"kmalloc", "kmem_cache_alloc", "mm_page_alloc"})
			write(std::string("events/kmem/") + event + "/enable", value);
	}
};

// The calling thread's own count-down
class CountDown {
public:
	CountDown() : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC))
	{
		if (fd_ < 0)
			vt::fail("/proc/thread-self/fail-nth", errno);
	}
	~CountDown() { close(fd_); }
	CountDown(const CountDown &) = delete;
	CountDown &operator=(const CountDown &) = delete;

	void set(unsigned int n) const
	{
		const std::string text = std::to_string(n);

		if (pwrite(fd_, text.c_str(), text.size(), 0) != static_cast<ssize_t>(text.size()))
			vt::fail("fail-nth", errno);
	}

private:
	int fd_;
};

std::string read_all(int fd)
{
	std::string all;
	std::array<char, 4096> part{};
	ssize_t n = 0;

	while ((n = read(fd, part.data(), part.size())) > 0)
		all.append(part.data(), static_cast<std::size_t>(n));
	return all;
}

// Between fork and exec: only what is safe there
[[noreturn]] void become(const std::vector<char *> &arguments, const std::string &count, int out)
{
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(125);
	if (!count.empty()) {
		const int fd = open("/proc/thread-self/fail-nth", O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, count.data(), count.size()) != static_cast<ssize_t>(count.size()))
			_exit(125);
	}
	execvp(arguments[0], arguments.data());
	_exit(126);
}

Ran run_counting(const std::string &count, const std::vector<std::string> &command)
{
	std::vector<char *> arguments;
	std::array<int, 2> pipe_fds{};
	int status = 0;

	arguments.reserve(command.size() + 1);
	for (const std::string &word : command)
		arguments.push_back(const_cast<char *>(word.c_str()));
	arguments.push_back(nullptr);
	if (pipe2(pipe_fds.data(), O_CLOEXEC))
		vt::fail("pipe", errno);
	const pid_t pid = fork();
	if (pid < 0)
		vt::fail("fork", errno);
	if (pid == 0)
		become(arguments, count, pipe_fds[1]);
	close(pipe_fds[1]);
	std::string output = read_all(pipe_fds[0]);
	close(pipe_fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		vt::fail("waitpid", errno);
	return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 255, .failed = false, .output = std::move(output)};
}

} // namespace

std::vector<Function> module_functions()
{
	std::ifstream symbols("/proc/kallsyms");
	std::vector<Function> functions;
	std::string line;

	while (std::getline(symbols, line)) {
		std::istringstream words(line);
		std::string type, name, module;
		std::uint64_t address = 0;

		if (!(words >> std::hex >> address >> type >> name >> module) || module != "[kiwarp]")
			continue;
		if (type == "t" || type == "T")
			functions.push_back({.name = name, .range = {.start = address, .end = 0}});
	}
	std::sort(functions.begin(), functions.end(),
		[](const Function &a, const Function &b) { return a.range.start < b.range.start; });
	const auto twins = std::unique(functions.begin(), functions.end(),
		[](const Function &a, const Function &b) { return a.range.start == b.range.start; });
	functions.erase(twins, functions.end());
	if (functions.empty() || !functions.front().range.start)
		vt::fail("/proc/kallsyms shows no function of the module");
	for (std::size_t i = 0; i + 1 < functions.size(); i++)
		functions[i].range.end = functions[i + 1].range.start;
	// No function is that long, and code is in whole pages.
	functions.back().range.end = (functions.back().range.start + 0x1fff) & ~std::uint64_t{0xfff};
	return functions;
}

std::vector<Function> allocating_functions(const std::function<void()> &call)
{
	const AllocationTrace trace;
	std::vector<Function> functions = module_functions();

	call();
	const std::set<std::string> names = AllocationTrace::stop();
	std::erase_if(functions, [&](const Function &function) { return !names.contains(function.name); });
	return functions;
}

Range kernel_function(const std::string &wanted)
{
	std::ifstream symbols("/proc/kallsyms");
	std::uint64_t start = 0;
	std::string line;

	while (std::getline(symbols, line)) {
		std::istringstream words(line);
		std::string type, name;
		std::uint64_t address = 0;

		words >> std::hex >> address >> type >> name;
		if (name == wanted)
			start = address;
		else if (start && address > start)
			return {.start = start, .end = address};
	}
	vt::fail("/proc/kallsyms doesn't show " + wanted);
}

Range module_code()
{
	const std::vector<Function> functions = module_functions();

	return {.start = functions.front().range.start, .end = functions.back().range.end};
}

bool with_nth_failing(unsigned int n, const std::function<void()> &call)
{
	const CountDown count;

	prepare(module_code());
	set_all("times", plenty);
	const unsigned int before = times_left();
	count.set(n);
	try {
		call();
	} catch (...) {
		count.set(0);
		throw;
	}
	count.set(0);
	return times_left() != before;
}

Ran run_with_nth_failing(unsigned int n, const std::vector<std::string> &command, Range where)
{
	prepare(where);
	spare_caches();
	set_all("times", plenty);
	const unsigned int before = times_left();
	Ran ran = run_counting(std::to_string(n), command);

	ran.failed = times_left() != before;
	return ran;
}

Ran run(const std::vector<std::string> &command)
{
	return run_counting("", command);
}

Failing::Failing(Range where, unsigned int times, unsigned int space) : times_(times)
{
	prepare(where);
	set_all("times", times);
	set_all("space", space);
	set_all("probability", 100);
}

Failing::~Failing()
{
	try {
		set_all("probability", 0);
	} catch (const std::exception &) {
		std::abort();
	}
}

unsigned int Failing::failed() const
{
	return static_cast<unsigned int>(kinds.size()) * times_ - times_left();
}

} // namespace faults
