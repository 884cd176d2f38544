// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// libibverbs' private interface for providers, as far as used here, of rdma-core 34 to 65. Distributions install no
// header for it.
//
// KIW_RDMA_CORE chooses the layouts: the first release with them. The number of the private ABI isn't enough: rdma-core
// 35, 36 and 62 added members without a new number. A build of the provider serves one number, so operations.cpp is
// compiled for each release of that number, and rdma_core.cpp detects the release at run time. All other files are
// common.
//
// Objects that the provider only carries are opaque bytes. ibv_qp_ex grew at its end, verbs_context at its beginning.
// Both come from the installed <infiniband/verbs.h>, but the libibverbs at run time may differ: no object depends on
// their size.
#pragma once

#ifndef KIW_RDMA_CORE
#define KIW_RDMA_CORE 36 // Debian 12 and 13
#endif

#if KIW_RDMA_CORE == 65
#define KIW_PABI 65
#elif KIW_RDMA_CORE == 64
#define KIW_PABI 64
#elif KIW_RDMA_CORE == 59 || KIW_RDMA_CORE == 62
#define KIW_PABI 59
#elif KIW_RDMA_CORE == 57
#define KIW_PABI 57
#elif KIW_RDMA_CORE >= 34 && KIW_RDMA_CORE <= 36
#define KIW_PABI 34
#else
#error KIW_RDMA_CORE is no release that begins a layout
#endif

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <type_traits>

