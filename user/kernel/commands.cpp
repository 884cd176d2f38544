// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// In place of libibverbs' commands: what uverbs and the module do for a process is done in the process. Each returns 0
// or an errno value.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "datagram.hpp"
#include "device.hpp"
#include "kiwarp-abi.h"
#include "limits.hpp"
#include "mapped.hpp"
#include "memory.hpp"
#include "number.hpp"
#include "objects.hpp"
#include "private_abi.hpp"
#include "region.hpp"
#include "table.hpp"

namespace kiwu {

namespace {

constinit Table<kiw_cq> cqs;
constinit Table<Srq> srqs;
constinit Table<kiw_domain> domains;
constinit limits::Count num_ah, num_pd, num_mr, num_mw, num_cq, num_srq, num_qp;

/// A request or response is a core part, then ours.
template <typename Own>
Own &own_part(void *buffer, std::size_t size)
{
	return *reinterpret_cast<Own *>(static_cast<std::byte *>(buffer) + size - sizeof(Own));
}

kiw_ring_geometry tell(const kiw_ring_map &map, std::uint32_t entries)
{
	return {.mmap_offset = 0,
		.mmap_size = map.size,
		.mapping = reinterpret_cast<std::uintptr_t>(map.mem),
		.offset = 0,
		.entries = entries,
		.stride = map.stride,
		.reserved = 0};
}

kiw_domain *domain_of(const ibv_pd *pd)
{
	return domains.find(pd->handle);
}

template <typename Object>
void init_events(Object &object)
{
	object.events_completed = 0;
	::pthread_mutex_init(&object.mutex, nullptr);
	::pthread_cond_init(&object.cond, nullptr);
}

/// As libibverbs does: an object goes when its events are acknowledged. count: those that were told; completed: those
/// that were acknowledged.
template <typename Object>
void await_acks(Object &object, std::uint32_t count, const std::uint32_t &completed)
{
	::pthread_mutex_lock(&object.mutex);
	while (completed != count)
		::pthread_cond_wait(&object.cond, &object.mutex);
	::pthread_mutex_unlock(&object.mutex);
}

// --- regions --------------------------------------------------------------------------------------

constexpr int known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			     IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
// Up to IBV_ACCESS_FLUSH_PERSISTENT, which older headers lack: what is beyond is no right.
constexpr int named_access = 0x3ff | IBV_ACCESS_OPTIONAL_RANGE;

int check_region(const void *address, std::size_t length, std::uint64_t iova, int access)
{
	if (access & ~named_access)
		return EINVAL;
	if (access & ~known_access)
		return EOPNOTSUPP;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!length || length > limits::mr_size || iova + length < iova ||
		reinterpret_cast<std::uintptr_t>(address) + length < length)
		return EINVAL;
	return is_mapped(address, length) ? 0 : EFAULT;
}

/// Makes a region that isn't found by anybody yet. Returns 0 or an errno value.
int make_memory(
	const ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access, kiw_region *&region)
{
	kiw_domain *domain = domain_of(pd);

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	if (!domain)
		return EINVAL;
	if (const int error = check_region(address, length, iova, access))
		return error;
	if (!num_mr.up(limits::mr))
		return ENOMEM;
	region = make_region();
	if (!region) {
		num_mr.down();
		return ENOMEM;
	}
	region->kind = kiw_region::Kind::memory;
	region->access = access;
	region->pd = domain;
	region->bytes = static_cast<std::uint8_t *>(address);
	region->iova = iova;
	region->length = length;
	region->valid = true;
	return 0;
}

void drop_memory(kiw_region &region)
{
	region.pd->users.fetch_sub(1, std::memory_order_relaxed);
	free_region(region);
	num_mr.down();
}

/// Nobody finds it any more: its uses end, and TCP has been handed what it was to have of it.
void end_memory(kiw_region &region)
{
	remove_region(region);
	copy_all_lent();
	drop_memory(region);
}

// --- queue pairs ----------------------------------------------------------------------------------

std::uint32_t send_stride(std::uint32_t head, const ibv_qp_cap &cap)
{
	const std::uint32_t sges = cap.max_send_sge * std::uint32_t{sizeof(kiw_sge)};
	const std::uint32_t atomic = sizeof(kiw_sge) + sizeof(kiw_atomic_args);

	static_assert(sizeof(kiw_bind_args) <= sizeof(kiw_sge) + sizeof(kiw_atomic_args));
	return (head + std::max({sges, cap.max_inline_data, atomic}) + 15) / 16 * 16;
}

/// The way to a queue pair is closed.
void leave_number(Qp &qp)
{
	if (qp.kind)
		DatagramQp::of(qp).close();
	else
		number::give_back(qp.core.own.num);
}

/// What datagram queue pairs alone have
bool check_request(const kiw_create_qp_req &request, bool is_ud)
{
	const bool plain = !request.flags && !request.udp_port && !request.seg_size && !request.record_timeout;

	return !request.reserved && (plain || is_ud) && !(request.flags & ~std::uint32_t{KIW_QP_RECORD}) &&
	       request.seg_size <= KIW_RECORD_MAX_SEG_SIZE && request.record_timeout <= KIW_RECORD_MAX_TIMEOUT;
}

int check_qp(const ibv_pd *pd, const ibv_qp_init_attr &attr)
{
	const ibv_qp_cap &cap = attr.cap;

	if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UD)
		return EOPNOTSUPP;
	if (cap.max_send_wr > limits::qp_wr || cap.max_recv_wr > limits::qp_wr || cap.max_send_sge > limits::sge ||
		cap.max_recv_sge > limits::sge || cap.max_inline_data > limits::inline_data)
		return EINVAL;
	if (!attr.send_cq || !attr.recv_cq || attr.send_cq->context != pd->context ||
		attr.recv_cq->context != pd->context)
		return EINVAL;
	// The buffers are checked against the queue pair's domain: it has to be theirs.
	return attr.srq && attr.srq->pd->handle != pd->handle ? EINVAL : 0;
}

