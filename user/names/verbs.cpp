// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The public names of libibverbs. Each asks whether the object is of our device, and calls the next library of that
// name if not.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "context.hpp"
#include "device.hpp"
#include "domain.hpp"
#include "memory.hpp"
#include "names.hpp"
#include "next.hpp"
#include "objects.hpp"
#include "open.hpp"
#include "operations.hpp"
#include "options.hpp"
#include "provider/ah.hpp"
#include "provider/cq.hpp"
#include "provider/mr.hpp"
#include "provider/mw.hpp"
#include "provider/qp.hpp"
#include "provider/srq.hpp"

using namespace kiwu;

namespace {

/// A list of devices that the program gets, in front of which the real one stands
struct DeviceList {
	ibv_device **real;
	ibv_device *entries[];

	static DeviceList &from(ibv_device **list)
	{
		return *reinterpret_cast<DeviceList *>(
			reinterpret_cast<std::byte *>(list) - offsetof(DeviceList, entries));
	}
};

} // namespace

// --- devices --------------------------------------------------------------------------------------

KIW_NAME ibv_device **ibv_get_device_list(int *count)
{
	int real_count = 0;

	if (count)
		*count = 0;
	if (!show_device())
		return fail<ibv_device *>(EINVAL);
	// Without the kernel's RDMA there are none.
	ibv_device **real = NEXT(ibv_get_device_list, &real_count);
	if (!real)
		real_count = 0;
	const auto entries = static_cast<std::size_t>(real_count) + 2;
	auto *list = static_cast<DeviceList *>(std::calloc(1, sizeof(DeviceList) + entries * sizeof(ibv_device *)));
	if (!list) {
		if (real)
			NEXT(ibv_free_device_list, real);
		return nullptr;
	}
	list->real = real;
	std::copy(real, real + real_count, list->entries + options.prefer);
	list->entries[options.prefer ? 0 : real_count] = &device;
	if (count)
		*count = real_count + 1;
	errno = 0;
	return list->entries;
}

KIW_NAME void ibv_free_device_list(ibv_device **list)
{
	DeviceList &all = DeviceList::from(list);

	if (all.real)
		NEXT(ibv_free_device_list, all.real);
	std::free(&all);
}

KIW_NAME const char *ibv_get_device_name(ibv_device *of)
{
	return ours(of) ? of->name : NEXT(ibv_get_device_name, of);
}

KIW_NAME int ibv_get_device_index(ibv_device *of)
{
	return ours(of) ? -1 : NEXT(ibv_get_device_index, of);
}

KIW_NAME __be64 ibv_get_device_guid(ibv_device *of)
{
	return ours(of) ? node_guid() : NEXT(ibv_get_device_guid, of);
}

KIW_NAME ibv_context *ibv_open_device(ibv_device *of)
{
	if (!ours(of))
		return NEXT(ibv_open_device, of);
	return open_device();
}

/// Whether a child of fork() has it of its parent
static bool is_parents(ibv_context *context)
{
	return kiw::Context::from(context).origin.inherited();
}

KIW_NAME int ibv_close_device(ibv_context *context)
{
	if (!ours(context))
		return NEXT(ibv_close_device, context);
	// Nothing of a parent's is closed. That is no error, as over the module: Python closes what it collects.
	if (!is_parents(context))
		close_device(context);
	return 0;
}

KIW_NAME int ibv_query_device(ibv_context *context, ibv_device_attr *attr)
{
	ibv_device_attr_ex all{};

	if (!ours(context))
		return NEXT(ibv_query_device, context, attr);
	query_device(all, sizeof(all));
	*attr = all.orig_attr;
	return 0;
}

KIW_NAME int ibv_query_port(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr)
{
	ibv_port_attr all{};

	if (!ours(context))
		return NEXT(ibv_query_port, context, port, attr);
	if (port != 1)
		return EINVAL;
	query_port(all, sizeof(all));
	// What programs of old know ends before the flags.
	std::memcpy(static_cast<void *>(attr), &all, offsetof(ibv_port_attr, flags));
	return 0;
}

KIW_NAME int ibv_query_gid(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid)
{
	if (!ours(context))
		return NEXT(ibv_query_gid, context, port, index, gid);
	if (port != 1 || index < 0 || !query_gid(static_cast<std::uint32_t>(index), *gid))
		return fail(EINVAL);
	return 0;
}