namespace kiw::pabi {

/// Places that moved between releases: members in bytes, operations in slots
struct Layout {
	int rdma_core;
	unsigned interface;	   // newest public one: 1.x
	std::size_t context_front; // of verbs_context, before its ibv_context
	std::size_t sysfs_abi_ver, sysfs_device;
	std::size_t alloc_pd, create_cq, create_qp, dealloc_pd, dereg_mr, destroy_cq, destroy_qp, free_context,
		modify_qp, poll_cq, post_recv, post_send, query_device_ex, query_port, query_qp, reg_mr, req_notify_cq,
		end;
};

// clang-format off
inline constexpr Layout layouts[] = {
	{34, 12, 320, 964, 984, 5, 15, 19, 26, 28, 31, 34, 39, 46, 52, 53, 54, 57, 59, 60, 66, 67, 73},
	{35, 13, 320, 968, 992, 5, 15, 19, 26, 28, 31, 34, 39, 47, 53, 54, 55, 58, 60, 61, 67, 68, 75},
	{36, 14, 320, 968, 992, 5, 15, 19, 26, 28, 31, 34, 39, 47, 53, 54, 55, 58, 60, 61, 68, 69, 76},
	{57, 14, 320, 968, 992, 5, 15, 19, 26, 28, 31, 34, 39, 47, 53, 54, 55, 58, 60, 61, 68, 69, 76},
	{59, 15, 344, 968, 992, 6, 16, 20, 28, 30, 33, 36, 41, 49, 55, 56, 57, 60, 62, 63, 70, 72, 79},
	{62, 16, 352, 968, 992, 6, 16, 20, 28, 30, 33, 36, 42, 50, 56, 57, 58, 61, 63, 65, 72, 74, 81},
	{64, 17, 368, 968, 992, 7, 17, 21, 29, 31, 34, 37, 44, 52, 58, 59, 60, 63, 65, 67, 74, 76, 83},
	{65, 18, 368, 968, 992, 7, 18, 22, 30, 32, 36, 39, 46, 56, 62, 63, 64, 69, 71, 73, 82, 84, 93},
};
// clang-format on

consteval Layout layout_of(int rdma_core)
{
	for (const Layout &layout : layouts)
		if (layout.rdma_core == rdma_core)
			return layout;
	return {};
}

#define KIW_JOINED_(a, b) a##b
#define KIW_JOINED(a, b) KIW_JOINED_(a, b)
/// Namespace of types that differ between releases
#define KIW_RELEASE KIW_JOINED(rdma_core_, KIW_RDMA_CORE)

inline namespace KIW_RELEASE {

inline constexpr Layout layout = layout_of(KIW_RDMA_CORE);
static_assert(layout.rdma_core == KIW_RDMA_CORE);

} // namespace KIW_RELEASE

enum MatchKind : std::uint8_t {
	match_end = 0,
	match_modalias = 2,
	match_driver_id = 3,
};

struct Match {
	void *driver_data = nullptr;
	union {
		const char *modalias;
		std::uint64_t driver_id;
	} u{};
	std::uint16_t vendor = 0;
	std::uint16_t device = 0;
	std::uint8_t kind = match_end;
};

static_assert(sizeof(Match) == 24);
static_assert(offsetof(Match, u) == 8);
static_assert(offsetof(Match, kind) == 20);

inline namespace KIW_RELEASE {

/// libibverbs' view of a kernel device. The same for all releases up to ibdev_idx.
struct SysfsDevice {
	std::byte list_entry[16];
	void *provider_data;
	const Match *match;
	unsigned int flags;
	char sysfs_name[64];
	std::uint64_t cdev;
	char ibdev_name[64];
	char ibdev_path[256];
	char modalias[512];
	std::uint64_t node_guid;
	std::uint32_t driver_id; // 0: unknown
	std::uint32_t node_type;
	int ibdev_idx;
#if KIW_RDMA_CORE >= 35
	std::uint32_t num_ports;
#endif
	std::uint32_t abi_ver;
	std::int64_t time_created[2];
};

static_assert(sizeof(SysfsDevice) == layout.sysfs_device);
static_assert(offsetof(SysfsDevice, provider_data) == 16);
static_assert(offsetof(SysfsDevice, match) == 24);
static_assert(offsetof(SysfsDevice, flags) == 32);
static_assert(offsetof(SysfsDevice, sysfs_name) == 36);
static_assert(offsetof(SysfsDevice, cdev) == 104);
static_assert(offsetof(SysfsDevice, ibdev_name) == 112);
static_assert(offsetof(SysfsDevice, ibdev_path) == 176);
static_assert(offsetof(SysfsDevice, modalias) == 432);
static_assert(offsetof(SysfsDevice, node_guid) == 944);
static_assert(offsetof(SysfsDevice, driver_id) == 952);
static_assert(offsetof(SysfsDevice, node_type) == 956);
static_assert(offsetof(SysfsDevice, ibdev_idx) == 960);
static_assert(offsetof(SysfsDevice, abi_ver) == layout.sysfs_abi_ver);
static_assert(offsetof(SysfsDevice, time_created) == layout.sysfs_device - 16);

struct DeviceOps;

/// First member of a provider's device, filled in by libibverbs.
struct Device {
	ibv_device device;
	const DeviceOps *ops;
	std::int32_t refcount;
	std::byte list_entry[16];
	SysfsDevice *sysfs;
	std::uint64_t core_support;
};

static_assert(sizeof(Device) == 712);
static_assert(offsetof(Device, ops) == 664);
static_assert(offsetof(Device, refcount) == 672);
static_assert(offsetof(Device, sysfs) == 696);
static_assert(offsetof(Device, core_support) == 704);

struct DeviceOps {
	const char *name;
	std::uint32_t match_min_abi_version;
	std::uint32_t match_max_abi_version;
	const Match *match_table;
	const DeviceOps **static_providers;
	bool (*match_device)(SysfsDevice *);
	verbs_context *(*alloc_context)(ibv_device *, int cmd_fd, void *private_data);
	verbs_context *(*import_context)(ibv_device *, int cmd_fd);
	Device *(*alloc_device)(SysfsDevice *);
	void (*uninit_device)(Device *);
};

static_assert(sizeof(DeviceOps) == 72);
static_assert(offsetof(DeviceOps, match_table) == 16);
static_assert(offsetof(DeviceOps, match_device) == 32);
static_assert(offsetof(DeviceOps, alloc_context) == 40);
static_assert(offsetof(DeviceOps, uninit_device) == 64);

} // namespace KIW_RELEASE

/// Bytes of a mutex beyond amd64's 40: objects of libibverbs contain one
inline constexpr std::size_t wider = sizeof(pthread_mutex_t) - 40;
/// Size of ibv_context, the end of a verbs_context
inline constexpr std::size_t context_size = 328 + wider;
/// Bytes before it, maximum of all releases
inline constexpr std::size_t context_front = 368;

consteval bool has_room_for_all()
{
	for (const Layout &each : layouts)
		if (each.context_front > context_front)
			return false;
	return true;
}

static_assert(has_room_for_all());
static_assert(sizeof(ibv_context) == context_size);
static_assert(sizeof(verbs_context) - offsetof(verbs_context, context) == context_size);
static_assert(offsetof(ibv_context, cmd_fd) == 264);

struct MemoryRegion {
	ibv_mr mr;
	std::uint32_t type;
	std::int32_t access;
};

static_assert(sizeof(MemoryRegion) == 56);
static_assert(offsetof(MemoryRegion, type) == 48);
static_assert(offsetof(MemoryRegion, access) == 52);

/// Of QueuePair.comp_mask: qp_ex is valid. ibv_qp_to_qp_ex() reads it in any QP.
inline constexpr std::uint32_t qp_is_extended = 2;

/// Bytes in an ibv_qp_ex of the first release, and in the largest that fits
inline constexpr std::size_t qp_ex_min = 344 + wider, qp_ex_max = 496 + wider;
/// Bytes in an ibv_qp_ex of the loaded libibverbs; see rdma_core.cpp
inline std::size_t qp_ex_size = sizeof(ibv_qp_ex);

/// libibverbs keeps a comp_mask and a pointer behind its ibv_qp_ex.
struct QueuePair {
	union {
		ibv_qp qp;
		ibv_qp_ex qp_ex;
		std::byte octets[qp_ex_max + 16];
	};