void raise_qp(Qp &qp, int type)
{
	ibv_async_event event{};

	event.element.qp = static_cast<ibv_qp *>(qp.user);
	event.event_type = static_cast<ibv_event_type>(type);
	raise(event.element.qp->context, event);
}

void raise_cq(kiw_cq &cq)
{
	ibv_async_event event{};

	event.element.cq = static_cast<ibv_cq *>(cq.user);
	event.event_type = IBV_EVENT_CQ_ERR;
	raise(event.element.cq->context, event);
}

void raise_srq(Srq &srq, int type)
{
	ibv_async_event event{};

	event.element.srq = static_cast<ibv_srq *>(srq.user);
	event.event_type = static_cast<ibv_event_type>(type);
	raise(event.element.srq->context, event);
}

bool is_of_qp(const ibv_async_event &event, const ibv_qp *qp)
{
	switch (event.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event.element.qp == qp;
	default:
		return false;
	}
}

// Outstanding Reads of an end that hasn't stated its number
constexpr std::uint16_t unknown_ord = 16;

/// TCP and MPA see to what these are about: accepted in every state, and by number stored.
constexpr int ignored_attributes = IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_PATH_MTU |
				   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
				   IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_CAP;

int check_attributes(Qp &qp, const ibv_qp_attr &attr, int mask)
{
	constexpr int known = ignored_attributes | IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
	// IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, which not every libibverbs names
	constexpr unsigned flush = 1U << 8 | 1U << 9;
	// Rights beyond the remote ones concern regions, or nothing here.
	constexpr unsigned rights = flush | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
				    IBV_ACCESS_OPTIONAL_RANGE;

	if (mask & IBV_QP_RATE_LIMIT)
		return EOPNOTSUPP;
	if (mask & ~known)
		return EINVAL;
	if ((mask & IBV_QP_ACCESS_FLAGS) && (attr.qp_access_flags & ~rights))
		return EINVAL;
	if (mask & IBV_QP_CUR_STATE) {
		Turn turn(qp.lock);

		if (attr.cur_qp_state != qp.shown_state())
			return EINVAL;
	}
	return 0;
}

