// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Processes that write what they like into their rings while the kernel works with them: indexes, requests, requests
// that change while they are read.
#include <array>
#include <atomic>
#include <thread>

#include "sides.hpp"

namespace storm {

namespace {

constexpr int rounds_per_pair = 300;
constexpr int flips_per_pair = 200000;
constexpr int doorbells_per_pair = 20000;

/// Words of a ring's header that mean something: prod, cons, flags or arm.
constexpr std::array<std::uint32_t, 3> header_words = {0, 16, 17};

const Mapping &any_ring(const RawSide &side, Random &random)
{
	return *random.pick(std::array{&side.sq_ring(), &side.rq_ring(), &side.cq_ring()});
}

void spoil_index(const RawSide &side, Random &random)
{
	std::atomic_ref word(any_ring(side, random).words()[random.pick(header_words)]);

	word.store(random.nonsense(word.load()));
}

void spoil_anything(const RawSide &side, Random &random)
{
	const std::span<std::uint8_t> ring = any_ring(side, random).octets();

	for (std::uint32_t n = random.below(64); n > 0; n--)
		ring[random.below(static_cast<std::uint32_t>(ring.size()))] = random.octet();
}

/// Changes one field of a request for a moment and restores it: a kernel that reads it twice gets both values.
void flip(const RawSide &side, Random &random, bool back)
{
	// The first slots are those that are in use the most.
	const std::uint32_t index = random.below(random.one_in(2) ? 8 : side.sq_ring().ring().entries);
	auto *wqe = reinterpret_cast<kiw_wqe *>(side.sq_ring().slot(index));
	auto *sge = reinterpret_cast<kiw_sge *>(wqe + 1);
	const auto change = [&]<typename T>(T &field, T bad) {
		const std::atomic_ref word(field);
		const T good = word.exchange(bad);

		if (!back)
			return;
		for (std::uint32_t i = random.below(64); i > 0; i--)
			word.load();
		word.store(good);
	};

	switch (random.below(8)) {
	case 0:
		return change(wqe->opcode, random.octet());
	case 1:
		return change(wqe->flags, static_cast<std::uint8_t>(wqe->flags ^ (1U << random.below(8))));
	case 2:
		return change(wqe->num_sge, static_cast<std::uint8_t>(random.nonsense(side.qp().cap.max_send_sge)));
	case 3:
		return change(wqe->inline_len, random.nonsense(side.qp().cap.max_inline_data));
	case 4:
		return change(wqe->remote_addr, static_cast<decltype(wqe->remote_addr)>(random.any()));
	case 5:
		return change(sge->length, random.nonsense(sge->length));
	case 6:
		return change(sge->addr, static_cast<decltype(sge->addr)>(random.any()));
	default:
		return change(sge->lkey, random.nonsense(sge->lkey));
	}
}

void flip_receive(const RawSide &side, Random &random)
{
	auto *rqe = reinterpret_cast<kiw_rqe *>(side.rq_ring().slot(random.below(8)));
	const std::atomic_ref count(rqe->num_sge);
	const std::uint8_t good = count.exchange(static_cast<std::uint8_t>(random.nonsense(rqe->num_sge)));

	count.store(good);
}

class Scribbler {
public:
	Scribbler(Part &part, const Devices &devices, vt::Listener &listener)
		: part_(part),
		  random_(part.random.child()),
		  pair_(devices, listener, part),
		  // Some only do what is nearly right, so that the traffic goes on for long.
		  doubt_{random_.pick(std::array<std::uint32_t, 4>{0, 40, 200, 1000})},
		  wild_(random_.pick(std::array<std::uint32_t, 4>{0, 200, 40, 10}))
	{
	}

