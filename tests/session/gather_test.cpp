// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A model of who looks at a send ring: a process that posts, the session that sends (tx.c), acknowledgments, and the
// timer of a carrier that gathers (kmod/gather.h). All orders of their steps are walked through. Stores may wait in a
// store buffer until a fence. No request may be left with nobody to look at it but an acknowledgment. Within a host
// only small requests are gathered: a long one may not be left to the timer either.
#include <cstdint>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <string>

namespace {

/// How a model differs from what is built
struct Form {
	bool gathers = true;
	bool within_host = false;
	bool process_fence = true;	   // between prod and flags
	bool session_fence = true;	   // between flags and prod
	bool timer_waits_for_owner = true; // a callback that finds an owner queues the timer again
	bool timer_sends = true;	   // also where nothing seems to be posted
};

constexpr std::uint8_t posts = 3;
/// Packets that each look puts on their way
constexpr std::uint8_t packets = 2;

enum class Flag : std::uint8_t { none, draining, small };
enum class Process : std::uint8_t { idle, published, ringing, inside, done };
enum class Look : std::uint8_t { none, begins, takes, decides, rests, again, ends };
enum class By : std::uint8_t { none, process, work, softirq, timer };
enum class Timer : std::uint8_t { idle, queued, fired };

struct State {
	std::uint8_t prod = 0, next = 0, mark = 0, posted = 0, unacked = 0;
	std::uint8_t stored = 0;    // prod in the process's store buffer; 0: none
	std::uint8_t last_long = 0; // posted by then
	Flag flag = Flag::none;
	bool flag_stored = false; // the session's store of `rest` waits
	Flag rest = Flag::none;
	bool gathers = false, over = false, calls_back = false, backlog = false, work = false;
	Timer timer = Timer::idle;
	Process process = Process::idle;
	Look look = Look::none;
	By by = By::none;

	auto operator<=>(const State &) const = default;
};

class Model {
public:
	explicit Model(const Form &form) : form_(form) {}

	/// Walks through all states. Returns the steps to a bad one, or nothing.
	std::string bad_path()
	{
		add({}, {}, "");
		while (!open_.empty()) {
			const State state = open_.front();

			open_.pop_front();
			if (is_bad(state))
				return path(state);
			step(state);
		}
		return {};
	}
	std::size_t states() const { return seen_.size(); }

private:
	struct From {
		State state;
		std::string step;
	};

	void add(const State &state, const State &from, const std::string &step)
	{
		if (seen_.emplace(state, From{from, step}).second)
			open_.push_back(state);
	}

	std::string path(const State &state) const
	{
		const From &from = seen_.at(state);

		return from.step.empty() ? "" : path(from.state) + from.step + "; ";
	}

	/// Whether a thread owns the socket
	static bool is_owned(const State &s) { return s.by == By::process || s.by == By::work; }

	/// Whether an acknowledgment has the session look: there is something to send, or nothing to wait for.
	static bool is_called_back(const State &s)
	{
		return s.calls_back && s.gathers && (s.prod != s.next || !s.unacked);
	}

	/// A request is there, and nobody will look but on an acknowledgment.
	bool is_bad(const State &s) const
	{
		const bool quiet = (s.process == Process::idle || s.process == Process::done) && !s.stored &&
				   !s.flag_stored && s.look == Look::none;

		return quiet && s.prod != s.next && !s.work &&
		       (s.timer == Timer::idle || (form_.within_host && s.last_long > s.next));
	}

	void step(const State &s)
	{
		const auto to = [&](const char *name, const std::function<void(State &)> &change) {
			State after = s;

			change(after);
			add(after, s, name);
		};
		process_steps(s, to);
		session_steps(s, to);
		if (s.unacked)
			acknowledge(s, to);
		timer_steps(s, to);
		if (s.work && s.look == Look::none)
			to("work", [](State &n) { n.work = false, n.by = By::work, n.look = Look::begins; });
	}

	using To = std::function<void(const char *, const std::function<void(State &)> &)>;

	void process_steps(const State &s, const To &to) const
	{
		if (s.stored)
			to("prod is visible", [](State &n) { n.prod = n.stored, n.stored = 0; });
		switch (s.process) {
		case Process::idle:
			if (s.posted == posts)
				to("done", [](State &n) { n.process = Process::done; });
			else
				post(to);
			break;
		case Process::published:
			if (!s.stored || !form_.process_fence)
				to("load flags", [](State &n) {
					n.process = n.flag == Flag::draining ||
								    (n.flag == Flag::small && n.last_long != n.posted)
							    ? Process::idle
							    : Process::ringing;
				});
			break;
		case Process::ringing:
			// The system call orders what was stored before.
			if (s.look == Look::none && !s.stored)
				to("doorbell", [](State &n) {
					n.process = Process::inside, n.by = By::process, n.look = Look::begins;
				});
			break;
		default:
			break;
		}
	}

