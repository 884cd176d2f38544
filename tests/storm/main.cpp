// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// storm: processes that do everything wrong, are killed at any moment, and one good one beside them that must not
// notice.
//
// The decisions of each process follow from the seed, its kind and its number; its scheduling doesn't. The verdict is
// about the bystander, about processes that don't end, and about the demands of the parts. The guest checks the kernel
// log.
#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "../lib/support.hpp"
#include "part.hpp"

namespace storm {

void demand(bool condition, const std::string &what)
{
	if (!condition)
		vt::fail(what);
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
	unsigned int duration = 60;
	std::uint32_t seed = 0;
	std::string only;
	std::optional<unsigned int> child;
	unsigned int processes = 3;
	// For whatever takes no time where nothing hangs
	unsigned int patience = 60;
};

/// Of what a part has to have done to have been of use
enum Need : unsigned int { connections = 1, completed = 2, failed = 4, refused = 8, faults = 16 };

struct Kind {
	const char *name;
	void (*play)(Part &);
	unsigned int needs;
	bool may_be_killed = true;
};

constexpr std::array<Kind, 5> kinds = {{
	{"rings", scribble_rings, connections | completed | failed},
	{"mappings", abuse_mappings, connections | completed | refused | faults},
	{"verbs", misorder_verbs, connections | completed | failed | refused},
	{"cm", misorder_cm, connections | refused},
	{"nonsense", send_nonsense, connections | refused},
}};
constexpr Kind busy = {"busy", keep_busy, connections | completed | failed};
constexpr Kind device_churn = {"churn", churn_devices, 0, false};
constexpr Kind module_churn = {"churn", churn_module, 0, false};

struct Shared {
	std::atomic<std::uint64_t> beats;
	std::atomic<bool> stop_bystander;
	std::array<Tally, 8> tallies;
};

/// Text for humans of what every thread of a process is doing in the kernel
std::string stacks(pid_t pid)
{
	std::ostringstream text;
	const std::string command = "for t in /proc/" + std::to_string(pid) +
				    "/task/*; do cat $t/comm $t/wchan $t/stack; echo; done 2>/dev/null";
	FILE *pipe = popen(command.c_str(), "re"); // NOLINT(cert-env33-c)
	std::array<char, 512> line{};

	while (pipe && fgets(line.data(), line.size(), pipe))
		text << "    | " << line.data();
	if (pipe)
		pclose(pipe);
	return text.str();
}

struct Process {
	pid_t pid;
	const Kind *kind;
	unsigned int number;
	Clock::time_point end;
	std::optional<Clock::time_point> kill_at;
	bool killed = false;
};

class Storm {
public:
	explicit Storm(const Options &options) : options_(options)
	{
		void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			vt::fail("mmap", errno);
		shared_ = new (memory) Shared();
	}

	bool run()
	{
		choose();
		end_ = Clock::now() + seconds(options_.duration);
		if (with_bystander_)
			start_bystander();
		const auto latest = end_ + seconds(options_.patience);
		while (Clock::now() < end_ && good_) {
			// On a slow machine some need more time to have been of use.
			if (Clock::now() + seconds(1) > end_ && end_ < latest && lacking())
				end_ += seconds(5);
			if (Clock::now() + seconds(1) < end_)
				start_missing();
			look();
		}
		while (!processes_.empty())
			look();
		if (with_bystander_)
			stop_bystander();
		if (own_hosts_)
			remove_hosts();
		judge();
		return good_;
	}

private:
	void choose()
	{
		const std::string &only = options_.only;

		if (only == "devices") {
			own_hosts_ = true;
			churn_ = &device_churn;
			chosen_ = {&busy};
			make_hosts();
		} else if (only == "module") {
			with_bystander_ = false;
			churn_ = &module_churn;
			chosen_ = {&busy};
		}
		for (const Kind &kind : kinds)
			if (only.empty() || only == kind.name)
				chosen_.push_back(&kind);
	}

	void start_missing()
	{
		if (churn_ && !churn_running())
			start(*churn_);
		if (with_company() < options_.processes)
			start(*chosen_.at(random_.below(static_cast<std::uint32_t>(chosen_.size()))));
	}
	std::size_t with_company() const { return processes_.size() - (churn_running() ? 1 : 0); }
	bool churn_running() const
	{
		return std::any_of(
			processes_.begin(), processes_.end(), [&](const Process &p) { return p.kind == churn_; });
	}