constexpr int peer_attributes = IBV_QP_AV | IBV_QP_DEST_QPN;

/// Reads the peer from the attributes of a change to RTR. Returns 0 or an errno value.
int name_peer(const Qp &qp, const ibv_qp_attr &attr, int mask, Peer &peer)
{
	constexpr int needed = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	const ibv_global_route &grh = attr.ah_attr.grh;

	// Connections need an IP address, which only a GID holds.
	if ((mask & needed) != needed || attr.qp_state != IBV_QPS_RTR || !attr.ah_attr.is_global)
		return EINVAL;
	std::memcpy(&peer.remote, grh.dgid.raw, sizeof(peer.remote));
	if (const int error = find_path(grh.sgid_index, peer.remote, peer.local, peer.interface))
		return error;
	if (is_group(peer.remote))
		return EINVAL;
	peer.gid_index = grh.sgid_index;
	peer.path.flow_label = grh.flow_label;
	peer.path.traffic_class = grh.traffic_class;
	peer.path.hop_limit = grh.hop_limit;
	peer.path.mtu = IBV_MTU_4096;
	peer.ends.from = qp.core.own.num;
	peer.ends.to = attr.dest_qp_num;
	peer.ends.rq_psn = attr.rq_psn & KIW_PSN_MASK;
	peer.ird = mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr.max_dest_rd_atomic : limits::rd_atom;
	peer.ord = unknown_ord;
	// A connection needs two queue pairs.
	return peer.ends.to > KIW_QPN_MASK || peer.ird > limits::rd_atom ||
			       (peer.ends.to == peer.ends.from && IN6_ARE_ADDR_EQUAL(&peer.local, &peer.remote))
		       ? EINVAL
		       : 0;
}

/// What the program set of a peer by number. These would let another program connect in the peer's place, so they are
/// told only where the mask names them.
void tell_peer(const Peer &peer, ibv_qp_attr &attr, int mask)
{
	attr.path_mtu = static_cast<ibv_mtu>(peer.path.mtu);
	attr.timeout = peer.path.timeout;
	attr.retry_cnt = peer.path.retry_cnt;
	attr.rnr_retry = peer.path.rnr_retry;
	attr.min_rnr_timer = peer.path.min_rnr_timer;
	if (mask & IBV_QP_AV) {
		ibv_global_route &grh = attr.ah_attr.grh;

		std::memcpy(grh.dgid.raw, &peer.remote, sizeof(grh.dgid.raw));
		grh.flow_label = peer.path.flow_label;
		grh.sgid_index = peer.gid_index;
		grh.hop_limit = peer.path.hop_limit;
		grh.traffic_class = peer.path.traffic_class;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
	}
	if (mask & IBV_QP_DEST_QPN)
		attr.dest_qp_num = peer.ends.to;
	if (mask & IBV_QP_RQ_PSN)
		attr.rq_psn = peer.ends.rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		attr.sq_psn = peer.ends.sq_psn;
}

} // namespace

kiw_cq *find_cq(std::uint32_t handle)
{
	return cqs.find(handle);
}

Srq *find_srq(std::uint32_t handle)
{
	return srqs.find(handle);
}

void forget_objects()
{
	cqs.begin_anew();
	srqs.begin_anew();
	domains.begin_anew();
	for (limits::Count *count : {&num_ah, &num_pd, &num_mr, &num_mw, &num_cq, &num_srq, &num_qp})
		count->clear();
}

} // namespace kiwu

using namespace kiwu;

