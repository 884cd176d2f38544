// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections that are made, answered, refused and given up in any order, by several threads at once. By the kernel's
// own commands.
//
// In nearly any order: RDMA core itself, whatever the device, ends in a BUG after an accept or a reject of an id that
// is connecting, or after the second one of a request (Documentation/security.md). So ids that connect are never
// answered, and requests once. Nor does anybody ask for the attributes of a queue pair while an id is being bound:
// where that fails, the id loses its device under the other call. Ids are bound before they are resolved: it warns
// where the device goes while a call does both.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unistd.h>

#include "sides.hpp"
#include "ucm.hpp"

namespace storm {

namespace {

constexpr int steps_per_thread = 500;
constexpr std::size_t most_ids = 64;
constexpr std::size_t most_queues = 64;
constexpr int idle_microseconds = 500;

/// How far an id has come, as far as we know.
struct Known {
	std::uint32_t id = 0;
	bool passive = false; // it never connects
	int stage = 0;
	bool answered = false;
};

class Disorder {
public:
	Disorder(Part &part, const Devices &devices) : part_(part), client_(devices.client), server_(devices.server)
	{
		for (Random random = part.random.child(); ports_.size() < 2;)
			ports_.push_back(static_cast<std::uint16_t>(random.between(20000, 30000)));
		for (const Uverbs *device : {&client_, &server_}) {
			prepare(*device);
			for (int i = 0; i < 8; i++)
				add_qp(i % 2 == 0);
		}
	}

	void run(Random random, bool at_client, const std::atomic<bool> &stop)
	{
		vt::Where here = at_client ? vt::client_end() : vt::server_end();
		const vt::InNamespace inside(here.netns);

		for (int i = 0; i < steps_per_thread && !stop && part_.running(); i++) {
			(void)part_.counted(step(random, at_client));
			if (random.one_in(4))
				usleep(idle_microseconds);
		}
	}

	/// What comes, for as long as the others are at work.
	void listen(Random random, const std::atomic<bool> &stop)
	{
		while (!stop) {
			if (!take_event(random))
				usleep(idle_microseconds);
		}
	}

private:
	void prepare(const Uverbs &device)
	{
		std::uint32_t pd = 0;
		CqMade cq;

		demand(!device.alloc_pd(pd) && !device.create_cq(64, -1, cq), "objects for connections can't be made");
		(&device == &client_ ? client_wish_ : server_wish_) = {
			.pd = pd, .send_cq = cq.handle, .recv_cq = cq.handle, .cap = {16, 16, 1, 1, 64}};
	}

	struct Queue {
		std::uint32_t handle, number;
		bool at_client;
	};

	int add_qp(bool at_client)
	{
		QpMade made;
		const int error =
			(at_client ? client_ : server_).create_qp(at_client ? client_wish_ : server_wish_, made);
		const std::scoped_lock lock(mutex_);

		if (!error)
			queues_.push_back({made.handle, made.number, at_client});
		return error;
	}
	/// One that no connection had yet: with any of the others hardly one comes about.
	std::uint32_t new_qp_number(Random &random, bool at_client)
	{
		if (many_queues())
			(void)drop_qp(random);
		if (add_qp(at_client))
			return any_queue(random, at_client).number;
		const std::scoped_lock lock(mutex_);
		const auto newest = std::find_if(queues_.rbegin(), queues_.rend(),
			[=](const Queue &queue) { return queue.at_client == at_client; });
		return newest == queues_.rend() ? 0 : newest->number;
	}
	bool many_queues()
	{
		const std::scoped_lock lock(mutex_);

		return queues_.size() >= most_queues;
	}
	int drop_qp(Random &random)
	{
		Queue queue{};
		{
			const std::scoped_lock lock(mutex_);
			if (queues_.empty())
				return ENOENT;
			std::swap(queues_[random.below(static_cast<std::uint32_t>(queues_.size()))], queues_.back());
			queue = queues_.back();
			// Its number may be used once more.
			if (!random.one_in(4))
				queues_.pop_back();
		}
		return (queue.at_client ? client_ : server_).destroy_qp(queue.handle);
	}
	int modify_qp(Random &random)
	{
		const Queue queue = any_queue(random, random.one_in(2));

		return (queue.at_client ? client_ : server_)
			.modify_qp(queue.handle, IBV_QP_STATE, random.below(7), 0, 0);
	}
	Queue any_queue(Random &random, bool at_client)
	{
		const std::scoped_lock lock(mutex_);

		for (int i = 0; i < 20 && !queues_.empty(); i++) {
			const Queue &queue = queues_[random.below(static_cast<std::uint32_t>(queues_.size()))];
			if (queue.at_client == at_client)
				return queue;
		}
		return {0, random.nonsense(0x10000), at_client};
	}