	Tally &tally(const Kind &kind)
	{
		for (std::size_t i = 0; i < kinds.size(); i++)
			if (&kind == &kinds.at(i))
				return shared_->tallies.at(i);
		return shared_->tallies.at(kinds.size() + (&kind == &busy ? 0 : 1));
	}

	void fault(const std::string &what)
	{
		std::cout << "storm: " << what << std::endl;
		good_ = false;
	}
	static std::string name(const Process &process)
	{
		return std::string(process.kind->name) + " " + std::to_string(process.number);
	}

	/// Runs it in a new process. Its status is 1 if it throws.
	template <typename Play>
	pid_t in_child(const std::string &name, Play play)
	{
		std::cout.flush();
		const pid_t pid = fork();

		if (pid < 0)
			vt::fail("fork", errno);
		if (pid > 0)
			return pid;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int status = 0;
		try {
			play();
		} catch (const std::exception &error) {
			std::cout << "storm: " << name << ": " << error.what() << std::endl;
			status = 1;
		}
		_exit(status);
	}

	void start(const Kind &kind)
	{
		const unsigned int number = options_.child.value_or(numbers_[&kind]++);
		const auto place = static_cast<std::uint32_t>(&tally(kind) - shared_->tallies.data());
		Random random{options_.seed, place, number};
		const auto now = Clock::now();
		Process process = {.pid = 0, .kind = &kind, .number = number, .end = end_};

		if (kind.may_be_killed) {
			const milliseconds life(random.between(1000, 6000));
			process.end = std::min(end_, now + life);
			if (random.one_in(2))
				process.kill_at =
					now + milliseconds(random.below(static_cast<std::uint32_t>(life.count())));
		}
		process.pid = in_child(name(process), [&] {
			{
				Part part(random, process.end, tally(kind));
				if (own_hosts_) {
					setenv("KIWARP_TEST_CLIENT", hosts_client, 1);
					setenv("KIWARP_TEST_SERVER", hosts_server, 1);
				}
				kind.play(part);
			}
			demand(vt::pinned() == 0, "memory is still pinned");
		});
		processes_.push_back(process);
		started_++;
	}

	void start_bystander()
	{
		bystander_ = in_child(
			"bystander", [&] { stand_by(Random{options_.seed}, shared_->beats, shared_->stop_bystander); });
		last_beat_ = Clock::now();
	}
	void look_at_bystander()
	{
		int status = 0;

		if (bystander_ <= 0)
			return;
		if (waitpid(bystander_, &status, WNOHANG) == bystander_) {
			bystander_ = 0;
			fault("the bystander ended");
			return;
		}
		if (shared_->beats != beats_) {
			beats_ = shared_->beats;
			last_beat_ = Clock::now();
		} else if (Clock::now() > last_beat_ + seconds(options_.patience)) {
			fault("the bystander stands still\n" + stacks(bystander_));
			kill(bystander_, SIGKILL);
			bystander_ = 0;
		}
	}
	void stop_bystander()
	{
		int status = 0;

		if (bystander_ <= 0)
			return;
		shared_->stop_bystander = true;
		const auto late = Clock::now() + seconds(options_.patience);
		while (waitpid(bystander_, &status, WNOHANG) != bystander_) {
			if (Clock::now() > late) {
				fault("the bystander doesn't end\n" + stacks(bystander_));
				kill(bystander_, SIGKILL);
				return;
			}
			usleep(10000);
		}
		if (status)
			fault("the bystander failed");
		if (!beats_)
			fault("the bystander did nothing");
	}

