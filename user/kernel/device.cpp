// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "kiwarp-abi.h"
#include "limits.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "private_abi.hpp"
#include "session/sq.h"

namespace kiwu {

namespace {

// As the module's; uapi and limits.md explain them.
constexpr std::uint32_t vendor_id = 0x726977, vendor_part_id = 1;

} // namespace

std::uint64_t node_guid()
{
	const ibv_gid gid = hardware_gid();
	std::uint8_t guid[8];
	std::uint64_t value = 0;

	// The hardware address, around what tells that it was made of one
	std::copy_n(gid.raw, 3, guid);
	guid[0] |= 2;
	guid[3] = 0xff;
	guid[4] = 0xfe;
	std::copy_n(gid.raw + 3, 3, guid + 5);
	std::memcpy(&value, guid, sizeof(value));
	return value;
}

// --- attributes -----------------------------------------------------------------------------------

void query_device(ibv_device_attr_ex &attr, std::size_t size)
{
	ibv_device_attr_ex all{};
	ibv_device_attr &base = all.orig_attr;

	(void)std::snprintf(base.fw_ver, sizeof(base.fw_ver), "user-%s", KIWARP_VERSION);
	base.node_guid = base.sys_image_guid = node_guid();
	base.vendor_id = vendor_id;
	base.vendor_part_id = vendor_part_id;
	base.max_mr_size = limits::mr_size;
	base.page_size_cap = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
	base.max_qp = limits::qp;
	base.max_qp_wr = limits::qp_wr;
	base.max_sge = limits::sge;
	base.max_sge_rd = limits::sge;
	base.max_srq = limits::srq;
	base.max_srq_wr = limits::qp_wr;
	base.max_srq_sge = limits::sge;
	base.max_cq = limits::cq;
	base.max_cqe = limits::cqe;
	base.max_mr = limits::mr;
	base.max_mw = limits::mw;
	base.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE;
	base.max_pd = limits::pd;
	base.max_pkeys = 1;
	base.max_ah = limits::ah;
	base.max_mcast_grp = limits::groups;
	base.max_mcast_qp_attach = limits::groups;
	base.max_total_mcast_qp_attach = limits::groups;
	base.max_qp_rd_atom = limits::rd_atom;
	base.max_qp_init_rd_atom = limits::rd_atom;
	base.max_res_rd_atom = limits::rd_atom * limits::qp;
	base.atomic_cap = IBV_ATOMIC_GLOB;
	base.phys_port_cnt = 1;
	all.device_cap_flags_ex = base.device_cap_flags;
	all.phys_port_cnt_ex = base.phys_port_cnt;
	all.cq_mod_caps.max_cq_count = UINT16_MAX;
	all.cq_mod_caps.max_cq_period = UINT16_MAX;
	std::memcpy(&attr, &all, std::min(size, sizeof(all)));
}

void query_port(ibv_port_attr &attr, std::size_t size)
{
	ibv_port_attr all{};

	all.state = IBV_PORT_ACTIVE;
	all.phys_state = 5; // link up
	all.max_mtu = IBV_MTU_4096;
	// What Ethernet's usual frames carry
	all.active_mtu = IBV_MTU_1024;
	all.gid_tbl_len = limits::gids;
	all.pkey_tbl_len = 1;
	all.max_msg_sz = KIW_MAX_MSG;
	all.max_vl_num = 1;
	all.active_width = 1; // 1x
	all.active_speed = 1; // SDR: TCP's path has no rate of its own
	all.link_layer = IBV_LINK_LAYER_ETHERNET;
	std::memcpy(&attr, &all, std::min(size, sizeof(all)));
}

// --- the device and its events -------------------------------------------------------------------------------

// The provider's own name tells its direct verbs that the device is theirs.
static constexpr kiw::pabi::DeviceOps device_ops = {.name = "kiwarp",
	.match_min_abi_version = 0,
	.match_max_abi_version = 0,
	.match_table = nullptr,
	.static_providers = nullptr,
	.match_device = nullptr,
	.alloc_context = nullptr,
	.import_context = nullptr,
	.alloc_device = nullptr,
	.uninit_device = nullptr};
static kiw::pabi::Device shown = {
	.device =
		{
			._ops = {},
			.node_type = IBV_NODE_RNIC,
			.transport_type = IBV_TRANSPORT_IWARP,
			.name = "kiwu0",
			.dev_name = "kiwu0",
			.dev_path = "",
			.ibdev_path = "",
		},
	.ops = &device_ops,
	.refcount = 0,
	.list_entry = {},
	.sysfs = nullptr,
	.core_support = 0,
};
ibv_device &device = shown.device;

bool show_device()
{
	if (!read_options())
		return false;
	device.node_type = options.roce ? IBV_NODE_CA : IBV_NODE_RNIC;
	device.transport_type = options.roce ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP;
	return true;
}

void raise(ibv_context *context, const ibv_async_event &told)
{
	auto event = kiw::make<AsyncEvent>();

	// As in the kernel, one for which there is no memory is lost.
	if (!event)
		return;
	event->told = told;
	OpenDevice::from(context).async.add(event.release()->event);
}

} // namespace kiwu