	/// Set after the QP's creation, which writes here, and after the builders.
	std::uint32_t &comp_mask() { return *reinterpret_cast<std::uint32_t *>(octets + qp_ex_size); }
};

static_assert(sizeof(ibv_qp) == 160 + wider);
static_assert(sizeof(ibv_qp_ex) <= qp_ex_max);
static_assert(offsetof(ibv_qp_ex, wr_abort) + sizeof(void *) == qp_ex_min);
static_assert(sizeof(QueuePair) == qp_ex_max + 16);
static_assert(sizeof(ibv_cq) == 128 + wider);
static_assert(sizeof(ibv_srq) == 128 + wider);
static_assert(offsetof(ibv_cq_ex, async_events_completed) == offsetof(ibv_cq, async_events_completed));
static_assert(sizeof(ibv_pd) == 16);
static_assert(sizeof(ibv_ah) == 24);
static_assert(sizeof(ibv_mw) == 32);

/// A null slot keeps libibverbs' default: EOPNOTSUPP.
using Unused = void (*)();

inline namespace KIW_RELEASE {

struct ContextOps {
	Unused advise_mr = nullptr;
#if KIW_RDMA_CORE >= 64
	Unused alloc_buf = nullptr;
#endif
	Unused alloc_dm = nullptr;
#if KIW_RDMA_CORE >= 59
	Unused alloc_dmah = nullptr;
#endif
	ibv_mw *(*alloc_mw)(ibv_pd *, ibv_mw_type) = nullptr;
	Unused alloc_null_mr = nullptr;
	ibv_pd *(*alloc_parent_domain)(ibv_context *, ibv_parent_domain_init_attr *) = nullptr;
	ibv_pd *(*alloc_pd)(ibv_context *) = nullptr;
	ibv_td *(*alloc_td)(ibv_context *, ibv_td_init_attr *) = nullptr;
	Unused async_event = nullptr;
	Unused attach_counters_point_flow = nullptr;
	int (*attach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t lid) = nullptr;
	int (*bind_mw)(ibv_qp *, ibv_mw *, ibv_mw_bind *) = nullptr;
	Unused close_xrcd = nullptr;
	Unused cq_event = nullptr;
	ibv_ah *(*create_ah)(ibv_pd *, ibv_ah_attr *) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused create_comp_cntr = nullptr;
#endif
	Unused create_counters = nullptr;
	ibv_cq *(*create_cq)(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector) = nullptr;
	ibv_cq_ex *(*create_cq_ex)(ibv_context *, ibv_cq_init_attr_ex *) = nullptr;
	Unused create_flow = nullptr;
	Unused create_flow_action_esp = nullptr;
	ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *) = nullptr;
	ibv_qp *(*create_qp_ex)(ibv_context *, ibv_qp_init_attr_ex *) = nullptr;
	Unused create_rwq_ind_table = nullptr;
	ibv_srq *(*create_srq)(ibv_pd *, ibv_srq_init_attr *) = nullptr;
	Unused create_srq_ex = nullptr;
	Unused create_wq = nullptr;
#if KIW_RDMA_CORE >= 59
	Unused dealloc_dmah = nullptr;
#endif
	int (*dealloc_mw)(ibv_mw *) = nullptr;
	int (*dealloc_pd)(ibv_pd *) = nullptr;
	int (*dealloc_td)(ibv_td *) = nullptr;
	int (*dereg_mr)(MemoryRegion *) = nullptr;
	int (*destroy_ah)(ibv_ah *) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused destroy_comp_cntr = nullptr;
#endif
	Unused destroy_counters = nullptr;
	int (*destroy_cq)(ibv_cq *) = nullptr;
	Unused destroy_flow = nullptr;
	Unused destroy_flow_action = nullptr;
	int (*destroy_qp)(ibv_qp *) = nullptr;
	Unused destroy_rwq_ind_table = nullptr;
	int (*destroy_srq)(ibv_srq *) = nullptr;
	Unused destroy_wq = nullptr;
	int (*detach_mcast)(ibv_qp *, const ibv_gid *, std::uint16_t lid) = nullptr;
#if KIW_RDMA_CORE >= 62
	Unused dm_export_dmabuf_fd = nullptr;
#endif
#if KIW_RDMA_CORE >= 64
	Unused free_buf = nullptr;
#endif
	void (*free_context)(ibv_context *) = nullptr;
	Unused free_dm = nullptr;
	Unused get_srq_num = nullptr;
#if KIW_RDMA_CORE >= 35
	Unused import_dm = nullptr;
#endif
	ibv_mr *(*import_mr)(ibv_pd *, std::uint32_t handle) = nullptr;
	ibv_pd *(*import_pd)(ibv_context *, std::uint32_t handle) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused inc_comp_cntr = nullptr;
	Unused inc_err_comp_cntr = nullptr;
#endif
	int (*modify_cq)(ibv_cq *, ibv_modify_cq_attr *) = nullptr;
	Unused modify_flow_action_esp = nullptr;
	int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int mask) = nullptr;
	Unused modify_qp_rate_limit = nullptr;
	int (*modify_srq)(ibv_srq *, ibv_srq_attr *, int mask) = nullptr;
	Unused modify_wq = nullptr;
	Unused open_qp = nullptr;
	Unused open_xrcd = nullptr;
	int (*poll_cq)(ibv_cq *, int, ibv_wc *) = nullptr;
	int (*post_recv)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr **) = nullptr;
	int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **) = nullptr;
	Unused post_srq_ops = nullptr;
	int (*post_srq_recv)(ibv_srq *, ibv_recv_wr *, ibv_recv_wr **) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused qp_attach_comp_cntr = nullptr;
	Unused query_comp_cntr_caps = nullptr;