	/// Reaps, kills, and finds late processes.
	void look()
	{
		const auto now = Clock::now();

		look_at_bystander();
		std::erase_if(processes_, [&](Process &process) {
			int status = 0;
			if (waitpid(process.pid, &status, WNOHANG) == process.pid) {
				if (WIFSIGNALED(status) && !(process.killed && WTERMSIG(status) == SIGKILL))
					fault(name(process) + " died of signal " + std::to_string(WTERMSIG(status)));
				if (WIFEXITED(status) && WEXITSTATUS(status))
					fault(name(process) + " failed");
				return true;
			}
			if (process.kill_at && now > *process.kill_at && !process.killed) {
				kill(process.pid, SIGKILL);
				process.killed = true;
				process.end = now;
				killed_++;
			}
			if (now > process.end + seconds(2 * options_.patience)) {
				fault(name(process) + (process.killed ? " can't be killed\n" : " doesn't end\n") +
					stacks(process.pid));
				kill(process.pid, SIGKILL);
				return true;
			}
			return false;
		});
		usleep(10000);
	}

	/// A kind that hasn't done what it is there for; none where the time is too short to prove anything.
	const Kind *lacking()
	{
		for (const Kind *kind : chosen_) {
			const Tally &t = tally(*kind);
			unsigned int done = 0;

			for (const auto &[counter, need] : {std::pair(&t.connections, connections),
				     std::pair(&t.completed, completed), std::pair(&t.failed, failed),
				     std::pair(&t.refused, refused), std::pair(&t.faults, faults)})
				done |= *counter ? unsigned{need} : 0U;
			if (options_.duration >= 10 && (done & kind->needs) != kind->needs)
				return kind;
		}
		return nullptr;
	}

	void judge()
	{
		std::cout << "storm: seed " << options_.seed << ": " << started_ << " processes, " << killed_
			  << " killed, " << beats_ << " rounds of the bystander\n";
		for (const Kind *kind : chosen_) {
			const Tally &t = tally(*kind);
			std::cout << "storm: " << kind->name << ": " << t.connections << " connections, " << t.completed
				  << " completions, " << t.failed << " with an error, " << t.accepted
				  << " calls accepted, " << t.refused << " refused, " << t.faults << " page faults\n";
		}
		if (const Kind *kind = good_ ? lacking() : nullptr)
			fault(std::string(kind->name) + " did less than it should");
		if (!good_)
			std::cout << "storm: again: --seed " << options_.seed
				  << (options_.only.empty() ? "" : " --only " + options_.only)
				  << ", or one of the processes alone with --only KIND --child NUMBER" << std::endl;
	}

	Options options_;
	Shared *shared_;
	Random random_{options_.seed, 0xffffffffU};
	bool good_ = true;
	bool with_bystander_ = true;
	bool own_hosts_ = false;
	const Kind *churn_ = nullptr;
	std::vector<const Kind *> chosen_;
	std::vector<Process> processes_;
	std::map<const Kind *, unsigned int> numbers_;
	Clock::time_point end_;
	unsigned int started_ = 0;
	unsigned int killed_ = 0;
	pid_t bystander_ = 0;
	std::uint64_t beats_ = 0;
	Clock::time_point last_beat_;
};

int play(int argc, char **argv)
{
	CLI::App app("Hostile processes, and one beside them that must not notice.");
	Options options;
	std::vector<std::string> names = {"devices", "module"};

	for (const Kind &kind : kinds)
		names.emplace_back(kind.name);
	app.add_option("--seconds", options.duration, "how long it goes on")->check(CLI::Range(1U, 1000000U));
	app.add_option("--seed", options.seed, "what decides everything but the scheduling");
	app.add_option("--only", options.only, "one kind of storm; devices and module come only by this")
		->check(CLI::IsMember(names));
	app.add_option("--child", options.child, "only the process of this number, again and again");
	app.add_option("--processes", options.processes, "hostile ones at once")->check(CLI::Range(1U, 64U));
	app.add_option("--patience", options.patience, "seconds after which what stands still hangs")
		->check(CLI::Range(1U, 10000U));
	CLI11_PARSE(app, argc, argv);

	std::cout << "storm: seed " << options.seed << std::endl;
	setenv("KIWARP_TEST_PATIENCE", std::to_string(options.patience).c_str(), 1); // NOLINT(concurrency-mt-unsafe)
	return Storm(options).run() ? 0 : 1;
}

} // namespace
} // namespace storm

int main(int argc, char **argv)
{
	try {
		return storm::play(argc, argv);
	} catch (const std::exception &error) {
		std::fprintf(stdout, "storm: %s\n", error.what());
		return 1;
	}
}
