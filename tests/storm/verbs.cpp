// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Verbs in the wrong order, in the wrong state, of objects that are gone or in use, by several threads at once, and a
// device that is closed under all of it.
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "sides.hpp"

namespace storm {

namespace {

constexpr int steps_per_thread = 400;
constexpr std::size_t most_objects = 24; // of a kind

/// Handles, of objects that are there and of some that no longer are.
class Handles {
public:
	void add(std::uint32_t handle)
	{
		const std::scoped_lock lock(mutex_);

		handles_.push_back(handle);
		if (handles_.size() > most_objects)
			handles_.erase(handles_.begin());
	}
	std::uint32_t any(Random &random)
	{
		const std::scoped_lock lock(mutex_);

		if (handles_.empty() || random.one_in(50))
			return random.nonsense(8);
		return handles_[random.below(static_cast<std::uint32_t>(handles_.size()))];
	}
	/// As any(), and mostly forgets it.
	std::uint32_t take(Random &random)
	{
		const std::scoped_lock lock(mutex_);

		if (handles_.empty() || random.one_in(50))
			return random.nonsense(8);
		const std::size_t place = random.below(static_cast<std::uint32_t>(handles_.size()));
		const std::uint32_t handle = handles_[place];
		if (!random.one_in(4))
			handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(place));
		return handle;
	}

private:
	std::mutex mutex_;
	std::vector<std::uint32_t> handles_;
};

class Disorder {
public:
	Disorder(Part &part, RawPair &pair) : part_(part), pair_(pair)
	{
		const RawSide &side = pair.a;

		pds_.add(side.pd());
		cqs_.add(side.cq().handle);
		qps_.add(side.qp().handle);
		mrs_.add(side.mr().handle);
		mws_.add(side.window().handle);
		if (side.srq())
			srqs_.add(side.srq()->handle);
	}
	~Disorder()
	{
		for (const int fd : channels_)
			close(fd);
	}
	Disorder(const Disorder &) = delete;
	Disorder &operator=(const Disorder &) = delete;

	void run(Random random, const std::atomic<bool> &stop)
	{
		for (int i = 0; i < steps_per_thread && !stop && part_.running(); i++)
			(void)part_.counted(step(random));
	}

private:
	const Uverbs &device() const { return pair_.a.device(); }

	int step(Random &random)
	{
		switch (random.below(20)) {
		case 0:
			return add_pd();
		case 1:
			return add_mr(random);
		case 2:
			return add_cq(random);
		case 3:
		case 4:
			return add_qp(random);
		case 5:
			return device().dealloc_pd(pds_.take(random));
		case 6:
			return device().dereg_mr(mrs_.take(random));
		case 7:
			return device().destroy_cq(cqs_.take(random));
		case 8:
			return device().destroy_qp(qps_.take(random));
		case 9:
			return add_channel(random);
		case 10: {
			std::uint32_t state = 0;
			return device().query_state(qps_.any(random), state);
		}
		case 11:
		case 12:
			return modify(random);
		case 13:
			return add_mw(random);
		case 14:
			return add_srq(random);
		case 15:
			return random.one_in(2) ? device().dealloc_mw(mws_.take(random))
						: device().destroy_srq(srqs_.take(random));
		case 16: {
			Ring ring;
			return device().modify_srq(
				srqs_.any(random), random.below(5), random.below(200), random.below(20), ring);
		}
		case 17:
			return device().srq_doorbell(srqs_.any(random));
		default:
			return device().doorbell(qps_.any(random), random.one_in(2));
		}
	}