// --- protection domains and regions ---------------------------------------------------------------

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, void *, std::size_t, void *, std::size_t)
{
	auto domain = kiw::make<kiw_domain>();

	if (!domain || !num_pd.up(limits::pd))
		return ENOMEM;
	if (const int error = domains.add(domain.get(), 1, domain->number)) {
		num_pd.down();
		return error;
	}
	pd->context = context;
	pd->handle = domain.release()->number;
	return 0;
}

int ibv_cmd_dealloc_pd(ibv_pd *pd)
{
	kiw_domain *domain = domain_of(pd);

	if (!domain)
		return EINVAL;
	if (domain->users.load(std::memory_order_acquire))
		return EBUSY;
	domains.remove(domain->number);
	kiw::destroy(domain);
	num_pd.down();
	return 0;
}

int ibv_cmd_reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access,
	kiw::pabi::MemoryRegion *mr, void *, std::size_t, void *, std::size_t)
{
	kiw_region *region = nullptr;

	if (const int error = make_memory(pd, address, length, iova, access, region))
		return error;
	region->pd->users.fetch_add(1, std::memory_order_relaxed);
	if (const int error = add_region(*region)) {
		drop_memory(*region);
		return error;
	}
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = address;
	mr->mr.length = length;
	mr->mr.lkey = mr->mr.rkey = mr->mr.handle = region->stag.load(std::memory_order_relaxed);
	mr->access = access;
	return 0;
}

/// The same memory keeps its STag, which peers know; other memory gets another one.
int ibv_cmd_rereg_mr(kiw::pabi::MemoryRegion *mr, std::uint32_t flags, void *address, std::size_t length,
	std::uint64_t iova, int access, ibv_pd *pd, void *, std::size_t, void *, std::size_t)
{
	kiw_region *before = find_region(mr->mr.lkey), *region = nullptr;
	const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	if (!before || !flags || (flags & ~std::uint32_t{IBV_REREG_MR_FLAGS_SUPPORTED}))
		return EINVAL;
	if (!moves) {
		address = before->bytes;
		length = before->length;
		iova = before->iova;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = before->access;
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = mr->mr.pd;
	if (!close_region(*before))
		return EBUSY;
	int error = make_memory(pd, address, length, iova, access, region);
	if (!error) {
		region->pd->users.fetch_add(1, std::memory_order_relaxed);
		if (!moves)
			replace_region(*before, *region);
		else if ((error = add_region(*region)))
			drop_memory(*region);
	}
	if (error) {
		reopen_region(*before);
		return error;
	}
	end_memory(*before);
	mr->mr.lkey = mr->mr.rkey = mr->mr.handle = region->stag.load(std::memory_order_relaxed);
	mr->access = access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->mr.pd = pd;
	return 0;
}

int ibv_cmd_dereg_mr(kiw::pabi::MemoryRegion *mr)
{
	kiw_region *region = find_region(mr->mr.lkey);

	if (!region)
		return EINVAL;
	if (!close_region(*region))
		return EBUSY;
	end_memory(*region);
	return 0;
}

int ibv_cmd_query_mr(ibv_pd *, kiw::pabi::MemoryRegion *, std::uint32_t)
{
	return EOPNOTSUPP;
}

int ibv_cmd_alloc_mw(
	ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, void *, std::size_t, ib_uverbs_alloc_mw_resp *, std::size_t)
{
	kiw_domain *domain = domain_of(pd);

	if (!domain)
		return EINVAL;
	if (!num_mw.up(limits::mw))
		return ENOMEM;
	kiw_region *region = make_region();
	int error = region ? 0 : ENOMEM;
	if (region) {
		region->kind = type == IBV_MW_TYPE_1 ? kiw_region::Kind::window_1 : kiw_region::Kind::window_2;
		region->valid = false;
		region->pd = domain;
		region->parent = nullptr;
		region->owner = nullptr;
		error = add_region(*region);
	}
	if (error) {
		if (region)
			free_region(*region);
		num_mw.down();
		return error;
	}
	domain->users.fetch_add(1, std::memory_order_relaxed);
	const std::uint32_t stag = region->stag.load(std::memory_order_relaxed);
	*mw = {.context = pd->context, .pd = pd, .rkey = stag, .handle = stag >> 8, .type = type};
	return 0;
}

int ibv_cmd_dealloc_mw(ibv_mw *mw)
{
	kiw_region *region = find_region(mw->handle << 8);

	if (!region)
		return EINVAL;
	remove_region(*region);
	unbind(*region);
	region->pd->users.fetch_sub(1, std::memory_order_relaxed);
	free_region(*region);
	num_mw.down();
	return 0;
}

/// An address handle is only checked and counted here. Requests carry the address.
int ibv_cmd_create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *attr, ib_uverbs_create_ah_resp *, std::size_t)
{
	std::uint32_t interface = 0;
	in6_addr from{}, to{};

	// Datagrams are routed by IP, which needs a GID.
	if (!attr->is_global)
		return EINVAL;
	std::memcpy(&to, attr->grh.dgid.raw, sizeof(to));
	if (const int error = find_path(attr->grh.sgid_index, to, from, interface))
		return error;
	if (!num_ah.up(limits::ah))
		return ENOMEM;
	ah->context = pd->context;
	ah->pd = pd;
	return 0;
}

