// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections that are made, answered, refused and given up in any order, by several threads at once. By the kernel's
// own commands: librdmacm would be the first to stumble over ids that another thread destroys.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <rdma/rdma_user_cm.h>
#include <thread>
#include <unistd.h>

#include "sides.hpp"

namespace storm {

namespace {

constexpr int steps_per_thread = 500;
constexpr std::size_t most_ids = 64;
constexpr int idle_microseconds = 500;

/// The device of rdma_cm.
class Ucm {
public:
	Ucm() : fd_(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK))
	{
		if (fd_ < 0)
			vt::fail("rdma_cm", errno);
	}
	~Ucm() { close(fd_); }
	Ucm(const Ucm &) = delete;
	Ucm &operator=(const Ucm &) = delete;

	int fd() const { return fd_; }

	template <typename Request>
	int call(std::uint32_t command, const Request &request, std::size_t answer = 0) const
	{
		struct {
			rdma_ucm_cmd_hdr header;
			Request request;
		} whole;

		std::memset(static_cast<void *>(&whole), 0, sizeof(whole));
		whole.header = {.cmd = command, .in = sizeof(Request), .out = static_cast<std::uint16_t>(answer)};
		whole.request = request;
		return write(fd_, &whole, sizeof(whole)) == sizeof(whole) ? 0 : errno;
	}

private:
	int fd_;
};

std::uint64_t address_of(const void *object)
{
	return reinterpret_cast<std::uintptr_t>(object);
}

/// How far an id has come, as far as we know.
struct Known {
	std::uint32_t id = 0;
	bool passive = false;
	int stage = 0;
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
			return {.id = random.below(100)};
		return ids_[random.below(static_cast<std::uint32_t>(ids_.size()))];
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
		rdma_ucm_create_id_resp answer{};
		const int error = ucm_.call(RDMA_USER_CM_CMD_CREATE_ID,
			rdma_ucm_create_id{.response = address_of(&answer), .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC},
			sizeof(answer));

