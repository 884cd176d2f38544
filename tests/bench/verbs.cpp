// SPDX-License-Identifier: GPL-2.0
#include "verbs.hpp"

#include "control.hpp"

#include <cerrno>
#include <cstring>

namespace bench {

namespace {

constexpr int resolve_ms = 5000;

ibv_cq *plain(ibv_cq_ex *cq)
{
	return cq ? ibv_cq_ex_to_cq(cq) : nullptr;
}

/// 255.255.255.255, behind the first octets that it is to have
constexpr ibv_gid broadcast_of(std::uint8_t first, std::uint8_t second)
{
	return {.raw = {first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
}

} // namespace

void need(int error, const char *what)
{
	if (error != 0)
		throw std::system_error(error, std::generic_category(), what);
}

void good(ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS)
		throw std::runtime_error(std::string("a completion says: ") + ibv_wc_status_str(status));
}

ibv_context *open_device(const std::string &name)
{
	int n = 0;
	ibv_device **const list = ibv_get_device_list(&n);
	ibv_context *context = nullptr;

	check(list, "ibv_get_device_list");
	for (int i = 0; i < n; i++) {
		if (name == ibv_get_device_name(list[i]))
			context = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	if (!context)
		throw std::runtime_error("no device " + name);
	return context;
}

void End::make_queues(ibv_context *context)
{
	context_ = context;
	pd_.reset(ibv_alloc_pd(context));
	check(pd_ != nullptr, "ibv_alloc_pd");
	mr_.reset(ibv_reg_mr(
		pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	check(mr_ != nullptr, "ibv_reg_mr");
	channel_.reset(ibv_create_comp_channel(context));
	check(channel_ != nullptr, "ibv_create_comp_channel");
	if (shape_.extended)
		send_cq_ = make_extended_cq(shape_.sends, IBV_WC_EX_WITH_BYTE_LEN);
	else
		send_cq_.reset(ibv_create_cq(context, int(shape_.sends), nullptr, nullptr, 0));
	// Messages that are written take two entries each, of at most half.
	if (shape_.kind == Kind::record)
		recv_cq_ = make_extended_cq(2 * shape_.receives + 512, IBV_WC_STANDARD_FLAGS);
	else if (shape_.extended)
		recv_cq_ = make_extended_cq(shape_.receives, IBV_WC_EX_WITH_BYTE_LEN);
	else
		recv_cq_.reset(ibv_create_cq(context, int(shape_.receives), nullptr, channel_.get(), 0));
	check(send_cq_ && recv_cq_, "completion queues");
}

Owned<ibv_cq, ibv_destroy_cq> End::make_extended_cq(std::uint32_t entries, std::uint64_t flags) const
{
	ibv_cq_init_attr_ex attr{};

	attr.cqe = entries;
	attr.channel = channel_.get();
	attr.wc_flags = flags;
	return Owned<ibv_cq, ibv_destroy_cq>(plain(ibv_create_cq_ex(context_, &attr)));
}

End::End(ibv_context *context, const Shape &shape) : shape_(shape), memory_(shape.octets, 'm')
{
	make_queues(context);
	address_ = own_address(context);
	make_datagram_qp();
}

End::End(rdma_cm_id *id, const Shape &shape) : shape_(shape), memory_(shape.octets, 'm'), id_(id)
{
	make_queues(id->verbs);
	make_connected_qp();
}

void End::make_connected_qp()
{
	ibv_qp_init_attr_ex attr{};

	if (shape_.srq) {
		ibv_srq_init_attr of_srq{
			.srq_context = nullptr, .attr = {.max_wr = shape_.receives, .max_sge = 1, .srq_limit = 0}};

		srq_.reset(ibv_create_srq(pd_.get(), &of_srq));
		check(srq_ != nullptr, "ibv_create_srq");
	}
	attr.send_cq = send_cq_.get();
	attr.recv_cq = recv_cq_.get();
	attr.srq = srq_.get();
	attr.cap = {.max_send_wr = shape_.sends,
		.max_recv_wr = shape_.receives,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = shape_.inlines};
	attr.qp_type = IBV_QPT_RC;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd_.get();
	if (shape_.extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	}
	check(rdma_create_qp_ex(id_, &attr) == 0, "rdma_create_qp_ex");
	qp_ = id_->qp;
}

End::~End()
{
	const ibv_gid all = broadcast_of(0xff, 0x0e);

	if (joined_)
		(void)ibv_detach_mcast(qp_, &all, 0);
	if (id_ && id_->qp)
		rdma_destroy_qp(id_);
}

Address own_address(ibv_context *context)
{
	constexpr std::uint8_t four[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	for (std::uint8_t slot = 1; slot < 64; slot++) {
		ibv_gid gid{};

		if (ibv_query_gid(context, 1, slot, &gid) == 0 && std::memcmp(gid.raw, four, sizeof(four)) == 0)
			return {gid, slot};
	}
	throw std::runtime_error("the device has no address of IPv4");
}

void End::make_datagram_qp()
{
	ibv_qp_init_attr_ex attr{};
	kiwarpdv_qp_init_attr dv{};
	ibv_qp_attr to{};

	attr.send_cq = send_cq_.get();
	attr.recv_cq = recv_cq_.get();
	attr.qp_type = IBV_QPT_UD;
	attr.cap = {.max_send_wr = shape_.sends,
		.max_recv_wr = shape_.receives,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = shape_.inlines};
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd_.get();
	if (shape_.kind == Kind::record || shape_.number) {
		// Only kiwarp has these.
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
		dv.flags = shape_.kind == Kind::record ? KIWARPDV_QP_RECORD : 0;
		dv.udp_port = shape_.number;
		dv.record_timeout = shape_.record_timeout;
		own_qp_.reset(kiwarpdv_create_qp(context_, &attr, &dv, sizeof(dv)));
	} else {
		own_qp_.reset(ibv_create_qp_ex(context_, &attr));
	}
	check(own_qp_ != nullptr, "a datagram queue pair");
	qp_ = own_qp_.get();
	to.port_num = 1;
	to.qkey = q_key;
	to.qp_state = IBV_QPS_INIT;
	need(ibv_modify_qp(qp_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	to.qp_state = IBV_QPS_RTR;
	need(ibv_modify_qp(qp_, &to, IBV_QP_STATE), "RTR");
	to.qp_state = IBV_QPS_RTS;
	need(ibv_modify_qp(qp_, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

Place End::place() const
{
	return {.gid = address_.gid,
		.number = qp_->qp_num,
		.rkey = mr_->rkey,
		.address = reinterpret_cast<std::uintptr_t>(memory_.data())};
}

ibv_ah *End::make_ah(const ibv_gid &gid) const
{
	ibv_ah_attr attr{};

	attr.is_global = 1;
	attr.port_num = 1;
	attr.grh.dgid = gid;
	attr.grh.sgid_index = address_.slot;
	attr.grh.hop_limit = 64;
	ibv_ah *const ah = ibv_create_ah(pd_.get(), &attr);
	check(ah, "ibv_create_ah");
	return ah;
}

void End::set_peer(const Place &peer)
{
	peer_ = peer;
	if (!connected(shape_.kind))
		ah_.reset(make_ah(peer.gid));
}

void End::join_broadcast()
{
	// Verbs attaches to nothing that isn't multicast.
	const ibv_gid all = broadcast_of(0xff, 0x0e);

	need(ibv_attach_mcast(qp_, &all, 0), "ibv_attach_mcast");
	joined_ = true;
}

void End::send_to_all()
{
	constexpr std::uint32_t everybody = 0xffffff;

	set_peer({.gid = broadcast_of(0, 0), .number = everybody, .rkey = 0, .address = 0});
}

void End::receive(std::uint64_t id, std::size_t offset, std::uint32_t octets)
{
	ibv_sge sge{reinterpret_cast<std::uintptr_t>(at(offset)), octets, mr_->lkey};
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (srq_)
		need(ibv_post_srq_recv(srq_.get(), &wr, &bad), "ibv_post_srq_recv");
	else
		need(ibv_post_recv(qp_, &wr, &bad), "ibv_post_recv");
}

void End::build(ibv_qp_ex *ex, Kind kind, const Message &message)
{
	if (kind == Kind::rc_send)
		ibv_wr_send(ex);
	else
		ibv_wr_rdma_write(ex, peer_.rkey, peer_.address + message.to);
	if (kind == Kind::record)
		ibv_wr_set_ud_addr(ex, ah_.get(), peer_.number, q_key);
	if (message.octets <= shape_.inlines)
		ibv_wr_set_inline_data(ex, at(message.from), message.octets);
	else
		ibv_wr_set_sge(ex, mr_->lkey, reinterpret_cast<std::uintptr_t>(at(message.from)), message.octets);
}

void End::post(Kind kind, const std::vector<Message> &list)
{
	const auto n = list.size();

	if (kind == Kind::record || shape_.extended) {
		ibv_qp_ex *const ex = ibv_qp_to_qp_ex(qp_);

		ibv_wr_start(ex);
		for (std::size_t i = 0; i < n; i++) {
			ex->wr_id = n;
			ex->wr_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
			build(ex, kind, list[i]);
		}
		need(ibv_wr_complete(ex), "ibv_wr_complete");
	} else {
		ibv_send_wr *bad = nullptr;

		sges_.resize(n);
		requests_.resize(n);
		for (std::size_t i = 0; i < n; i++) {
			ibv_send_wr &wr = requests_[i];

			wr = {};
			sges_[i] = {reinterpret_cast<std::uintptr_t>(at(list[i].from)), list[i].octets, mr_->lkey};
			wr.wr_id = n;
			wr.next = i + 1 < n ? &requests_[i + 1] : nullptr;
			wr.sg_list = &sges_[i];
			wr.num_sge = 1;
			wr.send_flags = (i + 1 == n ? IBV_SEND_SIGNALED : 0) |
					(list[i].octets <= shape_.inlines ? IBV_SEND_INLINE : 0);
			wr.opcode = kind == Kind::rc_write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
			if (kind == Kind::rc_write)
				wr.wr.rdma = {.remote_addr = peer_.address + list[i].to, .rkey = peer_.rkey};
			else if (kind == Kind::ud_send)
				wr.wr.ud = {.ah = ah_.get(), .remote_qpn = peer_.number, .remote_qkey = q_key};
		}
		need(ibv_post_send(qp_, requests_.data(), &bad), "ibv_post_send");
	}
	under_way_ += std::uint32_t(n);
}

void End::send_to(ibv_ah *ah, std::uint32_t number, const void *octets, std::uint32_t length)
{
	ibv_sge sge{reinterpret_cast<std::uintptr_t>(octets), length, 0};
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	while (under_way_ >= shape_.sends)
		reap();
	wr.wr_id = 1;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	wr.opcode = IBV_WR_SEND;
	if (ah)
		wr.wr.ud = {.ah = ah, .remote_qpn = number, .remote_qkey = q_key};
	need(ibv_post_send(qp_, &wr, &bad), "ibv_post_send");
	under_way_++;
}

void End::reap()
{
	ibv_wc wc[16];
	const int n = poll(send_cq_.get(), 16, wc, 0);

	need(n < 0 ? EIO : 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		good(wc[i].status);
		under_way_ -= std::uint32_t(wc[i].wr_id);
	}
}

/// An error is -1, as that of ibv_poll_cq().
int End::poll(ibv_cq *cq, int max, ibv_wc *wc, std::int64_t microseconds) const
{
	if (!shape_.extended)
		return microseconds ? kiwarpdv_poll_cq(cq, max, wc, microseconds) : ibv_poll_cq(cq, max, wc);

	auto *const ex = reinterpret_cast<ibv_cq_ex *>(cq);
	ibv_poll_cq_attr attr{};
	int n = 0;
	int error = microseconds ? kiwarpdv_start_poll(ex, &attr, microseconds) : ibv_start_poll(ex, &attr);

	if (error)
		return error == ENOENT ? 0 : -1;
	do {
		wc[n].wr_id = ex->wr_id;
		wc[n].status = ex->status;
		wc[n].byte_len = ibv_wc_read_byte_len(ex);
	} while (++n < max && (error = ibv_next_poll(ex)) == 0);
	ibv_end_poll(ex);
	return error == 0 || error == ENOENT ? n : -1;
}

int End::received(ibv_wc *wc, int max, std::int64_t microseconds)
{
	const int n = poll(recv_cq_.get(), max, wc, microseconds);

	need(n < 0 ? EIO : 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++)
		good(wc[i].status);
	return n;
}

std::uint64_t End::recorded(const std::function<void(const kiwarpdv_record &)> &take, std::int64_t microseconds)
{
	constexpr std::uint64_t most = 32;
	auto *const cq = reinterpret_cast<ibv_cq_ex *>(recv_cq_.get());
	ibv_poll_cq_attr attr{};
	std::uint64_t n = 0;
	int error = microseconds ? kiwarpdv_start_poll(cq, &attr, microseconds) : ibv_start_poll(cq, &attr);

	if (error == ENOENT)
		return 0;
	need(error, "ibv_start_poll");
	do {
		kiwarpdv_record record{};

		good(cq->status);
		need(kiwarpdv_read_record(cq, &record, sizeof(record)), "kiwarpdv_read_record");
		take(record);
	} while (++n < most && (error = ibv_next_poll(cq)) == 0);
	ibv_end_poll(cq);
	need(error == ENOENT ? 0 : error, "ibv_next_poll");
	return n;
}

Connection Connection::listener(sockaddr_in address)
{
	Connection c;
	rdma_cm_id *id = nullptr;

	check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
	c.id_.reset(id);
	check(rdma_bind_addr(id, reinterpret_cast<sockaddr *>(&address)) == 0, "rdma_bind_addr");
	check(rdma_listen(id, 1) == 0, "rdma_listen");
	return c;
}

Connection Connection::towards(sockaddr_in address)
{
	Connection c;
	rdma_cm_id *id = nullptr;

	check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
	c.id_.reset(id);
	check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), resolve_ms) == 0,
		"rdma_resolve_addr");
	check(rdma_resolve_route(id, resolve_ms) == 0, "rdma_resolve_route");
	return c;
}

Connection Connection::request() const
{
	Connection c;
	rdma_cm_id *id = nullptr;

	check(rdma_get_request(id_.get(), &id) == 0, "rdma_get_request");
	c.id_.reset(id);
	return c;
}

void Connection::accept() const
{
	rdma_conn_param p{};

	p.responder_resources = p.initiator_depth = 1;
	check(rdma_accept(id_.get(), &p) == 0, "rdma_accept");
}

void Connection::connect() const
{
	rdma_conn_param p{};

	p.responder_resources = p.initiator_depth = 1;
	p.retry_count = 7;
	check(rdma_connect(id_.get(), &p) == 0, "rdma_connect");
}

Meeting meet(const std::string &device, const sockaddr_in &address, const Socket &control, bool server,
	const Shape &shape, const Prepare &prepare)
{
	Meeting met;

	if (!connected(shape.kind)) {
		met.end = std::make_unique<End>(open_device(device), shape);
		prepare(*met.end);
	} else if (server) {
		met.listener = Connection::listener(address);
		tell(control, 'l');
		met.connection = met.listener->request();
		met.end = std::make_unique<End>(met.connection->id(), shape);
		prepare(*met.end);
		met.connection->accept();
	} else {
		(void)hear<char>(control);
		met.connection = Connection::towards(address);
		met.end = std::make_unique<End>(met.connection->id(), shape);
		prepare(*met.end);
		met.connection->connect();
	}
	tell(control, met.end->place());
	met.end->set_peer(hear<Place>(control));
	return met;
}

} // namespace bench