	void play()
	{
		for (std::uint32_t n = random_.below(4); n > 0; n--) {
			RawSide &side = pair_.either(random_);
			(void)part_.counted(side.resize(random_));
			side.receive(random_, doubt_);
		}
		std::thread flipper([this, random = random_.child()]() mutable { flip_all(random); });
		std::thread ringer([this, random = random_.child()]() mutable { ring_all(random); });

		for (int round = 0; round < rounds_per_pair && part_.running(); round++) {
			act();
			if (pair_.a.in_error() && pair_.b.in_error() && random_.one_in(16))
				break;
		}
		stop_ = true;
		flipper.join();
		ringer.join();
		leave();
	}

private:
	void act()
	{
		RawSide &side = pair_.either(random_);

		for (std::uint32_t n = random_.below(8); n > 0; n--)
			side.receive(random_, doubt_);
		for (std::uint32_t n = random_.below(5); n > 0; n--)
			side.post(random_, pair_.other(side), doubt_);
		(void)part_.counted(side.ring(true));
		if (!random_.one_in(8)) {
			pair_.a.drain(part_.tally);
			pair_.b.drain(part_.tally);
		}
		if (random_.one_in(4))
			std::atomic_ref(side.cq_ring().words()[17]).store(random_.below(4));
		if (wild_ && random_.one_in(wild_))
			spoil_index(side, random_);
		if (wild_ && random_.one_in(wild_))
			spoil_anything(side, random_);
		// The new ring has no other user than the kernel: what is written into the old one is nothing to it.
		if (Ring ring; side.srq() && random_.one_in(wild_ ? 100 : 2000))
			(void)part_.counted(side.device().modify_srq(side.srq()->handle, random_.below(4),
				random_.one_in(2) ? random_.below(200) : random_.nonsense(64), random_.below(100),
				ring));
		if (random_.one_in(wild_ ? 100 : 2000))
			(void)part_.counted(
				side.device().modify_qp(side.qp().handle, IBV_QP_STATE, random_.below(7), 0, 0));
	}

	void flip_all(Random &random)
	{
		const bool back = !random.one_in(4);
		const std::uint32_t pause = random.below(1000);

		// Without doubt, nothing is wrong in the requests either.
		for (int i = 0; doubt_.one_in && i < flips_per_pair && !stop_ && part_.running(); i++) {
			RawSide &side = pair_.either(random);
			if (random.one_in(8))
				flip_receive(side, random);
			else
				flip(side, random, back);
			for (std::uint32_t n = 0; n < pause; n++)
				std::atomic_ref(side.sq_ring().words()[16]).load();
		}
	}

	void ring_all(Random &random)
	{
		for (int i = 0; i < doorbells_per_pair && !stop_ && part_.running(); i++) {
			const RawSide &side = pair_.either(random);
			(void)part_.counted(side.ring(random.one_in(2)));
			if (random.one_in(8))
				std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
		}
	}

	/// The end comes in some order, with the rings as they are.
	void leave()
	{
		for (RawSide *side : {&pair_.a, &pair_.b}) {
			const Uverbs &device = side->device();
			if (random_.one_in(2))
				(void)device.modify_qp(side->qp().handle, IBV_QP_STATE, IBV_QPS_ERR, 0, 0);
			if (random_.one_in(2))
				(void)side->ring(random_.one_in(2));
			if (random_.one_in(2))
				(void)device.modify_qp(side->qp().handle, IBV_QP_STATE, IBV_QPS_RESET, 0, 0);
			if (random_.one_in(2))
				demand(device.destroy_qp(side->qp().handle) == 0,
					"a QP with a spoilt ring isn't destroyed");
			if (random_.one_in(2))
				(void)device.dealloc_mw(side->window().handle);
			side->drain(part_.tally);
		}
	}

	Part &part_;
	Random random_;
	RawPair pair_;
	const Doubt doubt_;
	const std::uint32_t wild_;
	std::atomic<bool> stop_ = false;
};

} // namespace

void scribble_rings(Part &part)
{
	const Devices devices = find_devices();
	vt::Listener listener;

	while (part.running())
		Scribbler(part, devices, listener).play();
}

} // namespace storm