/// Returns 0 or an errno value.
static int gid_entry(std::uint32_t index, ibv_gid_entry *entry, std::size_t size)
{
	ibv_gid_entry full{};

	if (!query_gid(index, full.gid))
		return EINVAL;
	if (!full.gid.global.subnet_prefix && !full.gid.global.interface_id)
		return ENODATA;
	full.gid_index = index;
	full.port_num = 1;
	// iWARP's GIDs are of no RoCE.
	full.gid_type = IBV_GID_TYPE_IB;
	full.ndev_ifindex = interface_of(index);
	std::memcpy(entry, &full, std::min(size, sizeof(full)));
	return 0;
}

KIW_NAME int _ibv_query_gid_ex(ibv_context *context, std::uint32_t port, std::uint32_t index, ibv_gid_entry *entry,
	std::uint32_t flags, std::size_t size)
{
	if (!ours(context))
		return NEXT(_ibv_query_gid_ex, context, port, index, entry, flags, size);
	return port != 1 || flags ? EINVAL : gid_entry(index, entry, size);
}

KIW_NAME ssize_t _ibv_query_gid_table(
	ibv_context *context, ibv_gid_entry *entries, std::size_t most, std::uint32_t flags, std::size_t size)
{
	std::size_t found = 0;
	ibv_port_attr port{};

	if (!ours(context))
		return NEXT(_ibv_query_gid_table, context, entries, most, flags, size);
	if (flags)
		return -EINVAL;
	query_port(port, sizeof(port));
	for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(port.gid_tbl_len); i++) {
		ibv_gid_entry entry{};

		if (gid_entry(i, &entry, sizeof(entry)))
			continue;
		if (found == most)
			return -EINVAL;
		std::memcpy(
			reinterpret_cast<std::byte *>(entries) + found++ * size, &entry, std::min(size, sizeof(entry)));
	}
	return static_cast<ssize_t>(found);
}

KIW_NAME int ibv_query_pkey(ibv_context *context, std::uint8_t port, int index, __be16 *pkey)
{
	if (!ours(context))
		return NEXT(ibv_query_pkey, context, port, index, pkey);
	if (port != 1 || index != 0)
		return fail(EINVAL);
	*pkey = 0; // there are no partitions
	return 0;
}

KIW_NAME int ibv_get_pkey_index(ibv_context *context, std::uint8_t port, __be16 pkey)
{
	if (!ours(context))
		return NEXT(ibv_get_pkey_index, context, port, pkey);
	return port == 1 && !pkey ? 0 : fail(EINVAL);
}

// --- events ---------------------------------------------------------------------------------------

static void count_async(Event &event)
{
	const ibv_async_event &told = reinterpret_cast<const AsyncEvent &>(event).told;

	switch (told.event_type) {
	case IBV_EVENT_CQ_ERR:
		of(told.element.cq).async_events_told++;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		of(told.element.srq).async_events_told++;
		break;
	default:
		of(told.element.qp).async_events_told++;
	}
}

KIW_NAME int ibv_get_async_event(ibv_context *context, ibv_async_event *event)
{
	Event *taken = nullptr;

	if (!ours(context))
		return NEXT(ibv_get_async_event, context, event);
	if (is_parents(context))
		return fail(EPERM);
	if (const int error = OpenDevice::from(context).async.take(taken, count_async))
		return fail(error);
	auto *fetched = reinterpret_cast<AsyncEvent *>(taken);
	*event = fetched->told;
	kiw::destroy(fetched);
	return 0;
}

KIW_NAME void ibv_ack_async_event(ibv_async_event *event)
{
	const auto ack = [](auto *object, std::uint32_t &completed) {
		::pthread_mutex_lock(&object->mutex);
		completed++;
		::pthread_cond_signal(&object->cond);
		::pthread_mutex_unlock(&object->mutex);
	};

	// As in libibverbs, which object it is says the type; those of other devices count alike.
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(event->element.cq, event->element.cq->async_events_completed);
		return;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		ack(event->element.qp, event->element.qp->events_completed);
		return;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(event->element.srq, event->element.srq->events_completed);
		return;
	case IBV_EVENT_WQ_FATAL:
		NEXT(ibv_ack_async_event, event);
		return;
	default:
		return;
	}
}