		if (!error)
			remember({.id = answer.id, .passive = passive});
		return error;
	}
	int destroy(std::uint32_t id, const Ucm &through)
	{
		rdma_ucm_destroy_id_resp answer{};

		forget(id);
		return through.call(RDMA_USER_CM_CMD_DESTROY_ID,
			rdma_ucm_destroy_id{.response = address_of(&answer), .id = id}, sizeof(answer));
	}
	int bind(Random &random, std::uint32_t id)
	{
		vt::Where where = vt::server_end();
		rdma_ucm_bind request{.id = id, .addr_size = sizeof(sockaddr_in6)};

		std::memcpy(&request.addr, where.sa(port(random)), sizeof(sockaddr_storage));
		return ucm_.call(RDMA_USER_CM_CMD_BIND, request);
	}
	int resolve_addr(Random &random, std::uint32_t id)
	{
		vt::Where from = vt::client_end();
		vt::Where to = vt::server_end();
		rdma_ucm_resolve_addr request{.id = id,
			.timeout_ms = 200,
			.src_size = sizeof(sockaddr_in6),
			.dst_size = sizeof(sockaddr_in6)};

		std::memcpy(&request.src_addr, from.sa(0), sizeof(sockaddr_storage));
		std::memcpy(&request.dst_addr, to.sa(port(random)), sizeof(sockaddr_storage));
		return ucm_.call(RDMA_USER_CM_CMD_RESOLVE_ADDR, request);
	}
	int resolve_route(std::uint32_t id)
	{
		return ucm_.call(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000});
	}
	int listen_at(Random &random, std::uint32_t id)
	{
		return ucm_.call(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, random.one_in(3) ? random.below(4) : 64});
	}
	rdma_ucm_conn_param param(Random &random, bool at_client)
	{
		rdma_ucm_conn_param param{};

		param.qp_num = any_queue(random, at_client).number;
		param.responder_resources = random.one_in(2) ? random.octet() : 8;
		param.initiator_depth = random.one_in(2) ? random.octet() : 8;
		param.private_data_len = random.one_in(2) ? random.octet() : 0;
		param.valid = 1;
		return param;
	}
	int connect(Random &random, std::uint32_t id)
	{
		return ucm_.call(
			RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{.conn_param = param(random, true), .id = id});
	}
	int accept(Random &random, std::uint32_t id)
	{
		return ucm_.call(RDMA_USER_CM_CMD_ACCEPT,
			rdma_ucm_accept{.uid = id, .conn_param = param(random, false), .id = id});
	}
	int reject(Random &random, std::uint32_t id)
	{
		return ucm_.call(
			RDMA_USER_CM_CMD_REJECT, rdma_ucm_reject{.id = id, .private_data_len = random.octet()});
	}
	int disconnect(std::uint32_t id) { return ucm_.call(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}); }
	int init_qp_attr(Random &random, std::uint32_t id)
	{
		ib_uverbs_qp_attr answer{};

		return ucm_.call(RDMA_USER_CM_CMD_INIT_QP_ATTR,
			rdma_ucm_init_qp_attr{.response = address_of(&answer), .id = id, .qp_state = random.below(8)},
			sizeof(answer));
	}
	int query(Random &random, std::uint32_t id)
	{
		std::array<std::uint8_t, 1024> answer{};

		return ucm_.call(RDMA_USER_CM_CMD_QUERY,
			rdma_ucm_query{.response = address_of(answer.data()), .id = id, .option = random.below(4)},
			answer.size());
	}
	int set_option(Random &random, std::uint32_t id)
	{
		std::uint32_t value = random.below(3);

		return ucm_.call(RDMA_USER_CM_CMD_SET_OPTION, rdma_ucm_set_option{.optval = address_of(&value),
								      .id = id,
								      .level = random.below(3),
								      .optname = random.below(5),
								      .optlen = random.one_in(2) ? 1U : 4U});
	}
	/// To the other file, whence it comes back no more.
	int migrate(std::uint32_t id)
	{
		rdma_ucm_migrate_resp answer{};

		return other_.call(RDMA_USER_CM_CMD_MIGRATE_ID,
			rdma_ucm_migrate_id{
				.response = address_of(&answer), .id = id, .fd = static_cast<std::uint32_t>(ucm_.fd())},
			sizeof(answer));
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
			error = known.passive ? listen_at(random, id) : resolve_route(id);
			break;
		case 2:
			if (known.passive)
				return random.one_in(20) ? destroy(id, ucm_) : 0;
			error = connect(random, id);
			break;
		default:
			if (random.one_in(2))
				return random.one_in(4) ? disconnect(id) : 0;
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
			return resolve_route(known.id);
		case 3:
			return listen_at(random, known.id);
		case 4:
			return connect(random, known.id);
		case 5:
			return accept(random, known.id);
		case 6:
			return reject(random, known.id);
		case 7:
			return disconnect(known.id);
		case 8:
			return destroy(known.id, random.one_in(4) ? other_ : ucm_);
		case 9:
			return init_qp_attr(random, known.id);
		case 10:
			return query(random, known.id);
		case 11:
			return set_option(random, known.id);
		case 12:
			return random.one_in(4) ? migrate(known.id) : 0;
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
		rdma_ucm_event_resp event{};

		if (ucm_.call(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{address_of(&event)}, sizeof(event)))
			return false;
		switch (event.event) {
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
		remember({.id = id, .passive = true, .stage = 3});
		switch (random.below(6)) {
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
	std::mutex mutex_; // of what follows
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
		std::vector<std::thread> threads;

		std::thread events([&, mine = part.random.child()] { disorder.listen(mine, stop); });
		for (int i = 0; i < 4; i++)
			threads.emplace_back(
				[&, i, mine = part.random.child()] { disorder.run(mine, i % 2 == 0, stop); });
		for (std::thread &thread : threads)
			thread.join();
		stop = true;
		events.join();
		// Files and devices are closed with all that is left.
	}
}

} // namespace storm