	void post(const To &to) const
	{
		const auto publish = [](State &n) {
			n.stored = ++n.posted, n.process = Process::published;
		};

		to("post", publish);
		if (form_.within_host)
			to("post a long one", [publish](State &n) { publish(n), n.last_long = n.posted; });
	}

	void session_steps(const State &s, const To &to) const
	{
		if (s.flag_stored)
			to("flag is visible", [](State &n) { n.flag = n.rest, n.flag_stored = false; });
		switch (s.look) {
		case Look::none:
			break;
		case Look::begins:
			to("set flag",
				[](State &n) { n.flag = Flag::draining, n.flag_stored = false, n.look = Look::takes; });
			break;
		case Look::takes:
			if (s.prod != s.next)
				to("take", [](State &n) { n.next = n.prod, n.unacked = packets; });
			else
				to("ring is empty", [](State &n) { n.look = Look::decides; });
			break;
		case Look::decides:
			to("decide", [this](State &n) { decide(n); });
			break;
		case Look::rests:
			to("clear flag", [](State &n) { n.flag_stored = true, n.look = Look::again; });
			break;
		case Look::again:
			if (!s.flag_stored || !form_.session_fence)
				to("look again",
					[](State &n) { n.look = n.prod != n.next ? Look::begins : Look::ends; });
			break;
		case Look::ends:
			to("let go", [](State &n) { let_go(n); });
			break;
		}
	}

	/// kiw_gather(), and what tx_run() does by its answer
	void decide(State &n) const
	{
		const bool may = form_.gathers && n.unacked && !(form_.within_host && n.last_long == n.next);
		const bool over = n.gathers && (n.over || (form_.within_host && !may));
		const bool worth = n.next - n.mark > 1, starts = !n.gathers;

		n.over = n.gathers = false;
		n.look = Look::rests;
		n.rest = Flag::none;
		if (!may || (over && !worth))
			return;
		if (starts || n.timer != Timer::queued)
			n.mark = n.next, n.timer = Timer::queued;
		n.gathers = n.calls_back = true;
		if (form_.within_host)
			n.rest = Flag::small;
		else
			n.look = Look::ends;
	}

	/// An owner handles what came in meanwhile, or has the work do so.
	static void let_go(State &n)
	{
		if (is_owned(n) && n.backlog) {
			n.backlog = false;
			n.work |= is_called_back(n);
		}
		if (n.process == Process::inside)
			n.process = Process::idle;
		n.by = By::none;
		n.look = Look::none;
	}

	static void acknowledge(const State &s, const To &to)
	{
		if (is_owned(s))
			to("ACK behind an owner", [](State &n) { n.unacked--, n.backlog = true; });
		else if (s.look == Look::none)
			to("ACK", [](State &n) {
				n.unacked--;
				if (is_called_back(n))
					n.by = By::softirq, n.look = Look::begins;
			});
	}

	void timer_steps(const State &s, const To &to) const
	{
		if (s.timer == Timer::queued)
			to("timer fires", [](State &n) { n.timer = Timer::fired; });
		if (s.timer != Timer::fired)
			return;
		if (is_owned(s)) {
			to("timer finds an owner", [this](State &n) {
				n.timer = form_.timer_waits_for_owner ? Timer::queued : Timer::idle;
			});
		} else if (s.look == Look::none) {
			to("timer sends", [this](State &n) {
				n.timer = Timer::idle;
				if (!form_.timer_sends && n.prod == n.next)
					return;
				n.over = true, n.by = By::timer, n.look = Look::begins;
			});
		}
	}

	Form form_;
	std::map<State, From> seen_;
	std::deque<State> open_;
};

/// What leaves a request in a model
std::string left_by(const Form &form)
{
	Model model(form);
	std::string path = model.bad_path();

	std::cout << model.states() << " states" << (path.empty() ? "" : ": " + path) << '\n';
	return path;
}

TEST(Gathering, LeavesNoRequestToAnAcknowledgmentAlone)
{
	EXPECT_EQ(left_by({}), "");
}

TEST(Gathering, LeavesNoLongRequestToTheTimerWithinAHost)
{
	EXPECT_EQ(left_by({.within_host = true}), "");
}

TEST(Gathering, IsNotWhatFindsEachRequest)
{
	EXPECT_EQ(left_by({.gathers = false}), "");
}

TEST(Gathering, NeedsTheFencesOfBothSides)
{
	for (const bool within_host : {false, true}) {
		EXPECT_NE(left_by({.within_host = within_host, .process_fence = false}), "");
		EXPECT_NE(left_by({.within_host = within_host, .session_fence = false}), "");
	}
}

TEST(Gathering, NeedsATimerThatComesBack)
{
	for (const bool within_host : {false, true}) {
		EXPECT_NE(left_by({.within_host = within_host, .timer_waits_for_owner = false}), "");
		EXPECT_NE(left_by({.within_host = within_host, .timer_sends = false}), "");
	}
}

} // namespace