KIW_NAME ibv_comp_channel *ibv_create_comp_channel(ibv_context *context)
{
	if (!ours(context))
		return NEXT(ibv_create_comp_channel, context);
	if (kiw::Context::from(context).origin.inherited())
		return fail<ibv_comp_channel>(EPERM);
	auto channel = kiw::make<Channel>();
	const int error = channel ? channel->queue.open() : ENOMEM;
	if (error)
		return fail<ibv_comp_channel>(error);
	channel->ibv.context = context;
	channel->ibv.fd = channel->queue.fd();
	return &channel.release()->ibv;
}

KIW_NAME int ibv_destroy_comp_channel(ibv_comp_channel *channel)
{
	if (!ours(channel))
		return NEXT(ibv_destroy_comp_channel, channel);
	ibv_context *context = channel->context;
	::pthread_mutex_lock(&context->mutex);
	const bool used = channel->refcnt;
	::pthread_mutex_unlock(&context->mutex);
	if (used)
		return EBUSY;
	kiw::destroy(&Channel::from(channel));
	return 0;
}

KIW_NAME int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **cq_context)
{
	Event *taken = nullptr;

	if (!ours(channel))
		return NEXT(ibv_get_cq_event, channel, cq, cq_context);
	if (is_parents(channel->context))
		return fail(EPERM);
	const auto count = [](Event &event) {
		of(static_cast<ibv_cq *>(event.object)).events_told++;
	};
	if (const int error = Channel::from(channel).queue.take(taken, count))
		return fail(error);
	*cq = static_cast<ibv_cq *>(taken->object);
	*cq_context = (*cq)->cq_context;
	return 0;
}

KIW_NAME void ibv_ack_cq_events(ibv_cq *cq, unsigned int count)
{
	// The same for all devices
	::pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	::pthread_cond_signal(&cq->cond);
	::pthread_mutex_unlock(&cq->mutex);
}

// --- objects --------------------------------------------------------------------------------------

KIW_NAME ibv_pd *ibv_alloc_pd(ibv_context *context)
{
	return ours(context) ? kiw::alloc_pd(context) : NEXT(ibv_alloc_pd, context);
}

KIW_NAME int ibv_dealloc_pd(ibv_pd *pd)
{
	if (!ours(pd))
		return NEXT(ibv_dealloc_pd, pd);
	const int error = kiw::dealloc_pd(pd);
	// A command sets it as well, and programs report it.
	if (error)
		errno = error;
	return error;
}

static ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access)
{
	ibv_mr *mr = kiw::reg_mr(pd, address, length, iova, access);

	if (mr) {
		mr->context = pd->context;
		mr->pd = pd;
		mr->addr = address;
		mr->length = length;
	}
	return mr;
}

KIW_NAME ibv_mr *ibv_reg_mr(ibv_pd *pd, void *address, std::size_t length, int access)
{
	if (!ours(pd))
		return NEXT(ibv_reg_mr, pd, address, length, access);
	return reg_mr(pd, address, length, reinterpret_cast<std::uintptr_t>(address), access);
}

KIW_NAME ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access)
{
	if (!ours(pd))
		return NEXT(ibv_reg_mr_iova, pd, address, length, iova, access);
	return reg_mr(pd, address, length, iova, access);
}

KIW_NAME ibv_mr *ibv_reg_mr_iova2(
	ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, unsigned int access)
{
	if (!ours(pd))
		return NEXT(ibv_reg_mr_iova2, pd, address, length, iova, access);
	// What may be ignored is.
	return reg_mr(pd, address, length, iova, static_cast<int>(access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}));
}