	// --- ids ---

	Known any_id(Random &random)
	{
		const std::scoped_lock lock(mutex_);

		if (ids_.empty() || random.one_in(100))
			return {.id = random.below(100), .passive = true};
		return ids_[random.below(static_cast<std::uint32_t>(ids_.size()))];
	}
	/// What may be answered now, and isn't again: mostly a request; or no id at all. Under answering_.
	std::uint32_t take_answerable(Random &random)
	{
		const std::scoped_lock lock(mutex_);

		for (int i = 0; i < 20 && !ids_.empty(); i++) {
			Known &known = ids_[random.below(static_cast<std::uint32_t>(ids_.size()))];
			if (known.passive && !known.answered) {
				known.answered = true;
				return known.id;
			}
		}
		return UINT32_MAX;
	}
	void remember(Known known)
	{
		const std::scoped_lock lock(mutex_);

		ids_.push_back(known);
	}
	void advanced(std::uint32_t id)
	{
		const std::scoped_lock lock(mutex_);

		for (Known &known : ids_)
			known.stage += known.id == id;
	}
	void forget(std::uint32_t id)
	{
		const std::scoped_lock lock(mutex_);

		std::erase_if(ids_, [=](const Known &known) { return known.id == id; });
	}
	bool many_ids()
	{
		const std::scoped_lock lock(mutex_);

		return ids_.size() >= most_ids;
	}

	// --- commands ---

	int create(bool passive)
	{
		std::uint32_t id = 0;
		const int error = ucm_.create(id);

		if (!error)
			remember({.id = id, .passive = passive});
		return error;
	}
	int destroy(std::uint32_t id, const Ucm &through)
	{
		forget(id);
		return through.destroy(id);
	}
	int bind(Random &random, std::uint32_t id)
	{
		vt::Where where = vt::server_end();

		(void)where.sa(port(random));
		const std::shared_lock lock(binding_);
		return ucm_.bind(id, where.address);
	}
	int resolve_addr(Random &random, std::uint32_t id)
	{
		const vt::Where from = vt::client_end();
		vt::Where to = vt::server_end();

		(void)to.sa(port(random));
		const std::shared_lock lock(binding_);
		// EINVAL: it is bound already.
		const int error = ucm_.bind(id, from.address);
		if (error && error != EINVAL)
			return error;
		return ucm_.resolve_addr(id, from.address, to.address);
	}
	int listen_at(Random &random, std::uint32_t id)
	{
		const std::shared_lock lock(binding_);

		return ucm_.listen(id, random.one_in(3) ? random.below(4) : 64);
	}
	Ucm::Param param(Random &random, bool at_client)
	{
		return {.qp_num = random.one_in(2) ? new_qp_number(random, at_client)
						   : any_queue(random, at_client).number,
			.responder_resources = random.one_in(2) ? random.octet() : std::uint8_t{8},
			.initiator_depth = random.one_in(2) ? random.octet() : std::uint8_t{8},
			.private_data_len = random.one_in(2) ? random.octet() : std::uint8_t{0}};
	}
	/// One that may be answered is bound instead.
	int connect(Random &random, const Known &known)
	{
		const std::scoped_lock lock(answering_);

		return known.passive ? bind(random, known.id) : ucm_.connect(known.id, param(random, true));
	}
	int accept(Random &random, std::uint32_t id) { return ucm_.accept(id, param(random, false)); }
	int reject(Random &random, std::uint32_t id) const { return ucm_.reject(id, random.octet()); }
	int answer_any(Random &random)
	{
		const std::scoped_lock lock(answering_);
		const std::uint32_t id = take_answerable(random);

		return random.one_in(2) ? accept(random, id) : reject(random, id);
	}
	int init_qp_attr(Random &random, std::uint32_t id)
	{
		const std::unique_lock lock(binding_);

		return ucm_.init_qp_attr(id, random.below(8));
	}
	int set_option(Random &random, std::uint32_t id) const
	{
		const std::array<std::uint8_t, 4> value = {static_cast<std::uint8_t>(random.below(3))};

		return ucm_.set_option(
			id, random.below(3), random.below(5), std::span(value).first(random.one_in(2) ? 1 : 4));
	}