int ibv_cmd_destroy_ah(ibv_ah *)
{
	num_ah.down();
	return 0;
}

// --- completion queues ----------------------------------------------------------------------------

int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, ibv_cq *ibv,
	void *request, std::size_t request_size, void *response, std::size_t response_size)
{
	const auto &asked = own_part<kiw_create_cq_req>(request, request_size);

	if (cqe < 1 || cqe > static_cast<int>(limits::cqe) || comp_vector < 0 ||
		comp_vector >= context->num_comp_vectors || (channel && channel->context != context))
		return EINVAL;
	if (!num_cq.up(limits::cq))
		return ENOMEM;
	auto cq = kiw::make<kiw_cq>();
	int error = cq ? make_cq(*cq, static_cast<std::uint32_t>(cqe)) : ENOMEM;
	if (!error)
		error = cqs.add(cq.get(), 1, ibv->handle);
	if (error) {
		if (cq)
			std::free(cq->map.mem);
		num_cq.down();
		return error;
	}
	cq->timed = asked.flags & KIW_CQ_TIME;
	cq->channel = channel ? &Channel::from(channel).queue : nullptr;
	cq->event.object = ibv;
	cq->overflow = raise_cq;
	cq->user = ibv;
	ibv->context = context;
	ibv->cqe = static_cast<int>(cq->entries);
	own_part<kiw_create_cq_resp>(response, response_size).ring = tell(cq->map, cq->entries);
	cq.release();
	return 0;
}

int ibv_cmd_resize_cq(ibv_cq *ibv, int cqe, void *, std::size_t, void *response, std::size_t response_size)
{
	kiw_cq &cq = of(ibv);

	if (cqe < 1 || cqe > static_cast<int>(limits::cqe))
		return EINVAL;
	if (const int error = resize_cq(cq, static_cast<std::uint32_t>(cqe)))
		return error;
	ibv->cqe = static_cast<int>(cq.entries);
	own_part<kiw_resize_cq_resp>(response, response_size).ring = tell(cq.map, cq.entries);
	return 0;
}

int ibv_cmd_modify_cq(ibv_cq *ibv, ibv_modify_cq_attr *attr, void *, std::size_t)
{
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return EINVAL;
	modify_cq(of(ibv), attr->moderate.cq_count, attr->moderate.cq_period);
	return 0;
}