KIW_NAME ibv_mr *ibv_reg_dmabuf_mr(
	ibv_pd *pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd, int access)
{
	return ours(pd) ? fail<ibv_mr>(EOPNOTSUPP) : NEXT(ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}

KIW_NAME int ibv_rereg_mr(ibv_mr *mr, int flags, ibv_pd *pd, void *address, std::size_t length, int access)
{
	if (!ours(mr))
		return NEXT(ibv_rereg_mr, mr, flags, pd, address, length, access);
	if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || !flags ||
		((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!length || !address)) ||
		((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->context))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (const int error = kiw::rereg_mr(
		    reinterpret_cast<kiw::pabi::MemoryRegion *>(mr), flags, pd, address, length, access)) {
		errno = error;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = address;
		mr->length = length;
	}
	return 0;
}

KIW_NAME int ibv_dereg_mr(ibv_mr *mr)
{
	return ours(mr) ? kiw::dereg_mr(reinterpret_cast<kiw::pabi::MemoryRegion *>(mr)) : NEXT(ibv_dereg_mr, mr);
}

KIW_NAME ibv_cq *ibv_create_cq(
	ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *channel, int comp_vector)
{
	if (!ours(context))
		return NEXT(ibv_create_cq, context, cqe, cq_context, channel, comp_vector);
	if (channel && !ours(channel))
		return fail<ibv_cq>(EINVAL);
	ibv_cq *cq = kiw::create_cq(context, cqe, channel, comp_vector);
	if (cq)
		init_cq(*cq, context, channel, cq_context);
	return cq;
}

KIW_NAME int ibv_resize_cq(ibv_cq *cq, int cqe)
{
	return ours(cq) ? kiw::resize_cq(cq, cqe) : NEXT(ibv_resize_cq, cq, cqe);
}

KIW_NAME int ibv_destroy_cq(ibv_cq *cq)
{
	if (!ours(cq))
		return NEXT(ibv_destroy_cq, cq);
	ibv_context *context = cq->context;
	ibv_comp_channel *channel = cq->channel;
	if (const int error = kiw::destroy_cq(cq))
		return error;
	if (channel) {
		::pthread_mutex_lock(&context->mutex);
		channel->refcnt--;
		::pthread_mutex_unlock(&context->mutex);
	}
	return 0;
}

KIW_NAME ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *attr)
{
	return ours(pd) ? kiw::create_srq(pd, attr) : NEXT(ibv_create_srq, pd, attr);
}

KIW_NAME int ibv_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask)
{
	return ours(srq) ? kiw::modify_srq(srq, attr, mask) : NEXT(ibv_modify_srq, srq, attr, mask);
}

KIW_NAME int ibv_query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
	return ours(srq) ? kiw::query_srq(srq, attr) : NEXT(ibv_query_srq, srq, attr);
}

KIW_NAME int ibv_destroy_srq(ibv_srq *srq)
{
	return ours(srq) ? kiw::destroy_srq(srq) : NEXT(ibv_destroy_srq, srq);
}

KIW_NAME ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
	const auto is_strange = [&](const auto *object) {
		return object && object->context != pd->context;
	};

	if (!ours(pd))
		return NEXT(ibv_create_qp, pd, attr);
	if (is_strange(attr->send_cq) || is_strange(attr->recv_cq) || is_strange(attr->srq))
		return fail<ibv_qp>(EINVAL);
	return kiw::create_qp(pd, attr);
}

KIW_NAME int ibv_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
	return ours(qp) ? kiw::modify_qp(qp, attr, mask) : NEXT(ibv_modify_qp, qp, attr, mask);
}

KIW_NAME int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init)
{
	return ours(qp) ? kiw::query_qp(qp, attr, mask, init) : NEXT(ibv_query_qp, qp, attr, mask, init);
}

KIW_NAME int ibv_query_qp_data_in_order(ibv_qp *qp, ibv_wr_opcode op, std::uint32_t flags)
{
	// The last octets of a Write are placed last, all others in any order.
	return ours(qp) ? 0 : NEXT(ibv_query_qp_data_in_order, qp, op, flags);
}

KIW_NAME int ibv_destroy_qp(ibv_qp *qp)
{
	return ours(qp) ? kiw::destroy_qp(qp) : NEXT(ibv_destroy_qp, qp);
}

KIW_NAME ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *qp)
{
	auto *pair = reinterpret_cast<kiw::pabi::QueuePair *>(qp);

	if (!ours(qp))
		return NEXT(ibv_qp_to_qp_ex, qp);
	return pair->comp_mask() & kiw::pabi::qp_is_extended ? &pair->qp_ex : nullptr;
}

KIW_NAME ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *attr)
{
	return ours(pd) ? kiw::create_ah(pd, attr) : NEXT(ibv_create_ah, pd, attr);
}