#endif
	int (*query_device_ex)(
		ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *, std::size_t) = nullptr;
	Unused query_ece = nullptr;
	int (*query_port)(ibv_context *, std::uint8_t port, ibv_port_attr *) = nullptr;
#if KIW_RDMA_CORE >= 62
	Unused query_port_speed = nullptr;
#endif
	int (*query_qp)(ibv_qp *, ibv_qp_attr *, int mask, ibv_qp_init_attr *) = nullptr;
#if KIW_RDMA_CORE >= 36
	Unused query_qp_data_in_order = nullptr;
#endif
	Unused query_rt_values = nullptr;
	int (*query_srq)(ibv_srq *, ibv_srq_attr *) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused read_comp_cntr = nullptr;
#endif
	Unused read_counters = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused read_err_comp_cntr = nullptr;
#endif
	Unused reg_dm_mr = nullptr;
	Unused reg_dmabuf_mr = nullptr;
	ibv_mr *(*reg_mr)(ibv_pd *, void *, std::size_t, std::uint64_t iova, int access) = nullptr;
#if KIW_RDMA_CORE >= 59
	Unused reg_mr_ex = nullptr;
#endif
	int (*req_notify_cq)(ibv_cq *, int solicited_only) = nullptr;
	int (*rereg_mr)(MemoryRegion *, int flags, ibv_pd *, void *, std::size_t, int access) = nullptr;
	int (*resize_cq)(ibv_cq *, int cqe) = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused set_comp_cntr = nullptr;
#endif
	Unused set_ece = nullptr;
#if KIW_RDMA_CORE >= 65
	Unused set_err_comp_cntr = nullptr;
#endif
#if KIW_RDMA_CORE >= 35
	Unused unimport_dm = nullptr;
#endif
	void (*unimport_mr)(ibv_mr *) = nullptr;
	void (*unimport_pd)(ibv_pd *) = nullptr;
};