	std::uint16_t port(Random &random) const
	{
		return random.one_in(50) ? 1 : ports_.at(random.below(static_cast<std::uint32_t>(ports_.size())));
	}

	/// What comes next for an id that is treated well
	int advance(Random &random, const Known &known)
	{
		const std::uint32_t id = known.id;
		int error = 0;

		switch (known.stage) {
		case 0:
			error = known.passive ? bind(random, id) : resolve_addr(random, id);
			break;
		case 1:
			error = known.passive ? listen_at(random, id) : ucm_.resolve_route(id);
			break;
		case 2:
			if (known.passive)
				return random.one_in(20) ? destroy(id, ucm_) : 0;
			error = connect(random, known);
			break;
		default:
			if (random.one_in(2))
				return random.one_in(4) ? ucm_.disconnect(id) : 0;
			return random.one_in(4) ? destroy(id, ucm_) : 0;
		}
		if (!error)
			advanced(id);
		return error;
	}

	int step(Random &random, bool at_client)
	{
		const Known known = any_id(random);

		if (random.one_in(many_ids() ? 100 : 8))
			return create(!at_client);
		if (random.below(10) < 7)
			return advance(random, known);
		switch (random.below(16)) {
		case 0:
			return bind(random, known.id);
		case 1:
			return resolve_addr(random, known.id);
		case 2:
			return ucm_.resolve_route(known.id);
		case 3:
			return listen_at(random, known.id);
		case 4:
			return connect(random, known);
		case 5:
		case 6:
			return answer_any(random);
		case 7:
			return ucm_.disconnect(known.id);
		case 8:
			return destroy(known.id, random.one_in(4) ? other_ : ucm_);
		case 9:
			return init_qp_attr(random, known.id);
		case 10:
			return ucm_.query(known.id, random.below(4));
		case 11:
			return set_option(random, known.id);
		case 12:
			// Whence it comes back no more
			return random.one_in(4) ? other_.migrate(known.id, ucm_) : 0;
		case 13:
			return drop_qp(random);
		case 14:
			return modify_qp(random);
		default:
			return add_qp(at_client);
		}
	}

	bool take_event(Random &random)
	{
		const std::scoped_lock lock(answering_);
		Ucm::Event event{};

		if (ucm_.get_event(event))
			return false;
		switch (event.type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			answer(random, event.id);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			part_.tally.connections++;
			break;
		default:
			break;
		}
		return true;
	}
	/// At once, by another thread sooner or later, or never
	void answer(Random &random, std::uint32_t id)
	{
		const std::uint32_t choice = random.below(6);

		remember({.id = id, .passive = true, .stage = 3, .answered = choice > 0});
		switch (choice) {
		case 0:
			break;
		case 1:
			(void)part_.counted(reject(random, id));
			break;
		case 2:
			(void)part_.counted(destroy(id, ucm_));
			break;
		default:
			(void)part_.counted(accept(random, id));
			break;
		}
	}

	Part &part_;
	Uverbs client_;
	Uverbs server_;
	QpWish client_wish_;
	QpWish server_wish_;
	Ucm ucm_;
	Ucm other_;
	std::vector<std::uint16_t> ports_;
	// From the choice of what to answer to the answer: its id may become another's meanwhile, which then mustn't
	// connect. Before mutex_.
	std::mutex answering_;
	std::shared_mutex binding_; // innermost
	std::mutex mutex_;	    // of what follows
	std::vector<Queue> queues_;
	std::vector<Known> ids_;
};

} // namespace

void misorder_cm(Part &part)
{
	const Devices devices = find_devices();

	while (part.running()) {
		Disorder disorder(part, devices);
		std::atomic<bool> stop = false;
		std::vector<std::jthread> threads;

		std::thread events([&, mine = part.random.child()] { disorder.listen(mine, stop); });
		for (int i = 0; i < 4; i++)
			threads.emplace_back(
				[&, i, mine = part.random.child()] { disorder.run(mine, i % 2 == 0, stop); });
		for (std::jthread &thread : threads)
			thread.join();
		stop = true;
		events.join();
		// Files and devices are closed with all that is left.
	}
}

} // namespace storm