KIW_NAME int ibv_destroy_ah(ibv_ah *ah)
{
	return ours(ah) ? kiw::destroy_ah(ah) : NEXT(ibv_destroy_ah, ah);
}

static int init_ah_from_wc(std::uint8_t port, const ibv_wc &wc, const ibv_grh &grh, ibv_ah_attr &attr)
{
	attr = {};
	attr.dlid = wc.slid;
	attr.sl = wc.sl;
	attr.src_path_bits = wc.dlid_path_bits;
	attr.port_num = port;
	if (!(wc.wc_flags & IBV_WC_GRH))
		return 0;
	const int slot = find_gid(grh.dgid);
	// A group is no address of the receiver.
	if (slot < 0)
		return fail(EINVAL);
	const std::uint32_t flow = ntohl(grh.version_tclass_flow);
	attr.is_global = 1;
	attr.grh.dgid = grh.sgid;
	attr.grh.sgid_index = static_cast<std::uint8_t>(slot);
	attr.grh.hop_limit = UINT8_MAX;
	attr.grh.flow_label = flow & 0xfffff;
	attr.grh.traffic_class = static_cast<std::uint8_t>(flow >> 20);
	return 0;
}

KIW_NAME int ibv_init_ah_from_wc(ibv_context *context, std::uint8_t port, ibv_wc *wc, ibv_grh *grh, ibv_ah_attr *attr)
{
	if (!ours(context))
		return NEXT(ibv_init_ah_from_wc, context, port, wc, grh, attr);
	return init_ah_from_wc(port, *wc, *grh, *attr);
}

KIW_NAME ibv_ah *ibv_create_ah_from_wc(ibv_pd *pd, ibv_wc *wc, ibv_grh *grh, std::uint8_t port)
{
	ibv_ah_attr attr;

	if (!ours(pd))
		return NEXT(ibv_create_ah_from_wc, pd, wc, grh, port);
	return init_ah_from_wc(port, *wc, *grh, attr) ? nullptr : kiw::create_ah(pd, &attr);
}

KIW_NAME int ibv_attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return ours(qp) ? kiw::attach_mcast(qp, gid, lid) : NEXT(ibv_attach_mcast, qp, gid, lid);
}

KIW_NAME int ibv_detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return ours(qp) ? kiw::detach_mcast(qp, gid, lid) : NEXT(ibv_detach_mcast, qp, gid, lid);
}

// --- what there isn't -----------------------------------------------------------------------------

KIW_NAME int ibv_set_ece(ibv_qp *qp, ibv_ece *ece)
{
	return ours(qp) ? EOPNOTSUPP : NEXT(ibv_set_ece, qp, ece);
}

KIW_NAME int ibv_query_ece(ibv_qp *qp, ibv_ece *ece)
{
	return ours(qp) ? EOPNOTSUPP : NEXT(ibv_query_ece, qp, ece);
}

KIW_NAME ibv_pd *ibv_import_pd(ibv_context *context, std::uint32_t handle)
{
	return ours(context) ? fail<ibv_pd>(EOPNOTSUPP) : NEXT(ibv_import_pd, context, handle);
}

KIW_NAME void ibv_unimport_pd(ibv_pd *pd)
{
	if (!ours(pd))
		NEXT(ibv_unimport_pd, pd);
}

KIW_NAME ibv_mr *ibv_import_mr(ibv_pd *pd, std::uint32_t handle)
{
	return ours(pd) ? fail<ibv_mr>(EOPNOTSUPP) : NEXT(ibv_import_mr, pd, handle);
}

KIW_NAME void ibv_unimport_mr(ibv_mr *mr)
{
	if (!ours(mr))
		NEXT(ibv_unimport_mr, mr);
}

KIW_NAME ibv_dm *ibv_import_dm(ibv_context *context, std::uint32_t handle)
{
	return ours(context) ? fail<ibv_dm>(EOPNOTSUPP) : NEXT(ibv_import_dm, context, handle);
}

KIW_NAME int ibv_resolve_eth_l2_from_gid(
	ibv_context *context, ibv_ah_attr *attr, std::uint8_t *mac, std::uint16_t *vlan)
{
	return ours(context) ? fail(EOPNOTSUPP) : NEXT(ibv_resolve_eth_l2_from_gid, context, attr, mac, vlan);
}