static_assert(sizeof(Unused) == 8);
static_assert(sizeof(ContextOps) == 8 * layout.end);
static_assert(offsetof(ContextOps, alloc_pd) == 8 * layout.alloc_pd);
static_assert(offsetof(ContextOps, create_cq) == 8 * layout.create_cq);
static_assert(offsetof(ContextOps, create_qp) == 8 * layout.create_qp);
static_assert(offsetof(ContextOps, dealloc_pd) == 8 * layout.dealloc_pd);
static_assert(offsetof(ContextOps, dereg_mr) == 8 * layout.dereg_mr);
static_assert(offsetof(ContextOps, destroy_cq) == 8 * layout.destroy_cq);
static_assert(offsetof(ContextOps, destroy_qp) == 8 * layout.destroy_qp);
static_assert(offsetof(ContextOps, free_context) == 8 * layout.free_context);
static_assert(offsetof(ContextOps, modify_qp) == 8 * layout.modify_qp);
static_assert(offsetof(ContextOps, poll_cq) == 8 * layout.poll_cq);
static_assert(offsetof(ContextOps, post_recv) == 8 * layout.post_recv);
static_assert(offsetof(ContextOps, post_send) == 8 * layout.post_send);
static_assert(offsetof(ContextOps, query_device_ex) == 8 * layout.query_device_ex);
static_assert(offsetof(ContextOps, query_port) == 8 * layout.query_port);
static_assert(offsetof(ContextOps, query_qp) == 8 * layout.query_qp);
static_assert(offsetof(ContextOps, reg_mr) == 8 * layout.reg_mr);
static_assert(offsetof(ContextOps, req_notify_cq) == 8 * layout.req_notify_cq);
static_assert(offsetof(ContextOps, unimport_pd) == 8 * (layout.end - 1));

} // namespace KIW_RELEASE

/// Core part of a request, filled in by libibverbs; our own part may follow.
template <std::size_t size>
struct alignas(8) Request {
	std::byte core[size];
};

/// With our own part behind it.
template <std::size_t size, typename Own>
struct alignas(8) RequestWith {
	std::byte core[size];
	Own own;
};

/// A response with our own part behind the core part.
template <std::size_t size, typename Own>
struct alignas(8) Response {
	static_assert(size % alignof(Own) == 0);

	std::byte core[size];
	Own own;
};

using GetContext = Request<16>;
using QueryPort = Request<24>;
using AllocMw = Request<24>;
using AllocPd = Request<16>;
using RegMr = Request<48>;
using CreateCq = Request<40>;
using ReregMr = Request<56>;
using ResizeCq = Request<24>;
using ModifyCq = Request<40>;
using CreateSrq = Request<40>;
using ModifySrq = Request<24>;
using QuerySrq = Request<24>;
using CreateQp = Request<64>;
using ModifyQp = Request<120>;
using QueryQp = Request<24>;

// Each is a header of a uverbs write command and the kernel's request.
inline constexpr std::size_t command_header = sizeof(ib_uverbs_cmd_hdr);

static_assert(command_header == 8);
static_assert(sizeof(GetContext) == command_header + sizeof(ib_uverbs_get_context));
static_assert(sizeof(QueryPort) == command_header + sizeof(ib_uverbs_query_port));
static_assert(sizeof(AllocMw) == command_header + sizeof(ib_uverbs_alloc_mw));
static_assert(sizeof(AllocPd) == command_header + sizeof(ib_uverbs_alloc_pd));
static_assert(sizeof(RegMr) == command_header + sizeof(ib_uverbs_reg_mr));
static_assert(sizeof(CreateCq) == command_header + sizeof(ib_uverbs_create_cq));
static_assert(sizeof(ReregMr) == command_header + sizeof(ib_uverbs_rereg_mr));
static_assert(sizeof(ResizeCq) == command_header + sizeof(ib_uverbs_resize_cq));
static_assert(sizeof(ModifyCq) == command_header + sizeof(ib_uverbs_ex_cmd_hdr) + sizeof(ib_uverbs_ex_modify_cq));
static_assert(sizeof(CreateSrq) == command_header + sizeof(ib_uverbs_create_srq));
static_assert(sizeof(ModifySrq) == command_header + sizeof(ib_uverbs_modify_srq));
static_assert(sizeof(QuerySrq) == command_header + sizeof(ib_uverbs_query_srq));
static_assert(sizeof(CreateQp) == command_header + sizeof(ib_uverbs_create_qp));
static_assert(sizeof(ModifyQp) == command_header + sizeof(ib_uverbs_modify_qp));
static_assert(sizeof(QueryQp) == command_header + sizeof(ib_uverbs_query_qp));