int ibv_cmd_destroy_cq(ibv_cq *ibv)
{
	kiw_cq *cq = find_cq(ibv->handle);

	if (!cq)
		return EINVAL;
	{
		Turn turn(cq->members_lock);

		if (cq->used)
			return EBUSY;
	}
	cqs.remove(ibv->handle);
	stop_cq(*cq);
	forget_events(ibv->context, [&](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == ibv;
	});
	await_acks(*ibv, cq->events_told, ibv->comp_events_completed);
	await_acks(*ibv, cq->async_events_told, ibv->async_events_completed);
	cq->watched.put();
	num_cq.down();
	return 0;
}

// --- shared receive queues ------------------------------------------------------------------------

int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *ibv, ibv_srq_init_attr *attr, void *, std::size_t, void *response,
	std::size_t response_size)
{
	if (attr->attr.max_wr < 1 || attr->attr.max_wr > limits::qp_wr || attr->attr.max_sge > limits::sge ||
		!domain_of(pd))
		return EINVAL;
	if (!num_srq.up(limits::srq))
		return ENOMEM;
	auto srq = kiw::make<Srq>();
	int error = srq ? srq->make(attr->attr.max_wr, attr->attr.max_sge) : ENOMEM;
	if (!error)
		error = srqs.add(srq.get(), 1, ibv->handle);
	if (error) {
		if (srq)
			srq->free();
		num_srq.down();
		return error;
	}
	srq->raise = raise_srq;
	srq->user = ibv;
	domain_of(pd)->users.fetch_add(1, std::memory_order_relaxed);
	attr->attr.max_wr = srq->rq.entries;
	attr->attr.max_sge = srq->rq.max_sge;
	ibv->context = pd->context;
	ibv->pd = pd;
	ibv->srq_context = attr->srq_context;
	init_events(*ibv);
	own_part<kiw_create_srq_resp>(response, response_size).ring = tell(srq->rq.map, srq->rq.entries);
	srq.release();
	return 0;
}

int ibv_cmd_modify_srq(ibv_srq *ibv, ibv_srq_attr *attr, int mask, void *request, std::size_t request_size)
{
	Srq &srq = of(ibv);
	const bool limited = mask & IBV_SRQ_LIMIT;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		if (attr->max_wr < 1 || attr->max_wr > limits::qp_wr ||
			(limited && attr->srq_limit > roundup_pow_of_two(attr->max_wr)))
			return EINVAL;
		if (const int error = srq.resize(attr->max_wr))
			return error;
		const std::uint64_t response = own_part<kiw_modify_srq_req>(request, request_size).response;
		reinterpret_cast<kiw_create_srq_resp *>(response)->ring = // NOLINT(performance-no-int-to-ptr)
			tell(srq.rq.map, srq.rq.entries);
	}
	return limited ? srq.set_limit(attr->srq_limit) : 0;
}

int ibv_cmd_query_srq(ibv_srq *ibv, ibv_srq_attr *attr, void *, std::size_t)
{
	*attr = {};
	attr->max_sge = of(ibv).rq.max_sge;
	of(ibv).query(attr->max_wr, attr->srq_limit);
	return 0;
}

int ibv_cmd_destroy_srq(ibv_srq *ibv)
{
	Srq *srq = find_srq(ibv->handle);

	if (!srq)
		return EINVAL;
	if (srq->users.load(std::memory_order_acquire))
		return EBUSY;
	srqs.remove(ibv->handle);
	forget_events(ibv->context, [&](const ibv_async_event &event) {
		return (event.event_type == IBV_EVENT_SRQ_ERR || event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) &&
		       event.element.srq == ibv;
	});
	await_acks(*ibv, srq->async_events_told, ibv->events_completed);
	domain_of(ibv->pd)->users.fetch_sub(1, std::memory_order_relaxed);
	srq->free();
	kiw::destroy(srq);
	num_srq.down();
	return 0;
}

// --- queue pairs ----------------------------------------------------------------------------------

