// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "sides.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace storm {

namespace {

constexpr std::size_t memory_octets = 65536;

std::uint32_t load(std::uint32_t &word)
{
	return std::atomic_ref(word).load(std::memory_order_acquire);
}

void store(std::uint32_t &word, std::uint32_t value)
{
	std::atomic_ref(word).store(value, std::memory_order_release);
}

ibv_qp_cap random_caps(Random &random)
{
	return {.max_send_wr = random.between(1, random.one_in(4) ? 1000 : 64),
		.max_recv_wr = random.between(1, random.one_in(4) ? 1000 : 64),
		.max_send_sge = random.between(1, 16),
		.max_recv_sge = random.between(1, 16),
		.max_inline_data = random.below(513)};
}

void done(int error, const char *what)
{
	if (error)
		vt::fail(what, error);
}

} // namespace

RawSide::RawSide(const std::string &device, Random &random) : device_(device), memory_(memory_octets)
{
	done(device_.alloc_pd(pd_), "ALLOC_PD");
	done(device_.reg_mr(pd_, memory_.address(), memory_.size(), all_access, mr_), "REG_MR");
	done(device_.reg_mr(pd_, memory_.address(), memory_.size(), IBV_ACCESS_REMOTE_READ, shown_), "REG_MR");
	first_type_ = random.one_in(2);
	done(device_.alloc_mw(pd_, first_type_ ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2, window_), "ALLOC_MW");
	done(device_.create_cq(random.between(1, random.one_in(3) ? 16 : 2048), -1, cq_), "CREATE_CQ");
	QpWish wish = {.pd = pd_, .send_cq = cq_.handle, .recv_cq = cq_.handle, .cap = random_caps(random)};
	recv_sges_ = wish.cap.max_recv_sge;
	if (random.one_in(3)) {
		srq_.emplace();
		done(device_.create_srq(pd_, wish.cap.max_recv_wr, recv_sges_, *srq_), "CREATE_SRQ");
		wish.srq = srq_->handle;
	}
	done(device_.create_qp(wish, qp_), "CREATE_QP");
	sq_ring_ = Mapping(device_.fd(), qp_.sq);
	rq_ring_ = Mapping(device_.fd(), srq_ ? srq_->ring : qp_.rq);
	cq_ring_ = Mapping(device_.fd(), cq_.ring);
}

kiw_sge RawSide::sge(Random &random, Doubt doubt) const
{
	const std::uint32_t start = random.below(memory_octets);
	kiw_sge sge = {.addr = memory_.address() + start,
		// Two of them fit into what is left of the peer's region, and into a receive.
		.length = random.below(std::min<std::uint32_t>(memory_octets - start, random.one_in(8) ? 16000 : 3000)),
		.lkey = mr_.key};

	if (doubt.strikes(random))
		sge.length = random.nonsense(sge.length);
	if (doubt.strikes(random))
		sge.addr = random.one_in(2) ? sge.addr + random.nonsense(memory_octets) : random.any();
	if (doubt.strikes(random))
		sge.lkey = random.nonsense(sge.lkey);
	return sge;
}

std::uint32_t RawSide::wrong_key(Random &random, const RawSide &peer)
{
	switch (random.below(3)) {
	case 0:
		return peer.window_.key;
	case 1:
		return peer.shown_.key;
	default:
		return random.nonsense(peer.mr_.key);
	}
}

void RawSide::about_window(kiw_wqe &wqe, kiw_bind_args &bind, Random &random, Doubt doubt)
{
	const std::uint32_t place = random.below(memory_octets / 2);
	const bool unbind = doubt.strikes(random) ? random.one_in(2) : bound_ && !first_type_;

	wqe.opcode = unbind ? KIW_WR_LOCAL_INV : KIW_WR_BIND_MW;
	if (!unbind)
		window_.key = (window_.key & ~0xffU) | ((window_.key + random.between(1, 255)) & 0xff);
	wqe.rkey = window_.key;
	bound_ = !unbind;
	bind = {.addr = memory_.address() + place,
		.length = random.between(1, memory_octets / 2),
		.lkey = doubt.strikes(random) ? random.nonsense(mr_.key) : mr_.key,
		.access = doubt.strikes(random) ? random.word()
			  : random.one_in(2)	? remote_access
						: 0};
	if (doubt.strikes(random))
		bind.addr = random.any();
	if (doubt.strikes(random))
		bind.length = random.one_in(2) ? random.any() : random.below(2) * ~std::uint64_t{0};
}

