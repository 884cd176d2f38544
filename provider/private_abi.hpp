// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The interface between libibverbs and its providers, private ABI 34 (rdma-core 36 to 56), as far as
// this provider uses it. Distributions install no header for it.
//
// What libibverbs owns and the provider only carries is left as opaque octets. ibv_qp_ex grew inside
// ABI 34, so it comes from the installed <infiniband/verbs.h>, and a provider is built for the minor
// version of libibverbs that it is installed beside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <type_traits>

namespace kiw::pabi {

inline constexpr int version = 34;

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

/// What libibverbs found out about a kernel device.
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
	std::uint32_t driver_id; // 0: the kernel didn't say
	std::uint32_t node_type;
	int ibdev_idx;
	std::uint32_t num_ports;
	std::uint32_t abi_ver;
	std::int64_t time_created[2];
};

static_assert(sizeof(SysfsDevice) == 992);
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
static_assert(offsetof(SysfsDevice, num_ports) == 964);
static_assert(offsetof(SysfsDevice, abi_ver) == 968);
static_assert(offsetof(SysfsDevice, time_created) == 976);

struct DeviceOps;

/// First member of a provider's device; all of it is filled in by libibverbs.
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

static_assert(sizeof(verbs_context) == 648);
static_assert(offsetof(verbs_context, context) == 320);
static_assert(offsetof(ibv_context, cmd_fd) == 264);

struct MemoryRegion {
	ibv_mr mr;
	std::uint32_t type;
	std::int32_t access;
};

static_assert(sizeof(MemoryRegion) == 56);
static_assert(offsetof(MemoryRegion, type) == 48);
static_assert(offsetof(MemoryRegion, access) == 52);

/// Any QP may be handed to ibv_qp_to_qp_ex(), which looks at comp_mask: keep it 0.
struct QueuePair {
	union {
		ibv_qp qp;
		ibv_qp_ex qp_ex;
	};
	std::uint32_t comp_mask;
	void *xrcd;
};

static_assert(sizeof(ibv_qp) == 160);
static_assert(offsetof(QueuePair, comp_mask) == sizeof(ibv_qp_ex));
static_assert(sizeof(QueuePair) == sizeof(ibv_qp_ex) + 16);
static_assert(sizeof(ibv_cq) == 128);
static_assert(sizeof(ibv_pd) == 16);

/// A slot that stays null keeps libibverbs' default, which says EOPNOTSUPP.
using Unused = void (*)();

struct ContextOps {
	Unused advise_mr = nullptr;
	Unused alloc_dm = nullptr;
	Unused alloc_mw = nullptr;
	Unused alloc_null_mr = nullptr;
	Unused alloc_parent_domain = nullptr;
	ibv_pd *(*alloc_pd)(ibv_context *) = nullptr;
	Unused alloc_td = nullptr;
	Unused async_event = nullptr;
	Unused attach_counters_point_flow = nullptr;
	Unused attach_mcast = nullptr;
	Unused bind_mw = nullptr;
	Unused close_xrcd = nullptr;
	Unused cq_event = nullptr;
	Unused create_ah = nullptr;
	Unused create_counters = nullptr;
	ibv_cq *(*create_cq)(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector) = nullptr;
	Unused create_cq_ex = nullptr;
	Unused create_flow = nullptr;
	Unused create_flow_action_esp = nullptr;
	ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *) = nullptr;
	Unused create_qp_ex = nullptr;
	Unused create_rwq_ind_table = nullptr;
	Unused create_srq = nullptr;
	Unused create_srq_ex = nullptr;
	Unused create_wq = nullptr;
	Unused dealloc_mw = nullptr;
	int (*dealloc_pd)(ibv_pd *) = nullptr;
	Unused dealloc_td = nullptr;
	int (*dereg_mr)(MemoryRegion *) = nullptr;
	Unused destroy_ah = nullptr;
	Unused destroy_counters = nullptr;
	int (*destroy_cq)(ibv_cq *) = nullptr;
	Unused destroy_flow = nullptr;
	Unused destroy_flow_action = nullptr;
	int (*destroy_qp)(ibv_qp *) = nullptr;
	Unused destroy_rwq_ind_table = nullptr;
	Unused destroy_srq = nullptr;
	Unused destroy_wq = nullptr;
	Unused detach_mcast = nullptr;
	void (*free_context)(ibv_context *) = nullptr;
	Unused free_dm = nullptr;
	Unused get_srq_num = nullptr;
	Unused import_dm = nullptr;
	Unused import_mr = nullptr;
	Unused import_pd = nullptr;
	Unused modify_cq = nullptr;
	Unused modify_flow_action_esp = nullptr;
	int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int mask) = nullptr;
	Unused modify_qp_rate_limit = nullptr;
	Unused modify_srq = nullptr;
	Unused modify_wq = nullptr;
	Unused open_qp = nullptr;
	Unused open_xrcd = nullptr;
	int (*poll_cq)(ibv_cq *, int, ibv_wc *) = nullptr;
	int (*post_recv)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr **) = nullptr;
	int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **) = nullptr;
	Unused post_srq_ops = nullptr;
	Unused post_srq_recv = nullptr;
	int (*query_device_ex)(
		ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *, std::size_t) = nullptr;
	Unused query_ece = nullptr;
	int (*query_port)(ibv_context *, std::uint8_t port, ibv_port_attr *) = nullptr;
	int (*query_qp)(ibv_qp *, ibv_qp_attr *, int mask, ibv_qp_init_attr *) = nullptr;
	Unused query_qp_data_in_order = nullptr;
	Unused query_rt_values = nullptr;
	Unused query_srq = nullptr;
	Unused read_counters = nullptr;
	Unused reg_dm_mr = nullptr;
	Unused reg_dmabuf_mr = nullptr;
	ibv_mr *(*reg_mr)(ibv_pd *, void *, std::size_t, std::uint64_t iova, int access) = nullptr;
	int (*req_notify_cq)(ibv_cq *, int solicited_only) = nullptr;
	Unused rereg_mr = nullptr;
	Unused resize_cq = nullptr;
	Unused set_ece = nullptr;
	Unused unimport_dm = nullptr;
	Unused unimport_mr = nullptr;
	Unused unimport_pd = nullptr;
};