int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *ibv, ibv_qp_init_attr *attr, void *request, std::size_t request_size,
	void *response, std::size_t response_size)
{
	auto &rings = own_part<kiw_create_qp_resp>(response, response_size);
	const auto &own = own_part<kiw_create_qp_req>(request, request_size);
	const bool is_ud = attr->qp_type == IBV_QPT_UD;
	ibv_qp_cap &cap = attr->cap;
	kiw_domain *domain = domain_of(pd);

	if (const int error = check_qp(pd, *attr))
		return error;
	if (!domain || !check_request(own, is_ud))
		return EINVAL;
	if (!num_qp.up(limits::qp))
		return ENOMEM;
	Qp *made = is_ud ? kiw::make<DatagramQp>().release() : kiw::make<Qp>().release();
	if (!made) {
		num_qp.down();
		return ENOMEM;
	}
	Qp &qp = *made;
	if (attr->srq) {
		qp.srq = &of(attr->srq);
		cap.max_recv_wr = 0;
		cap.max_recv_sge = qp.srq->rq.max_sge;
	}
	cap.max_send_sge = std::max(cap.max_send_sge, 1U);
	cap.max_recv_sge = std::max(cap.max_recv_sge, 1U);
	qp.core.own.pd = domain;
	qp.core.own.cookie = own.cookie;
	qp.core.sq.entries = roundup_pow_of_two(std::max(cap.max_send_wr, 1U));
	qp.core.sq.head = is_ud ? KIW_SQ_HEAD_UD : KIW_SQ_HEAD;
	qp.core.sq.max_sge = static_cast<u8>(cap.max_send_sge);
	qp.core.rq.entries = cap.max_recv_wr ? roundup_pow_of_two(cap.max_recv_wr) : 0;
	qp.core.rq.max_sge = static_cast<u8>(cap.max_recv_sge);
	const std::uint32_t stride = send_stride(qp.core.sq.head, cap);
	// What the slots hold is what is granted.
	cap.max_send_wr = qp.core.sq.entries;
	cap.max_recv_wr = qp.core.rq.entries;
	cap.max_inline_data = std::min(stride - std::uint32_t{qp.core.sq.head}, limits::inline_data);
	qp.core.sq.max_inline = static_cast<u16>(cap.max_inline_data);
	qp.caps = KIW_CAP_IMM | KIW_CAP_ATOMIC;
	qp.use(of(attr->send_cq), of(attr->recv_cq));
	qp.raise = raise_qp;
	qp.user = ibv;
	const std::uint32_t recv_stride = kiw_rq_stride(cap.max_recv_sge);
	int error = is_ud ? DatagramQp::of(qp).open(own) : number::take(qp.core.own.num);
	if (!error) {
		error = is_ud ? DatagramQp::of(qp).make(stride, recv_stride) : qp.make(stride, recv_stride);
		if (error)
			leave_number(qp);
	}
	if (error) {
		qp.watched.put();
		num_qp.down();
		return error;
	}
	domain->users.fetch_add(1, std::memory_order_relaxed);
	if (qp.srq)
		qp.srq->users.fetch_add(1, std::memory_order_relaxed);
	ibv->context = pd->context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->handle = ibv->qp_num = qp.core.own.num;
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	init_events(*ibv);
	rings.sq = tell(qp.core.sq.map, qp.core.sq.entries);
	rings.rq = qp.core.rq.entries ? tell(qp.core.rq.map, qp.core.rq.entries) : kiw_ring_geometry{};
	return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *ibv)
{
	Qp *qp = find_qp(ibv->handle);
	Inbox *inbox = nullptr;

	if (!qp)
		return EINVAL;
	if (qp->kind && DatagramQp::of(*qp).is_member())
		return EBUSY;
	{
		Turn turn(qp->lock);

		qp->dying = true;
		inbox = qp->inbox;
		if (inbox)
			inbox->watched.get();
	}
	// The endpoint lets go of it.
	if (inbox) {
		if (qp->end_connection)
			qp->end_connection(*qp, *inbox);
		inbox->watched.put();
	}
	forget_events(ibv->context, [&](const ibv_async_event &event) { return is_of_qp(event, ibv); });
	await_acks(*ibv, qp->async_events_told, ibv->events_completed);
	domain_of(ibv->pd)->users.fetch_sub(1, std::memory_order_relaxed);
	if (qp->srq)
		qp->srq->users.fetch_sub(1, std::memory_order_relaxed);
	// A reference for its number, which nobody else gets before nobody finds it.
	qp->watched.get();
	qp->end();
	leave_number(*qp);
	qp->watched.put();
	num_qp.down();
	return 0;
}

