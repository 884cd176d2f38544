// SPDX-License-Identifier: GPL-2.0
#include "programs.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <regex>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mutants {

namespace fs = std::filesystem;

namespace {

/// Tests that take longer by themselves run behind the others of their program.
constexpr unsigned quick_ms = 50;
/// Memory of a test program at most
constexpr rlim_t memory = 4UL << 30;
/// Without an end, and without using the CPU
constexpr int stuck_ms = 600'000;

/// CPU time after which tests that take @seconds unchanged will never end
double limit_of(double seconds)
{
	return std::ceil(2 + 10 * seconds);
}

struct Limits {
	double seconds = 0; // of CPU time, if not 0
	std::string libraries;
	std::string out = "/dev/null";
};

struct Ended {
	int status; // as wait() has it
	bool timed_out;
	double seconds;
};

[[noreturn]] void become(std::vector<char *> &argv, const Limits &limits)
{
	const int null = ::open("/dev/null", O_RDWR),
		  out = ::open(limits.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);

	::prctl(PR_SET_PDEATHSIG, SIGKILL);
	::dup2(null, 0);
	::dup2(out, 1);
	::dup2(out, 2);
	if (limits.seconds > 0) {
		const rlimit cpu{static_cast<rlim_t>(limits.seconds), static_cast<rlim_t>(limits.seconds)},
			space{memory, memory}, core{0, 0};

		::setrlimit(RLIMIT_CPU, &cpu);
		::setrlimit(RLIMIT_AS, &space);
		::setrlimit(RLIMIT_CORE, &core);
		::setenv("LD_LIBRARY_PATH", limits.libraries.c_str(), 1);
	}
	::execvp(argv[0], argv.data());
	::_exit(127);
}

Ended run(std::vector<std::string> command, const Limits &limits)
{
	std::vector<char *> argv;

	for (std::string &word : command)
		argv.push_back(word.data());
	argv.push_back(nullptr);

	const pid_t child = ::fork();

	if (child == 0)
		become(argv, limits);
	// The status of a program that never ran says nothing of a mutant.
	if (child < 0) {
		std::perror("mutants: fork");
		std::_Exit(1);
	}

	// Whatever uses no CPU has a limit as well.
	const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
	pollfd p{handle, POLLIN, 0};
	const bool stuck = limits.seconds > 0 && handle >= 0 && ::poll(&p, 1, stuck_ms) == 0;
	rusage usage{};
	int status = 0;

	if (stuck)
		::kill(child, SIGKILL);
	::wait4(child, &status, 0, &usage);
	if (handle >= 0)
		::close(handle);

	const auto seconds_of = [](const timeval &t) {
		return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
	};
	const double seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
	const bool out_of_time = WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL) &&
				 seconds > limits.seconds * 0.9;

	return {status, stuck || out_of_time, seconds};
}

std::string contents(const fs::path &path)
{
	std::ifstream in(path, std::ios::binary);
	std::ostringstream text;

	text << in.rdbuf();
	return text.str();
}

/// What has not changed keeps its date, for make.
void write(const fs::path &path, const std::string &text)
{
	if (fs::exists(path) && contents(path) == text)
		return;
	fs::create_directories(path.parent_path());
	std::ofstream(path, std::ios::binary) << text;
}

} // namespace

Programs::Programs(fs::path top, fs::path work, unsigned jobs)
	: top_(std::move(top)),
	  work_(std::move(work)),
	  jobs_(jobs)
{
	for (const char *room : {"proto", "session"}) {
		for (const auto &entry : fs::directory_iterator(top_ / "kmod" / room)) {
			const auto ending = entry.path().extension();

			// What stands in for the kernel is no part of it.
			if ((ending == ".c" || ending == ".h") && entry.path().filename() != "os.h")
				files_.push_back(std::string(room) + "/" + entry.path().filename().string());
		}
	}
	std::ranges::sort(files_);
	for (const auto &file : files_)
		sources_.push_back(contents(top_ / "kmod" / file));
}

const std::string &Programs::source(const std::string &file) const
{
	return sources_[static_cast<std::size_t>(std::ranges::find(files_, file) - files_.begin())];
}

/// What is compiled of a file
std::string Programs::text_for(const std::string &file, const std::string &source) const
{
	return file.ends_with(".h") ? defined(file, source) : source;
}

std::string Programs::library_of(const std::string &file) const
{
	std::string name = file;

	std::ranges::replace(name, '/', '_');
	std::ranges::replace(name, '.', '_');
	return "lib" + name + ".so";
}