static_assert(sizeof(ContextOps) == 608);
static_assert(offsetof(ContextOps, alloc_pd) == 40);
static_assert(offsetof(ContextOps, create_cq) == 120);
static_assert(offsetof(ContextOps, create_qp) == 152);
static_assert(offsetof(ContextOps, dealloc_pd) == 208);
static_assert(offsetof(ContextOps, dereg_mr) == 224);
static_assert(offsetof(ContextOps, destroy_cq) == 248);
static_assert(offsetof(ContextOps, destroy_qp) == 272);
static_assert(offsetof(ContextOps, free_context) == 312);
static_assert(offsetof(ContextOps, modify_qp) == 376);
static_assert(offsetof(ContextOps, poll_cq) == 424);
static_assert(offsetof(ContextOps, post_recv) == 432);
static_assert(offsetof(ContextOps, post_send) == 440);
static_assert(offsetof(ContextOps, query_device_ex) == 464);
static_assert(offsetof(ContextOps, query_port) == 480);
static_assert(offsetof(ContextOps, query_qp) == 488);
static_assert(offsetof(ContextOps, reg_mr) == 544);
static_assert(offsetof(ContextOps, req_notify_cq) == 552);
static_assert(offsetof(ContextOps, unimport_pd) == 600);

/// Core part of a request. libibverbs fills it in; a request of our own may follow.
template <std::size_t octets>
struct alignas(8) Request {
	std::byte core[octets];
};

/// The same with a request of our own behind it.
template <std::size_t octets, typename Own>
struct alignas(8) RequestWith {
	std::byte core[octets];
	Own own;
};

/// A response with one of our own behind the core part.
template <std::size_t octets, typename Own>
struct alignas(8) Response {
	static_assert(octets % alignof(Own) == 0);

	std::byte core[octets];
	Own own;
};

using GetContext = Request<16>;
using QueryPort = Request<24>;
using AllocPd = Request<16>;
using RegMr = Request<48>;
using CreateCq = Request<40>;
using CreateQp = Request<64>;
using ModifyQp = Request<120>;
using QueryQp = Request<24>;

// Each is the header of a uverbs write command and the kernel's request.
inline constexpr std::size_t command_header = sizeof(ib_uverbs_cmd_hdr);

static_assert(command_header == 8);
static_assert(sizeof(GetContext) == command_header + sizeof(ib_uverbs_get_context));
static_assert(sizeof(QueryPort) == command_header + sizeof(ib_uverbs_query_port));
static_assert(sizeof(AllocPd) == command_header + sizeof(ib_uverbs_alloc_pd));
static_assert(sizeof(RegMr) == command_header + sizeof(ib_uverbs_reg_mr));
static_assert(sizeof(CreateCq) == command_header + sizeof(ib_uverbs_create_cq));
static_assert(sizeof(CreateQp) == command_header + sizeof(ib_uverbs_create_qp));
static_assert(sizeof(ModifyQp) == command_header + sizeof(ib_uverbs_modify_qp));
static_assert(sizeof(QueryQp) == command_header + sizeof(ib_uverbs_query_qp));

// Where our part of a response begins: behind the members, not behind the flexible array.
static_assert(sizeof(ib_uverbs_get_context_resp) == 8);
static_assert(sizeof(ib_uverbs_create_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32);

} // namespace kiw::pabi

// Functions of libibverbs.so. int results are 0 or a positive errno; sizes include our own parts.
extern "C" {
void verbs_register_driver_34(const kiw::pabi::DeviceOps *ops);
void *_verbs_init_and_alloc_context(
	ibv_device *device, int cmd_fd, std::size_t size, verbs_context *context_offset, std::uint32_t driver_id);
void verbs_uninit_context(verbs_context *context);
void verbs_set_ops(verbs_context *context, const kiw::pabi::ContextOps *ops);

int ibv_cmd_get_context(
	verbs_context *context, void *request, std::size_t request_size, void *response, std::size_t response_size);
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
int ibv_cmd_dereg_mr(kiw::pabi::MemoryRegion *mr);
int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector, ibv_cq *cq,
	void *request, std::size_t request_size, void *response, std::size_t response_size);
int ibv_cmd_destroy_cq(ibv_cq *cq);
int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr, void *request, std::size_t request_size,
	void *response, std::size_t response_size);
int ibv_cmd_query_qp(
	ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr, void *request, std::size_t request_size);
int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, void *request, std::size_t request_size);
int ibv_cmd_destroy_qp(ibv_qp *qp);
}