int RawSide::resize(Random &random)
{
	Ring ring;
	const int error = srq_ ? device_.modify_srq(srq_->handle, IBV_SRQ_MAX_WR,
					 random.between(1, random.one_in(4) ? 1000 : 64), 0, ring)
			       : 0;

	if (srq_ && !error)
		rq_ring_ = Mapping(device_.fd(), ring);
	return error;
}

int RawSide::ring(bool send) const
{
	return srq_ && !send ? device_.srq_doorbell(srq_->handle) : device_.doorbell(qp_.handle, send);
}

void RawSide::post(Random &random, const RawSide &peer, Doubt doubt)
{
	if (sq_next_ - sq_done_ >= qp_.sq.entries)
		return;
	std::uint8_t *slot = sq_ring_.slot(sq_next_);
	const std::size_t room = qp_.sq.stride - sizeof(kiw_wqe);
	const std::uint32_t place = random.below(memory_octets / 2);
	kiw_wqe wqe = {
		.opcode =
			random.pick(std::array<std::uint8_t, 4>{KIW_WR_SEND, KIW_WR_WRITE, KIW_WR_READ, KIW_WR_WRITE}),
		.flags = static_cast<std::uint8_t>(random.below(KIW_WQE_FLAGS + 1)),
		.num_sge =
			static_cast<std::uint8_t>(random.below(std::min<std::uint32_t>(3, qp_.cap.max_send_sge + 1))),
		.inline_len = random.below(qp_.cap.max_inline_data + 1),
		.wr_id = sq_next_,
		.remote_addr = peer.memory().address() + place,
		.rkey = peer.mr().key,
	};

	kiw_bind_args bind{};
	kiw_atomic_args atomic{};
	if (random.one_in(4)) {
		wqe.opcode = random.pick(std::array<std::uint8_t, 5>{
			KIW_WR_SEND_IMM, KIW_WR_WRITE_IMM, KIW_WR_CMP_SWAP, KIW_WR_FETCH_ADD, KIW_WR_BIND_MW});
		if (wqe.opcode == KIW_WR_SEND_IMM || wqe.opcode == KIW_WR_WRITE_IMM)
			wqe.imm = random.word();
	}
	const bool is_atomic = wqe.opcode == KIW_WR_CMP_SWAP || wqe.opcode == KIW_WR_FETCH_ADD;
	if (is_atomic) {
		wqe.num_sge = 1;
		wqe.remote_addr &= ~std::uint64_t{7};
		atomic = {.compare_add = random.below(2), .swap = random.any()};
		// Unaligned, and across two pages
		if (doubt.strikes(random))
			wqe.remote_addr = (wqe.remote_addr | 0xfff) - random.below(8);
	}
	if (wqe.opcode == KIW_WR_BIND_MW) {
		wqe.num_sge = 0;
		wqe.remote_addr = 0;
		about_window(wqe, bind, random, doubt);
	}
	if (wqe.opcode == KIW_WR_READ || is_atomic)
		wqe.flags &= ~KIW_WQE_INLINE;
	if (wqe.opcode == KIW_WR_BIND_MW || wqe.opcode == KIW_WR_LOCAL_INV)
		wqe.flags &= KIW_WQE_SIGNALED | KIW_WQE_FENCE;
	if (!(wqe.flags & KIW_WQE_INLINE))
		wqe.inline_len = 0;
	// Those that succeed are counted only where they are reported.
	if (random.one_in(2))
		wqe.flags |= KIW_WQE_SIGNALED;
	if (doubt.strikes(random))
		wqe.opcode = random.octet();
	if (doubt.strikes(random))
		wqe.flags = random.octet();
	if (doubt.strikes(random))
		wqe.num_sge = static_cast<std::uint8_t>(random.nonsense(qp_.cap.max_send_sge));
	if (doubt.strikes(random))
		wqe.inline_len = random.nonsense(qp_.cap.max_inline_data);
	if (doubt.strikes(random))
		wqe.remote_addr = random.one_in(2) ? random.any() : wqe.remote_addr + random.nonsense(memory_octets);
	if (doubt.strikes(random))
		wqe.rkey = wrong_key(random, peer);
	std::memcpy(slot, &wqe, sizeof(wqe));
	for (std::size_t i = 0; !(wqe.flags & KIW_WQE_INLINE) && i < room / sizeof(kiw_sge) && i < wqe.num_sge; i++) {
		const kiw_sge one = sge(random, doubt);
		std::memcpy(slot + sizeof(wqe) + i * sizeof(one), &one, sizeof(one));
	}
	if (is_atomic) {
		const std::uint32_t word = doubt.strikes(random) ? 4 : 8;
		kiw_sge one = sge(random, doubt);
		one.length = word;
		std::memcpy(slot + sizeof(wqe), &one, sizeof(one));
		std::memcpy(slot + sizeof(wqe) + sizeof(one), &atomic, sizeof(atomic));
	} else if (wqe.opcode == KIW_WR_BIND_MW) {
		std::memcpy(slot + sizeof(wqe), &bind, sizeof(bind));
	}
	store(sq_ring_.words()[0], ++sq_next_);
}

