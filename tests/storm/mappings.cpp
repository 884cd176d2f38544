// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Rings that are mapped in every way, right and wrong, while their queues come and go and traffic runs through them.
#include <array>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "sides.hpp"
#include "touch.hpp"

namespace storm {

namespace {

constexpr std::size_t page = 4096;
constexpr int steps_per_round = 400;

/// The mappings of one process. Several threads map, use and spoil them, each at a time by one: an address that was
/// given back may be anything a moment later.
class Mappings {
public:
	Mappings(Part &part, const Uverbs &device) : part_(part), device_(device) {}
	~Mappings()
	{
		for (Place &place : places_)
			drop(place);
	}
	Mappings(const Mappings &) = delete;
	Mappings &operator=(const Mappings &) = delete;

	void learn(const Ring &ring)
	{
		const std::scoped_lock lock(mutex_);

		rings_.push_back(ring);
		if (rings_.size() > 16)
			rings_.erase(rings_.begin());
	}

	void step(Random &random)
	{
		Place &place = places_.at(random.below(static_cast<std::uint32_t>(places_.size())));
		const std::scoped_lock lock(place.mutex);

		if (!place.data)
			return map(place, random);
		switch (random.below(12)) {
		case 0:
			return drop(place);
		case 1:
			return unmap_some(place, random);
		case 2:
			return protect(place, random);
		case 3:
			return move(place, random);
		case 4:
			return advise(place, random);
		case 5:
			return fork_with_it(place, random);
		case 6:
			return reach_from_outside(place, random);
		default:
			return use(place, random);
		}
	}

private:
	struct Place {
		std::mutex mutex;
		std::uint8_t *data = nullptr;
		std::size_t size = 0;
	};

	void count(bool good) const { (void)part_.counted(good ? 0 : errno); }

	/// A ring that is, or was; often nearly right.
	Ring any_ring(Random &random)
	{
		const std::scoped_lock lock(mutex_);
		Ring ring = rings_.at(random.below(static_cast<std::uint32_t>(rings_.size())));

		if (!random.one_in(3))
			return ring;
		switch (random.below(5)) {
		case 0:
			ring.size += page * random.between(1, 4);
			break;
		case 1:
			ring.size = page * random.below(static_cast<std::uint32_t>(ring.size / page + 1));
			break;
		case 2:
			ring.offset += page * random.between(1, 3);
			break;
		case 3:
			ring.offset = page * std::uint64_t{random.word()};
			break;
		default:
			ring.offset = random.any() & ~std::uint64_t{page - 1};
			break;
		}
		return ring;
	}

	void map(Place &place, Random &random)
	{
		const Ring ring = any_ring(random);
		const int flags = random.one_in(8) ? MAP_PRIVATE : MAP_SHARED;
		int protection = PROT_READ | PROT_WRITE;

		if (random.one_in(3))
			protection = random.one_in(2) ? PROT_READ : static_cast<int>(random.below(8));
		void *memory =
			mmap(nullptr, ring.size, protection, flags, device_.fd(), static_cast<off_t>(ring.offset));
		count(memory != MAP_FAILED);
		if (memory == MAP_FAILED)
			return;
		demand(flags == MAP_SHARED, "a private mapping of a ring was made");
		demand(!(protection & PROT_EXEC), "a mapping of a ring that may be executed was made");
		place.data = static_cast<std::uint8_t *>(memory);
		place.size = ring.size;
	}

	static void drop(Place &place)
	{
		if (place.data)
			munmap(place.data, place.size);
		place.data = nullptr;
	}

	/// Some of its pages
	static std::span<std::uint8_t> some_of(const Place &place, Random &random)
	{
		const auto pages = static_cast<std::uint32_t>(place.size / page);
		const std::uint32_t start = random.below(pages);

		return {place.data + start * page, page * random.between(1, pages - start)};
	}

	/// Nothing else gets there: the place is still ours as a whole.
	static void unmap_some(const Place &place, Random &random)
	{
		const std::span<std::uint8_t> some = some_of(place, random);

		(void)mmap(some.data(), some.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
			-1, 0);
	}

	void protect(const Place &place, Random &random) const
	{
		const std::span<std::uint8_t> some = some_of(place, random);

		count(mprotect(some.data(), some.size(), static_cast<int>(random.below(8))) == 0);
	}

	void move(Place &place, Random &random) const
	{
		const auto pages = static_cast<std::uint32_t>(place.size / page);
		// Longer ones are refused: there is nothing behind the ring.
		const std::size_t size =
			page * (random.one_in(3) ? pages + random.between(1, 4) : random.between(1, pages));
		void *memory = mremap(place.data, place.size, size, random.one_in(4) ? 0 : MREMAP_MAYMOVE);

		count(memory != MAP_FAILED);
		if (memory == MAP_FAILED)
			return;
		place.data = static_cast<std::uint8_t *>(memory);
		place.size = size;
	}

	void advise(const Place &place, Random &random) const
	{
		const std::span<std::uint8_t> some = some_of(place, random);
		const int advice = random.pick(std::array{MADV_DONTNEED, MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK,
			MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_FREE, MADV_MERGEABLE, MADV_POPULATE_WRITE});

		count(madvise(some.data(), some.size(), advice) == 0);
	}

	void use(const Place &place, Random &random) const
	{
		const bool reached = touch([&] {
			for (int i = 0; i < 64; i++) {
				volatile std::uint8_t &octet =
					place.data[random.below(static_cast<std::uint32_t>(place.size))];
				const std::uint8_t was = octet;
				if (random.one_in(2))
					octet = was + 1;
			}
		});

		if (!reached)
			part_.tally.faults++;
	}