	int add_pd()
	{
		std::uint32_t pd = 0;
		const int error = device().alloc_pd(pd);

		if (!error)
			pds_.add(pd);
		return error;
	}
	int add_mr(Random &random)
	{
		const Pages &memory = pair_.a.memory();
		std::uint64_t start = memory.address() + random.below(65536);
		std::uint64_t length = random.between(1, 4096);
		std::uint32_t access = random.below(8);
		MrMade made;

		if (random.one_in(10))
			start = random.any();
		if (random.one_in(10))
			length = random.any() >> random.below(64);
		if (random.one_in(10))
			access = random.word();
		const int error = device().reg_mr(pds_.any(random), start, length, access, made);
		if (!error)
			mrs_.add(made.handle);
		return error;
	}
	int add_mw(Random &random)
	{
		MrMade made;
		const int error = device().alloc_mw(pds_.any(random), random.below(4), made);

		if (!error)
			mws_.add(made.handle);
		return error;
	}
	int add_srq(Random &random)
	{
		SrqMade made;
		const int error = device().create_srq(pds_.any(random),
			random.one_in(5) ? random.nonsense(16) : random.below(100), random.below(17), made);

		if (!error)
			srqs_.add(made.handle);
		return error;
	}
	int add_cq(Random &random)
	{
		std::uint32_t entries = random.between(1, 500);
		int channel = -1;
		CqMade made;

		if (random.one_in(10))
			entries = random.one_in(2) ? 0 : (1U << 20) + random.between(1, 1U << 30);
		{
			const std::scoped_lock lock(mutex_);
			if (!channels_.empty() && random.one_in(2))
				channel = channels_[random.below(static_cast<std::uint32_t>(channels_.size()))];
		}
		const int error = device().create_cq(entries, channel, made);
		if (!error)
			cqs_.add(made.handle);
		return error;
	}
	int add_qp(Random &random)
	{
		QpWish wish = {.pd = pds_.any(random),
			.send_cq = cqs_.any(random),
			.recv_cq = cqs_.any(random),
			.cap = {random.below(100), random.below(100), random.below(17), random.below(17),
				random.below(513)},
			.srq = random.one_in(3) ? std::optional(srqs_.any(random)) : std::nullopt};
		QpMade made;

		if (random.one_in(5))
			*random.pick(std::array{&wish.cap.max_send_wr, &wish.cap.max_recv_wr, &wish.cap.max_send_sge,
				&wish.cap.max_recv_sge, &wish.cap.max_inline_data}) = random.nonsense(16);
		const int error = device().create_qp(wish, made);
		if (!error)
			qps_.add(made.handle);
		return error;
	}
	int add_channel(Random &random)
	{
		const std::scoped_lock lock(mutex_);
		int fd = -1;

		// Closed under the CQs that use it
		if (!channels_.empty() && (channels_.size() > 8 || random.one_in(2))) {
			close(channels_.back());
			channels_.pop_back();
			return 0;
		}
		const int error = device().create_channel(fd);
		if (!error)
			channels_.push_back(fd);
		return error;
	}
	int modify(Random &random)
	{
		std::uint32_t mask = IBV_QP_STATE;

		if (random.one_in(2))
			mask = random.one_in(2) ? random.below(64) : random.word();
		return device().modify_qp(qps_.any(random), mask, random.below(9), random.below(9),
			random.one_in(4) ? random.word() : random.below(8));
	}

	Part &part_;
	RawPair &pair_;
	Handles pds_, cqs_, qps_, mrs_, mws_, srqs_;
	std::mutex mutex_;
	std::vector<int> channels_;
};

/// What another thread's doorbell is just using is busy, for a moment.
int destroy_under_traffic(const RawSide &side)
{
	int error = 0;

	while ((error = side.device().destroy_qp(side.qp().handle)) == EBUSY)
		std::this_thread::yield();
	return error;
}

/// What is in use isn't destroyed.
void hold_on(const RawSide &side)
{
	demand(side.device().destroy_cq(side.cq().handle) == EBUSY, "a CQ with a QP was destroyed");
	demand(side.device().dealloc_pd(side.pd()) == EBUSY, "a PD with a QP and a region was given up");
	demand(side.device().destroy_qp(side.qp().handle + 100000) != 0, "a QP that never was could be destroyed");
}

/// Posts in whatever state the QP is.
void traffic(Part &part, RawPair &pair, Random random, const std::atomic<bool> &stop)
{
	for (int i = 0; i < 20 * steps_per_thread && !stop && part.running(); i++)
		(void)part.counted(pair.exchange(random, part.tally));
}

void one_round(Part &part, const Devices &devices, vt::Listener &listener)
{
	Random &random = part.random;
	RawPair pair(devices, listener, part);
	Disorder disorder(part, pair);
	std::atomic<bool> stop = false;
	std::vector<std::jthread> threads;

	hold_on(pair.a);
	hold_on(pair.b);
	threads.emplace_back([&, mine = random.child()] { traffic(part, pair, mine, stop); });
	for (int i = 0; i < 3; i++)
		threads.emplace_back([&, mine = random.child()] { disorder.run(mine, stop); });

	// The other side is left alone until it loses its region, its connection, or its whole device.
	std::this_thread::sleep_for(std::chrono::microseconds(random.below(100000)));
	const Uverbs &other = pair.b.device();
	switch (random.below(6)) {
	case 0:
		// A region keeps the windows that are bound to it.
		demand(other.dealloc_mw(pair.b.window().handle) == 0, "a window under traffic isn't given up");
		demand(other.dereg_mr(pair.b.mr().handle) == 0, "a region under traffic isn't given up");
		break;
	case 1:
		demand(destroy_under_traffic(pair.b) == 0, "a QP under traffic isn't destroyed");
		break;
	case 2:
		(void)rdma_disconnect(pair.server());
		break;
	case 3:
		other.close();
		break;
	case 4:
		pair.a.device().close();
		break;
	default:
		break;
	}
	std::this_thread::sleep_for(std::chrono::microseconds(random.below(50000)));
	if (random.one_in(2))
		stop = true;
	if (random.one_in(2))
		pair.a.device().close();
	for (std::jthread &thread : threads)
		thread.join();
}

} // namespace

void misorder_verbs(Part &part)
{
	const Devices devices = find_devices();
	vt::Listener listener;

	while (part.running())
		one_round(part, devices, listener);
}

} // namespace storm