void RawSide::receive(Random &random, Doubt doubt)
{
	// Requests of a shared queue are the process's again when the kernel has taken them.
	if (const std::uint32_t taken = srq_ ? load(rq_ring_.words()[16]) : 0; taken - rq_done_ <= rq_next_ - rq_done_)
		rq_done_ = srq_ ? taken : rq_done_;
	if (rq_next_ - rq_done_ >= rq_ring_.ring().entries)
		return;
	std::uint8_t *slot = rq_ring_.slot(rq_next_);
	const std::size_t room = rq_ring_.ring().stride - sizeof(kiw_rqe);
	kiw_rqe rqe = {.wr_id = rq_next_, .num_sge = static_cast<std::uint8_t>(recv_sges_)};

	if (doubt.strikes(random))
		rqe.num_sge = static_cast<std::uint8_t>(random.nonsense(recv_sges_));
	std::memcpy(slot, &rqe, sizeof(rqe));
	for (std::size_t i = 0; i < room / sizeof(kiw_sge) && i < rqe.num_sge; i++) {
		kiw_sge one = sge(random, doubt);
		// Large enough for most messages
		if (!i && !doubt.strikes(random))
			one = {.addr = memory_.address(), .length = memory_octets, .lkey = mr_.key};
		std::memcpy(slot + sizeof(rqe) + i * sizeof(one), &one, sizeof(one));
	}
	store(rq_ring_.words()[0], ++rq_next_);
}

void RawSide::drain(Tally &tally)
{
	const std::uint32_t prod = load(cq_ring_.words()[0]);
	std::uint64_t good = 0;
	std::uint64_t bad = 0;

	for (std::uint32_t n = 0; cq_next_ != prod && n < cq_.ring.entries; n++, cq_next_++) {
		kiw_cqe cqe;
		std::memcpy(&cqe, cq_ring_.slot(cq_next_), sizeof(cqe));
		(cqe.status == IBV_WC_SUCCESS ? good : bad)++;
		// A scribbler may have been here: only what can be is believed.
		const bool receive = cqe.opcode == KIW_WR_RECV || cqe.opcode == KIW_WR_RECV_IMM;
		if (receive && !srq_ && cqe.wq_index - rq_done_ < rq_next_ - rq_done_)
			rq_done_ = cqe.wq_index + 1;
		else if (!receive && cqe.wq_index - sq_done_ < sq_next_ - sq_done_)
			sq_done_ = cqe.wq_index + 1;
	}
	cq_next_ = prod;
	store(cq_ring_.words()[16], prod);
	tally.completed += good;
	tally.failed += bad;
}

bool RawSide::in_error() const
{
	std::uint32_t state = 0;

	return device_.query_state(qp_.handle, state) || state == IBV_QPS_ERR;
}

rdma_conn_param connection_to(const QpMade &qp, Random &random)
{
	rdma_conn_param param{};

	param.qp_num = qp.number;
	param.responder_resources = static_cast<std::uint8_t>(random.one_in(3) ? random.below(129) : 16);
	param.initiator_depth = static_cast<std::uint8_t>(random.one_in(3) ? random.below(129) : 16);
	return param;
}

RawPair::RawPair(const Devices &devices, vt::Listener &listener, Part &part)
	: a(devices.client, part.random),
	  b(devices.server, part.random)
{
	vt::Caller caller(listener.port());
	rdma_conn_param param = connection_to(a.qp(), part.random);

	events_ = caller.events;
	client_ = std::move(caller.id);
	if (rdma_connect(client_.get(), &param))
		vt::fail("rdma_connect", errno);
	server_ = listener.request().first;
	param = connection_to(b.qp(), part.random);
	for (int i = 0; i < 8; i++)
		b.receive(part.random, {});
	if (rdma_accept(server_.get(), &param))
		vt::fail("rdma_accept", errno);
	events_->wait(RDMA_CM_EVENT_ESTABLISHED, client_.get());
	listener.events().wait(RDMA_CM_EVENT_ESTABLISHED, server_.get());
	part.tally.connections++;
}

int RawPair::exchange(Random &random, Tally &tally)
{
	RawSide &side = either(random);

	for (int i = 0; i < 4; i++) {
		a.receive(random, {});
		b.receive(random, {});
		side.post(random, other(side), {});
	}
	const int error = side.ring(true);
	a.drain(tally);
	b.drain(tally);
	return error;
}

} // namespace storm