	/// The child has mappings and device, uses both, and goes by itself or is killed.
	void fork_with_it(const Place &place, Random &random) const
	{
		const std::uint32_t patience = random.below(4000);
		const bool stays = random.one_in(2);
		const pid_t pid = fork();

		if (pid == 0) {
			// Other threads' locks may be held for ever here: only the kernel is asked for anything.
			touch([&] {
				for (std::size_t i = 0; i < place.size; i += 64)
					place.data[i] ^= 0x55;
			});
			(void)device_.doorbell(1, true);
			if (stays)
				usleep(patience + 20000);
			_exit(0);
		}
		if (pid < 0)
			return;
		usleep(patience);
		kill(pid, SIGKILL);
		while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
			;
	}

	/// Through the kernel: these ways have checks of their own.
	void reach_from_outside(const Place &place, Random &random) const
	{
		std::array<std::uint8_t, 256> octets{};
		const iovec ours = {octets.data(), octets.size()};
		const iovec theirs = {place.data + random.below(static_cast<std::uint32_t>(place.size)), octets.size()};
		const auto address = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(theirs.iov_base));

		switch (random.below(4)) {
		case 0:
			return count(process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0) >= 0);
		case 1:
			return count(process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) >= 0);
		case 2: {
			const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
			count(pwrite(memory, octets.data(), octets.size(), address) >= 0);
			close(memory);
			return;
		}
		default:
			return count(mlock(place.data, place.size) == 0);
		}
	}

	Part &part_;
	const Uverbs &device_;
	std::mutex mutex_; // of what follows; inside of a place's
	std::vector<Ring> rings_;
	std::array<Place, 24> places_;
};

/// Queues come and go; a process that maps them may be slower or faster.
void come_and_go(const Uverbs &device, Mappings &mappings, Random &random)
{
	std::uint32_t pd = 0;
	CqMade cq;
	QpMade qp;

	if (device.alloc_pd(pd) || device.create_cq(random.between(1, 2000), -1, cq))
		return;
	mappings.learn(cq.ring);
	const QpWish wish = {.pd = pd,
		.send_cq = cq.handle,
		.recv_cq = cq.handle,
		.cap = {random.between(1, 200), random.below(200), 4, 4, 64}};
	if (!device.create_qp(wish, qp)) {
		mappings.learn(qp.sq);
		if (qp.rq.size)
			mappings.learn(qp.rq);
		for (std::uint32_t n = random.below(4); n > 0; n--)
			mappings.step(random);
		demand(device.destroy_cq(cq.handle) == EBUSY, "a CQ in use was destroyed");
		demand(device.destroy_qp(qp.handle) == 0, "DESTROY_QP failed");
	}
	demand(device.destroy_cq(cq.handle) == 0, "DESTROY_CQ failed");
	demand(device.dealloc_pd(pd) == 0, "DEALLOC_PD failed");
}

/// A ring is registered as a region, and the peer writes into it.
void ring_as_region(RawPair &pair, Random &random)
{
	RawSide &side = pair.either(random);
	const Mapping &ring = random.one_in(2) ? side.sq_ring() : side.cq_ring();
	MrMade made;
	const int error = side.device().reg_mr(
		side.pd(), reinterpret_cast<std::uintptr_t>(ring.data()), ring.octets().size(), all_access, made);

	if (error)
		return;
	for (int i = 0; i < 32; i++) {
		// As a source and as a sink, of its own device's requests
		auto *wqe = reinterpret_cast<kiw_wqe *>(side.sq_ring().slot(static_cast<std::uint32_t>(i)));
		side.post(random, pair.other(side), {});
		auto *sge = reinterpret_cast<kiw_sge *>(wqe + 1);
		sge->addr = reinterpret_cast<std::uintptr_t>(ring.data()) + random.below(256);
		sge->lkey = made.key;
		(void)side.device().doorbell(side.qp().handle, true);
	}
	demand(side.device().dereg_mr(made.handle) == 0, "DEREG_MR of a ring failed");
}

void one_round(Part &part, const Devices &devices, vt::Listener &listener)
{
	Random &random = part.random;
	RawPair pair(devices, listener, part);
	const Uverbs &device = pair.a.device();
	Mappings mappings(part, device);
	std::atomic<bool> stop = false;
	std::vector<std::jthread> threads;

	for (const Ring *ring : {&pair.a.qp().sq, &pair.a.qp().rq, &pair.a.cq().ring})
		mappings.learn(*ring);
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&, mine = random.child()]() mutable {
			for (int n = 0; n < steps_per_round && !stop && part.running(); n++)
				mappings.step(mine);
		});
	threads.emplace_back([&, mine = random.child()]() mutable {
		for (int n = 0; n < steps_per_round && !stop && part.running(); n++)
			come_and_go(device, mappings, mine);
	});
	for (int n = 0; n < steps_per_round && part.running(); n++) {
		(void)pair.exchange(random, part.tally);
		if (random.one_in(50))
			ring_as_region(pair, random);
		// With its rings mapped and in use
		if (n == steps_per_round / 2)
			(void)pair.b.device().destroy_qp(pair.b.qp().handle);
	}
	stop = true;
	for (std::jthread &thread : threads)
		thread.join();
}

} // namespace

void abuse_mappings(Part &part)
{
	const Devices devices = find_devices();
	vt::Listener listener;

	survive_faults();
	while (part.running())
		one_round(part, devices, listener);
}

} // namespace storm