int ibv_cmd_modify_qp(ibv_qp *ibv, ibv_qp_attr *attr, int mask, void *, std::size_t)
{
	const bool names = mask & peer_attributes;
	Qp &qp = of(ibv);
	Peer named;

	if (qp.kind) {
		const int error = DatagramQp::of(qp).modify(*attr, mask);

		if (!error && (mask & IBV_QP_STATE))
			ibv->state = attr->qp_state;
		return error;
	}
	if (names)
		if (const int error = name_peer(qp, *attr, mask, named))
			return error;
	mask &= ~peer_attributes;
	if (const int error = check_attributes(qp, *attr, mask))
		return error;
	if (const int error = number::modify(qp, *attr, mask, names ? &named : nullptr))
		return error;
	if (mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	return 0;
}

int ibv_cmd_query_qp(ibv_qp *ibv, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init, void *, std::size_t)
{
	Qp &qp = of(ibv);

	*attr = {};
	*init = {};
	{
		Turn turn(qp.lock);

		attr->qp_state = attr->cur_qp_state = qp.shown_state();
		attr->qp_access_flags = qp.core.own.access;
		attr->max_rd_atomic = static_cast<std::uint8_t>(std::min<u16>(qp.core.ord, UINT8_MAX));
		attr->max_dest_rd_atomic = static_cast<std::uint8_t>(std::min<u16>(qp.core.ird, UINT8_MAX));
		attr->path_mtu = IBV_MTU_4096;
		if (qp.kind)
			DatagramQp::of(qp).query(*attr, mask);
		if (qp.by_number)
			tell_peer(qp.peer, *attr, mask);
		// Nothing is negotiated yet.
		if (qp.by_number && qp.core.state == KIW_QP_IDLE) {
			attr->max_rd_atomic = static_cast<std::uint8_t>(qp.peer.ord);
			attr->max_dest_rd_atomic = static_cast<std::uint8_t>(qp.peer.ird);
		}
	}
	attr->port_num = 1;
	attr->cap = {.max_send_wr = qp.core.sq.entries,
		.max_recv_wr = qp.core.rq.entries,
		.max_send_sge = qp.core.sq.max_sge,
		.max_recv_sge = qp.core.rq.max_sge,
		.max_inline_data = qp.core.sq.max_inline};
	init->qp_context = ibv->qp_context;
	init->send_cq = ibv->send_cq;
	init->recv_cq = ibv->recv_cq;
	init->srq = ibv->srq;
	init->cap = attr->cap;
	init->qp_type = ibv->qp_type;
	ibv->state = attr->qp_state;
	return 0;
}

/// Of verbs' groups, those of IPv4 are mapped.
static bool may_attach(const ibv_qp *qp, const ibv_gid *gid)
{
	in6_addr group{};

	std::memcpy(&group, gid->raw, sizeof(group));
	return qp->qp_type == IBV_QPT_UD && is_group(group);
}

int ibv_cmd_attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return may_attach(qp, gid) ? DatagramQp::of(of(qp)).join(*gid, lid) : EINVAL;
}

int ibv_cmd_detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return may_attach(qp, gid) ? DatagramQp::of(of(qp)).leave(*gid, lid) : EINVAL;
}