bool Programs::prepare()
{
	std::string libraries;

	for (const char *room : {"proto", "session"})
		write(work_ / "kmod" / room / "os.h", contents(top_ / "kmod" / room / "os.h"));
	for (const auto &file : files_) {
		const std::string text = text_for(file, source(file));
		std::string path = file;

		if (file.ends_with(".h"))
			write(work_ / "kmod" / file, declared(source(file)));
		// A header's functions are compiled as NAME.h.c.
		if (file.ends_with(".h"))
			path += ".c";
		if (text.empty())
			continue;
		write(work_ / "kmod" / path, text);
		libraries += " " + library_of(file);
	}
	write(work_ / "libraries.mk", "libraries :=" + libraries + "\n");
	if (run({"make", "-s", "-j" + std::to_string(jobs_), "-C", (top_ / "tests/mutants").string(), "programs"},
		    {.out = (work_ / "make.log").string()})
			.status) {
		std::fputs(contents(work_ / "make.log").c_str(), stderr);
		return false;
	}
	return builds_the_same() && prepare("proto_test") && prepare("session_test");
}

/// Does each file that nothing was changed in compile to the same code? Else a fault of the build would make mutants
/// that don't compile.
bool Programs::builds_the_same()
{
	return std::ranges::all_of(files_, [&](const std::string &file) {
		Mutant none{};

		none.file = file;
		if (text_for(file, source(file)).empty() || judge(none, source(file), 0) == Verdict::same_code)
			return true;
		std::fprintf(stderr, "mutants: %s unchanged comes out otherwise\n", file.c_str());
		return false;
	});
}

/// Runs all tests of a program, to learn how long they take, and then in two steps, the quick ones first.
bool Programs::prepare(const std::string &program)
{
	const std::regex took(R"(\[       OK \] (\S+) \((\d+) ms\))");
	Step all{program, "*", 0};
	std::string slow;

	if (!run_unchanged(all))
		return false;
	const std::string said = contents(work_ / "test.log");

	for (auto at = std::sregex_iterator(said.begin(), said.end(), took); at != std::sregex_iterator(); ++at) {
		if (std::stoul((*at)[2]) > quick_ms)
			slow += (slow.empty() ? "" : ":") + (*at)[1].str();
	}
	steps_.push_back({program, "-" + slow, 0});
	if (!slow.empty())
		steps_.push_back({program, slow, 0});
	return std::ranges::all_of(steps_, [&](Step &step) { return step.program != program || run_unchanged(step); });
}

/// Sets the time that a step takes.
bool Programs::run_unchanged(Step &step)
{
	const fs::path log = work_ / "test.log";
	const Ended ended = run({(work_ / step.program).string(), "--gtest_filter=" + step.filter},
		{.seconds = 600, .libraries = (work_ / "lib").string(), .out = log.string()});

	step.seconds = ended.seconds;
	if (ended.status)
		std::fputs(contents(log).c_str(), stderr);
	return !ended.status;
}

Verdict Programs::judge(const Mutant &m, const std::string &source, unsigned job)
{
	const fs::path place = work_ / ("job" + std::to_string(job));
	const std::string library = library_of(m.file);

	fs::remove_all(place);
	write(place / "mutant.c", text_for(m.file, m.apply(source)));
	fs::create_directories(place / "lib");
	if (run({"make", "-s", "-C", (top_ / "tests/mutants").string(), "mutant",
			"SOURCE=" + (place / "mutant.c").string(), "ROOM=" + m.file.substr(0, m.file.find('/')),
			"LIBRARY=" + (place / "lib" / library).string()},
		    {})
			.status)
		return Verdict::not_compiled;
	if (contents(place / "lib" / library) == contents(work_ / "lib" / library))
		return Verdict::same_code;
	for (const Step &step : steps_) {
		if (m.file.starts_with("session/") && step.program != "session_test")
			continue;
		const Ended ended = run({(work_ / step.program).string(), "--gtest_break_on_failure", "--gtest_brief=1",
						"--gtest_filter=" + step.filter},
			{.seconds = limit_of(step.seconds),
				.libraries = (place / "lib").string() + ":" + (work_ / "lib").string()});

		if (ended.timed_out)
			return Verdict::timed_out;
		if (ended.status)
			return Verdict::killed;
	}
	return Verdict::survived;
}

} // namespace mutants