// Our part of a response begins behind the members, not behind the flexible array.
static_assert(sizeof(ib_uverbs_get_context_resp) == 8);
static_assert(sizeof(ib_uverbs_create_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_resize_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_srq_resp) == 16);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32);

} // namespace kiw::pabi

// Functions of libibverbs.so. int results are 0 or a positive errno; sizes include our own parts.
extern "C" {
#define KIW_TEXT_(x) #x
#define KIW_TEXT(x) KIW_TEXT_(x)
void verbs_register_driver(const kiw::pabi::DeviceOps *ops) __asm__("verbs_register_driver_" KIW_TEXT(KIW_PABI));
void *_verbs_init_and_alloc_context(
	ibv_device *device, int cmd_fd, std::size_t size, verbs_context *context_offset, std::uint32_t driver_id);
void verbs_uninit_context(verbs_context *context);
void verbs_set_ops(verbs_context *context, const kiw::pabi::ContextOps *ops);

#if KIW_RDMA_CORE >= 57
struct ibv_fd_arr;
int ibv_cmd_get_context(verbs_context *context, void *request, std::size_t request_size, ibv_fd_arr *descriptors,
	void *response, std::size_t response_size);
#else
int ibv_cmd_get_context(
	verbs_context *context, void *request, std::size_t request_size, void *response, std::size_t response_size);
#endif
int ibv_cmd_query_device_any(ibv_context *context, const ibv_query_device_ex_input *input, ibv_device_attr_ex *attr,
	std::size_t attr_size, ib_uverbs_ex_query_device_resp *response, std::size_t *response_size);
int ibv_cmd_query_port(
	ibv_context *context, std::uint8_t port, ibv_port_attr *attr, void *request, std::size_t request_size);
int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, void *request, std::size_t request_size, void *response,
	std::size_t response_size);
int ibv_cmd_dealloc_pd(ibv_pd *pd);
int ibv_cmd_reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access,
	kiw::pabi::MemoryRegion *mr, void *request, std::size_t request_size, void *response,
	std::size_t response_size);
int ibv_cmd_rereg_mr(kiw::pabi::MemoryRegion *mr, std::uint32_t flags, void *address, std::size_t length,
	std::uint64_t iova, int access, ibv_pd *pd, void *request, std::size_t request_size, void *response,
	std::size_t response_size);
int ibv_cmd_dereg_mr(kiw::pabi::MemoryRegion *mr);
int ibv_cmd_query_mr(ibv_pd *pd, kiw::pabi::MemoryRegion *mr, std::uint32_t handle);
int ibv_cmd_alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, void *request, std::size_t request_size,
	ib_uverbs_alloc_mw_resp *response, std::size_t response_size);
int ibv_cmd_dealloc_mw(ibv_mw *mw);
int ibv_cmd_create_ah(
	ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *attr, ib_uverbs_create_ah_resp *response, std::size_t response_size);
int ibv_cmd_destroy_ah(ibv_ah *ah);
int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, ibv_cq *cq,
	void *request, std::size_t request_size, void *response, std::size_t response_size);
int ibv_cmd_resize_cq(
	ibv_cq *cq, int cqe, void *request, std::size_t request_size, void *response, std::size_t response_size);
int ibv_cmd_modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr, void *request, std::size_t request_size);
int ibv_cmd_destroy_cq(ibv_cq *cq);
int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, void *request, std::size_t request_size,
	void *response, std::size_t response_size);
int ibv_cmd_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask, void *request, std::size_t request_size);
int ibv_cmd_query_srq(ibv_srq *srq, ibv_srq_attr *attr, void *request, std::size_t request_size);
int ibv_cmd_destroy_srq(ibv_srq *srq);
int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr, void *request, std::size_t request_size,
	void *response, std::size_t response_size);
int ibv_cmd_query_qp(
	ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr, void *request, std::size_t request_size);
int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, void *request, std::size_t request_size);
int ibv_cmd_destroy_qp(ibv_qp *qp);
int ibv_cmd_attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid);
int ibv_cmd_detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid);
}

namespace kiw::pabi {

inline namespace KIW_RELEASE {

/// Same arguments for all releases.
inline int get_context(
	verbs_context *context, void *request, std::size_t request_size, void *response, std::size_t response_size)
{
#if KIW_RDMA_CORE >= 57
	return ibv_cmd_get_context(context, request, request_size, nullptr, response, response_size);
#else
	return ibv_cmd_get_context(context, request, request_size, response, response_size);
#endif
}

} // namespace KIW_RELEASE

} // namespace kiw::pabi
