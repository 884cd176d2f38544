// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Direct verbs that sleep until there is a completion, with several threads, against the fake kernel.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "kiwarpdv.h"
#include "provider_fixture.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// Microseconds that no thread of a good test stays
constexpr std::int64_t long_time = 60'000'000;

/// A thread that polls one completion
class Poller {
public:
	Poller(ibv_cq *cq, std::int64_t timeout)
		: thread_([this, cq, timeout] {
			  ibv_wc wc{};
			  id_ = gettid();
			  result_ = kiwarpdv_poll_cq(cq, 1, &wc, timeout);
			  done_ = true;
		  })
	{
	}
	~Poller() { join(); }
	Poller(const Poller &) = delete;
	Poller &operator=(const Poller &) = delete;

	bool done() const { return done_; }
	void join()
	{
		if (thread_.joinable())
			thread_.join();
	}
	/// What the call returned.
	int result()
	{
		join();
		return result_;
	}
	pthread_t handle() { return thread_.native_handle(); }

	/// Whether the kernel says that it sleeps.
	bool asleep() const
	{
		std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
		std::string number, name, state;

		return id_ && file >> number >> name >> state && state == "S";
	}

private:
	std::atomic<pid_t> id_ = 0;
	std::atomic<int> result_ = INT32_MIN;
	std::atomic<bool> done_ = false;
	std::thread thread_;
};

class Direct : public Provider {
protected:
	Direct()
	{
		EXPECT_EQ(pipe(fds_), 0);
		channel.fd = fds_[0];
		channel.refcnt = 1;
		cq->channel = &channel;
	}
	~Direct() override
	{
		cq->channel = nullptr;
		close(fds_[0]);
		close(fds_[1]);
	}

	/// So many threads that sleep.
	std::vector<std::unique_ptr<Poller>> sleepers(int count, std::int64_t timeout = long_time)
	{
		std::vector<std::unique_ptr<Poller>> all;

		for (int i = 0; i < count; i++) {
			all.push_back(std::make_unique<Poller>(cq, timeout));
			while (!all.back()->asleep() || !kernel.cq(cq).header().arm)
				std::this_thread::yield();
		}
		return all;
	}
	/// Completions that come together: the kernel tells of all of them by one event.
	void complete(int count)
	{
		for (int i = 0; i < count; i++)
			kernel.complete(cq, qp, send_cqe(0));
		tell();
	}
	void tell()
	{
		if (kernel.cq(cq).notify()) {
			EXPECT_EQ(write(fds_[1], &cq, sizeof(cq)), sizeof(cq));
		}
	}
	static int done(const std::vector<std::unique_ptr<Poller>> &all)
	{
		int count = 0;

		for (const auto &each : all)
			count += each->done();
		return count;
	}

	ibv_comp_channel channel{};

private:
	int fds_[2];
};

TEST_F(Direct, AnEventIsReadByOneThread)
{
	auto all = sleepers(3);

	for (int i = 1; i <= 3; i++) {
		complete(1);
		while (done(all) < i)
			std::this_thread::yield();
	}
	for (const auto &each : all)
		EXPECT_EQ(each->result(), 1);
	EXPECT_EQ(kernel.vain_reads, 0);
}

TEST_F(Direct, NoThreadSleepsBesideCompletions)
{
	const auto began = Clock::now();
	auto all = sleepers(4);

	complete(4);
	for (const auto &each : all)
		EXPECT_EQ(each->result(), 1);
	EXPECT_LT(Clock::now() - began, seconds(30));
	EXPECT_EQ(kernel.vain_reads, 0);
}

TEST_F(Direct, EachThreadHasItsTime)
{
	auto all = sleepers(1, -1);

	for (const std::int64_t timeout : {1'000, 200'000}) {
		Poller hasty(cq, timeout);
		EXPECT_EQ(hasty.result(), 0);
	}
	EXPECT_FALSE(all[0]->done());
	complete(1);
	EXPECT_EQ(all[0]->result(), 1);
}

// Short times and completions as they come: a thread that leaves may have the event of another.
TEST_F(Direct, ManyShortSleepsFindEverything)
{
	constexpr int count = 400;
	std::atomic<int> got = 0;
	std::vector<std::thread> threads;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([&, i] {
			ibv_wc wc{};
			while (got < count) {
				const int found = kiwarpdv_poll_cq(cq, 1, &wc, 200 + 700 * i);
				ASSERT_GE(found, 0);
				got += found;
			}
		});
	for (int i = 0; i < count; i++) {
		while (!kernel.cq(cq).has_room())
			std::this_thread::yield();
		complete(1);
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(got, count);
	EXPECT_EQ(kernel.vain_reads, 0);
}

TEST_F(Direct, ASignalEndsEachSleep)
{
	struct sigaction action {};
	auto all = sleepers(3, -1);

	action.sa_handler = [](int) {
	};
	action.sa_flags = SA_RESTART;
	ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
	// Those that wait for the first one, before it ends
	for (std::size_t i = all.size(); i-- > 0;) {
		pthread_kill(all[i]->handle(), SIGUSR1);
		EXPECT_EQ(all[i]->result(), -EINTR);
	}
}

TEST_F(Direct, AThreadThatIsCancelledHasASuccessor)
{
	auto all = sleepers(2, -1);

	pthread_cancel(all[0]->handle());
	all[0]->join();
	complete(1);
	EXPECT_EQ(all[1]->result(), 1);
}

TEST_F(Direct, TheChannelStaysAsTheProgramHasIt)
{
	for (const int flags : {0, O_NONBLOCK}) {
		ASSERT_EQ(fcntl(channel.fd, F_SETFL, flags), 0);
		auto all = sleepers(2);
		EXPECT_EQ(fcntl(channel.fd, F_GETFL) & O_NONBLOCK, flags);
		complete(2);
		EXPECT_EQ(all[0]->result() + all[1]->result(), 2);
		EXPECT_EQ(fcntl(channel.fd, F_GETFL) & O_NONBLOCK, flags);
	}
}

TEST_F(Direct, AChannelOfSeveralQueuesIsRefused)
{
	ibv_wc wc{};

	channel.refcnt = 2;
	EXPECT_EQ(kiwarpdv_poll_cq(cq, 1, &wc, 1000), -EINVAL);
	EXPECT_EQ(kiwarpdv_poll_cq(cq, 1, &wc, 0), 0);
	complete(1);
	EXPECT_EQ(kiwarpdv_poll_cq(cq, 1, &wc, -1), 1); // it needn't sleep
}

} // namespace
