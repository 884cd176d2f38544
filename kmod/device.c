// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <rdma/ib_addr.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include "cm/cm.h"
#include "cm/number.h"
#include "compat.h"
#include "context.h"
#include "cq.h"
#include "fast.h"
#include "mr.h"
#include "mw.h"
#include "netdev.h"
#include "options.h"
#include "qp.h"
#include "res.h"
#include "srq.h"
#include "stats.h"
#include "types.h"
#include "verbs.h"

#ifndef CONFIG_INFINIBAND_VIRT_DMA
#error "kiwarp needs CONFIG_INFINIBAND_VIRT_DMA, which no kernel with HIGHMEM has"
#endif
/* Rings and regions are written through two addresses. Linux tells since 6.9. */
#ifdef CONFIG_ARCH_HAS_CPU_CACHE_ALIASING
#error "kiwarp does not support data caches that may hold a page twice"
#endif

/* Drivers in the kernel tree are listed in this enumeration. */
#define KIW_DRIVER_ID ((enum rdma_driver_id)KIWARP_DRIVER_ID)

/* Version of the module, shown as that of the firmware */
static const char device_version[] = KIWARP_VERSION;

/* Its first three numbers, 16 bits each */
static u64 device_fw_version(void)
{
	u16 major, minor, patch;

	if (sscanf(device_version, "%hu.%hu.%hu", &major, &minor, &patch) != 3)
		return 0;
	return (u64)major << 32 | (u64)minor << 16 | patch;
}

static void device_get_fw_str(struct ib_device *ibdev, char *str)
{
	strscpy(str, device_version, IB_FW_VERSION_NAME_MAX);
}

static int device_query(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = device_fw_version();
	attr->vendor_id = KIW_VENDOR_ID;
	attr->vendor_part_id = KIW_VENDOR_PART_ID;
	attr->sys_image_guid = ibdev->node_guid;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY | IBK_SG_GAPS_REG;
	attr->max_mr_size = KIW_MAX_MR_SIZE;
	attr->page_size_cap = PAGE_SIZE;
	attr->max_qp = KIW_MAX_QP;
	attr->max_qp_wr = KIW_MAX_QP_WR;
	attr->max_send_sge = KIW_MAX_SGE;
	attr->max_recv_sge = KIW_MAX_SGE;
	/* The wire names one sink, but responses are placed by the stored request. */
	attr->max_sge_rd = KIW_MAX_SGE;
	attr->max_srq = KIW_MAX_SRQ;
	attr->max_srq_wr = KIW_MAX_QP_WR;
	attr->max_srq_sge = KIW_MAX_SGE;
	attr->max_cq = KIW_MAX_CQ;
	attr->max_cqe = KIW_MAX_CQE;
	attr->max_mr = KIW_MAX_MR;
	attr->max_mw = KIW_MAX_MW;
	attr->device_cap_flags = IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B |
				 IB_DEVICE_SRQ_RESIZE | IB_DEVICE_MEM_MGT_EXTENSIONS;
	attr->max_fast_reg_page_list_len = KIW_MAX_FAST_PAGES;
	attr->max_pd = KIW_MAX_PD;
	attr->max_ah = KIW_MAX_AH;
	attr->max_pkeys = 1;
	attr->max_mcast_grp = KIW_MAX_GROUP;
	attr->max_mcast_qp_attach = KIW_MAX_GROUP;
	attr->max_total_mcast_qp_attach = KIW_MAX_GROUP;
	attr->max_qp_rd_atom = KIW_MAX_RD_ATOM;
	attr->max_qp_init_rd_atom = KIW_MAX_RD_ATOM;
	attr->max_res_rd_atom = KIW_MAX_RD_ATOM * KIW_MAX_QP;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->masked_atomic_cap = IB_ATOMIC_NONE;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	return 0;
}

/* Set the highest lanes and rate not above a speed in Mbit/s. */
static void device_speed_to_ib(u32 speed, struct ib_port_attr *attr)
{
	static const struct {
		u32 speed;
		u8 width;
		u16 rate;
	} table[] = {
		{ 400000, IB_WIDTH_4X, IB_SPEED_NDR },
		{ 200000, IB_WIDTH_4X, IB_SPEED_HDR },
		{ 100000, IB_WIDTH_4X, IB_SPEED_EDR },
		{ 50000, IB_WIDTH_2X, IB_SPEED_EDR },
		{ 40000, IB_WIDTH_4X, IB_SPEED_FDR10 },
		{ 25000, IB_WIDTH_1X, IB_SPEED_EDR },
		{ 20000, IB_WIDTH_4X, IB_SPEED_DDR },
		{ 10000, IB_WIDTH_1X, IB_SPEED_FDR10 },
		{ 5000, IB_WIDTH_1X, IB_SPEED_DDR },
		{ 0, IB_WIDTH_1X, IB_SPEED_SDR },
	};
	unsigned int i = 0;

	while (speed < table[i].speed)
		i++;
	attr->active_width = table[i].width;
	attr->active_speed = table[i].rate;
}

static int device_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct kiw_device *dev = to_kiw_device(ibdev);
	struct net_device *ndev;

	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_256;
	attr->gid_tbl_len = KIW_GIDS;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = KIW_MAX_MSG;
	attr->max_vl_num = 1;

	ndev = kiw_netdev_get(dev);
	if (ndev) {
		attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(ndev->mtu));
		if (netif_running(ndev) && netif_carrier_ok(ndev)) {
			attr->state = IB_PORT_ACTIVE;
			attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
		}
		dev_put(ndev);
	}
	device_speed_to_ib(kiw_netdev_speed(dev), attr);
	return 0;
}

static int device_get_port_immutable(struct ib_device *ibdev, u32 port,
				     struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = KIW_GIDS;
	immutable->pkey_tbl_len = 1;
	/* Peers are named by addresses, which need a GRH. */
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP | RDMA_CORE_CAP_IB_GRH_REQUIRED;
	return 0;
}

/*
 * One GID is the interface's hardware address, padded with zeros: before Linux 6.6, rdma_cm
 * searches for exactly this. Zero would mean an empty slot. From 6.6 on, rdma_cm uses slot 0 with
 * any content, and its interface: so slot 0 is never empty.
 */
static void device_mac(struct kiw_device *dev, const struct net_device *ndev, u8 *mac)
{
	const u8 *from = dev->fallback_mac;

	if (ndev && ndev->type == ARPHRD_ETHER && !is_zero_ether_addr(ndev->dev_addr))
		from = ndev->dev_addr;
	memcpy(mac, from, ETH_ALEN);
}

/*
 * The GUID is the MAC address around the interface's index, marked as locally administered. The
 * index distinguishes interfaces with the same address, such as a VLAN and the interface below;
 * kiw_netdev_attach() changes a GUID that another of our devices has.
 */
static __be64 device_guid(const u8 *mac, int ifindex)
{
	u64 guid = ether_addr_to_u64(mac);

	guid = (guid >> 24) << 40 | (u64)(ifindex & 0xffff) << 24 | (guid & 0xffffff);
	return cpu_to_be64(guid | 1ULL << 57);
}

static int device_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	struct kiw_device *dev = to_kiw_device(ibdev);
	struct net_device *ndev;
	struct in6_addr addr;

	memset(gid, 0, sizeof(*gid));
	if (kiw_gid_get(dev, index, &addr)) {
		memcpy(gid->raw, &addr, sizeof(gid->raw));
	} else if (!index || index == KIW_GID_MAC) {
		ndev = kiw_netdev_get(dev);
		device_mac(dev, ndev, gid->raw);
		dev_put(ndev);
	}
	return 0;
}

/*
 * iWARP has no partitions, shown as 0. rdma_cm reads the entry before it connects to 127.0.0.1 or
 * ::1, over any device, so there is one. With a real key, such as the default partition's, and GIDs
 * of IPv6, libfabric would listen on an address of InfiniBand's family, which rdma_cm refuses for
 * iWARP devices.
 */
static int device_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0;
	return 0;
}

static int device_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			    struct kiw_cq_attrs *attrs)
{
	return kiw_create_cq_common(ibcq, attr, kiw_cq_udata(attrs));
}

static int device_resize_cq(struct ib_cq *ibcq, kiw_cqe_number cqe, struct ib_udata *udata)
{
	return kiw_resize_cq(ibcq, cqe, udata);
}

static struct ib_mr *device_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
					int access, KIW_DMAH_PARAMETER struct ib_udata *udata)
{
	if (KIW_DMAH)
		return ERR_PTR(-EOPNOTSUPP);
	return kiw_reg_user_mr_common(pd, start, length, iova, access, NULL);
}

/*
 * Being a client of our own devices gives early notice: clients learn first that a device goes, the
 * latest client before all others. Otherwise rdma_cm would wait for each connection attempt to end,
 * and an unresponsive peer would delay `rdma link delete` by minutes.
 */
static void device_set_ep_closed(struct kiw_device *dev, bool closed)
{
	spin_lock_bh(&dev->ep_lock);
	dev->ep_closed = closed;
	spin_unlock_bh(&dev->ep_lock);
}

/* Also runs when a device returns from a change of namespace. */
static int device_client_add(struct ib_device *ibdev)
{
	if (ibdev->ops.driver_id != KIW_DRIVER_ID)
		return -EOPNOTSUPP;
	device_set_ep_closed(to_kiw_device(ibdev), false);
	/* The link works without its port, which another program may hold: see the log. */
	kiw_port_settle(to_kiw_device(ibdev));
	return 0;
}

static void device_client_remove(struct ib_device *ibdev, void *data)
{
	struct kiw_device *dev = to_kiw_device(ibdev);

	device_set_ep_closed(dev, true);
	kiw_port_settle(dev);
	kiw_cm_abort_device(dev);
}

static struct ib_client device_client = {
	.name = "kiwarp",
	.add = device_client_add,
	.remove = device_client_remove,
};

static struct workqueue_struct *device_farewell_wq;

/*
 * rdma_cm's ids first drop the device, and then their references to its GID (cma_release_dev()).
 * The work that frees a GID uses a table, which the core frees with the device without a check for
 * such work. There is no sleep between the two steps: once each task has slept, none is in between,
 * and a flush of that queue then runs all queued work.
 */
static void device_farewell(struct work_struct *work)
{
	struct kiw_device *dev = container_of(work, struct kiw_device, farewell);

	synchronize_rcu_tasks();
	flush_workqueue(ib_wq);
	put_device(&dev->ibdev.dev);
}

/*
 * RDMA core's last call for a device, from ib_dealloc_device(). Runs once, however the device goes:
 * by `rdma link delete`, by its interface or namespace, or with the module.
 *
 * Unreachable: no verb is called any more, and all objects of all processes are destroyed; the
 * core's clients have left, rdma_cm among them with its ids, so no iw_cm call comes either. The
 * objects' destruction proves that no code of theirs runs. Endpoints may remain that a listener
 * accepted in the meantime; after kiw_cm_abort_device() there are no new ones, and none has a
 * socket.
 *
 * Released: waits until the last endpoint drops its count, which needs no other help. Then only the
 * list of netdev.c, which the device leaves, and device_farewell(), which holds a reference, refer
 * to the device; only the latter may still run on return.
 */
static void device_dealloc_driver(struct ib_device *ibdev)
{
	struct kiw_device *dev = to_kiw_device(ibdev);

	kiw_port_exit(dev);
	kiw_cm_abort_device(dev);
	if (!refcount_dec_and_test(&dev->ep_count))
		wait_for_completion(&dev->ep_none);

	WARN_ON_ONCE(!xa_empty(&dev->qps));
	WARN_ON_ONCE(!xa_empty(&dev->regions));
	xa_destroy(&dev->qps);
	xa_destroy(&dev->regions);
	kiw_netdev_detach(dev);
	kiw_stats_exit(&dev->stats);

	get_device(&ibdev->dev);
	queue_work(device_farewell_wq, &dev->farewell);
}

/* Programs expect both files of each RDMA device; node_exporter up to 1.5 needs them. */
static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "kiwarp\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%06x.%u\n", KIW_VENDOR_ID, KIW_VENDOR_PART_ID);
}
static DEVICE_ATTR_RO(board_id);

static ssize_t option_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct kiw_device *dev = rdma_device_to_drv_device(device, struct kiw_device, ibdev);
	struct dev_ext_attribute *option = container_of(attr, struct dev_ext_attribute, attr);

	return kiw_option_show(&dev->options, (uintptr_t)option->var, buf);
}

static ssize_t option_store(struct device *device, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct kiw_device *dev = rdma_device_to_drv_device(device, struct kiw_device, ibdev);
	struct dev_ext_attribute *option = container_of(attr, struct dev_ext_attribute, attr);

	return kiw_option_store(&dev->options, (uintptr_t)option->var, buf, count);
}

#define DEVICE_OPTION(name, which)					\
	static struct dev_ext_attribute option_##name = {		\
		__ATTR(name, 0644, option_show, option_store),		\
		(void *)(uintptr_t)KIW_OPTION_##which,			\
	}

DEVICE_OPTION(crc, CRC);
DEVICE_OPTION(markers, MARKERS);
DEVICE_OPTION(mpa_rev, MPA_REV);
DEVICE_OPTION(p2p, P2P);
DEVICE_OPTION(rtr, RTR);
DEVICE_OPTION(responder_first, RESPONDER_FIRST);
DEVICE_OPTION(large, LARGE);
DEVICE_OPTION(connect_timeout, CONNECT_TIMEOUT);
DEVICE_OPTION(mpa_timeout, MPA_TIMEOUT);
DEVICE_OPTION(keepalive, KEEPALIVE);

/* Opens or closes the port of the link. If the port is in use, nothing changes. */
static ssize_t number_store(struct device *device, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct kiw_device *dev = rdma_device_to_drv_device(device, struct kiw_device, ibdev);
	int before = READ_ONCE(dev->options.value[KIW_OPTION_NUMBER]);
	ssize_t ret = kiw_option_store(&dev->options, KIW_OPTION_NUMBER, buf, count);
	int err;

	if (ret < 0)
		return ret;
	err = kiw_port_settle(dev);
	if (err && err != -EOPNOTSUPP) {
		WRITE_ONCE(dev->options.value[KIW_OPTION_NUMBER], before);
		return err;
	}
	return ret;
}

static struct dev_ext_attribute option_number = {
	__ATTR(number, 0644, option_show, number_store),
	(void *)(uintptr_t)KIW_OPTION_NUMBER,
};

static struct attribute *device_attributes[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_board_id.attr,
	&option_crc.attr.attr,
	&option_markers.attr.attr,
	&option_mpa_rev.attr.attr,
	&option_p2p.attr.attr,
	&option_rtr.attr.attr,
	&option_responder_first.attr.attr,
	&option_large.attr.attr,
	&option_connect_timeout.attr.attr,
	&option_mpa_timeout.attr.attr,
	&option_keepalive.attr.attr,
	&option_number.attr.attr,
	NULL
};

static const struct attribute_group device_attribute_group = {
	.attrs = device_attributes,
};

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = KIW_DRIVER_ID,
	.uverbs_abi_ver = KIWARP_ABI_VERSION,

	.query_device = device_query,
	.query_port = device_query_port,
	.get_port_immutable = device_get_port_immutable,
	.query_gid = device_query_gid,
	.query_pkey = device_query_pkey,
	.alloc_hw_port_stats = kiw_alloc_hw_port_stats,
	.get_hw_stats = kiw_get_hw_stats,
	.fill_res_qp_entry = kiw_fill_res_qp,
	.fill_res_cq_entry = kiw_fill_res_cq,
	.fill_res_mr_entry = kiw_fill_res_mr,
	.get_dev_fw_str = device_get_fw_str,
	.process_mad = kiw_process_mad,
	.device_group = &device_attribute_group,
	.dealloc_driver = device_dealloc_driver,

	.alloc_ucontext = kiw_alloc_ucontext,
	.dealloc_ucontext = kiw_dealloc_ucontext,
	.query_ucontext = kiw_query_ucontext,
	.disassociate_ucontext = kiw_disassociate_ucontext,
	.mmap = kiw_mmap,
	.mmap_free = kiw_mmap_free,

	.alloc_pd = kiw_alloc_pd,
	.dealloc_pd = kiw_dealloc_pd,
	.create_cq = device_create_cq,
	.resize_user_cq = device_resize_cq,
	.modify_cq = kiw_modify_cq,
	.destroy_cq = kiw_destroy_cq,
	.poll_cq = kiw_poll_cq,
	.req_notify_cq = kiw_req_notify_cq,
	.get_dma_mr = kiw_get_dma_mr,
	.alloc_mr = kiw_alloc_mr,
	.map_mr_sg = kiw_map_mr_sg,
	.reg_user_mr = device_reg_user_mr,
	.rereg_user_mr = kiw_rereg_user_mr,
	.dereg_mr = kiw_dereg_mr,
	.alloc_mw = kiw_alloc_mw,
	.dealloc_mw = kiw_dealloc_mw,

	.create_user_ah = kiw_create_user_ah,
	.destroy_ah = kiw_destroy_ah,
	.attach_mcast = kiw_attach_mcast,
	.detach_mcast = kiw_detach_mcast,
	.create_srq = kiw_create_srq,
	.modify_srq = kiw_modify_srq,
	.query_srq = kiw_query_srq,
	.destroy_srq = kiw_destroy_srq,
	.post_srq_recv = kiw_post_srq_recv,
	.create_qp = kiw_create_qp,
	.modify_qp = kiw_modify_qp,
	.query_qp = kiw_query_qp,
	.destroy_qp = kiw_destroy_qp,
	.post_send = kiw_post_send,
	.post_recv = kiw_post_recv,

	.iw_add_ref = kiw_qp_add_ref,
	.iw_rem_ref = kiw_qp_rem_ref,
	.iw_get_qp = kiw_get_qp,
	.iw_connect = kiw_connect,
	.iw_accept = kiw_accept,
	.iw_reject = kiw_reject,
	.iw_create_listen = kiw_create_listen,
	.iw_destroy_listen = kiw_destroy_listen,

	INIT_RDMA_OBJ_SIZE(ib_ah, kiw_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, kiw_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, kiw_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, kiw_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, kiw_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, kiw_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, kiw_ucontext, ibuctx),
};

/* Create an unregistered device on @ndev; rtnl is held. */
static struct kiw_device *device_alloc(struct net_device *ndev)
{
	struct ib_device *ibdev;
	struct kiw_device *dev;
	u8 mac[ETH_ALEN];

	dev = ib_alloc_device_with_net(kiw_device, ibdev, dev_net(ndev));
	if (!dev)
		return NULL;
	if (kiw_stats_init(&dev->stats)) {
		ib_dealloc_device(&dev->ibdev);
		return NULL;
	}

	INIT_LIST_HEAD(&dev->link);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->regions, XA_FLAGS_ACCOUNT);
	spin_lock_init(&dev->gids.lock);
	spin_lock_init(&dev->ep_lock);
	INIT_LIST_HEAD(&dev->eps);
	kiw_number_init(dev);
	refcount_set(&dev->ep_count, 1);
	init_completion(&dev->ep_none);
	kiw_options_init(&dev->options);
	INIT_WORK(&dev->farewell, device_farewell);

	eth_random_addr(dev->fallback_mac);
	device_mac(dev, ndev, mac);

	ibdev = &dev->ibdev;
	ibdev->node_type = RDMA_NODE_RNIC;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_online_cpus();
	ibdev->node_guid = device_guid(mac, ndev->ifindex);
	strscpy(ibdev->node_desc, "kiwarp", sizeof(ibdev->node_desc));
	strscpy(ibdev->iw_ifname, ndev->name, sizeof(ibdev->iw_ifname));
	/* Ports belong to real TCP sockets, exclusively. */
	ibdev->iw_driver_flags = IW_F_NO_PORT_MAP;
	/* The doorbells */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_POST_RECV) |
				  BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV);
	ibdev->driver_def = kiw_context_uapi;
	ib_set_device_ops(ibdev, &device_ops);
	kiw_show_srqs(ibdev, kiw_fill_res_srq);
	return dev;
}

static bool device_supports(const struct net_device *ndev)
{
	/* ARPHRD_NONE: tunnels of bare IP packets */
	return ndev->type == ARPHRD_ETHER || ndev->type == ARPHRD_LOOPBACK ||
	       ndev->type == ARPHRD_NONE;
}

static int device_newlink(const char *name, struct net_device *ndev)
{
	struct kiw_device *dev;
	int err;

	if (!device_supports(ndev))
		return -EOPNOTSUPP;

	/* Keep the interface in place until the device can be found by it. */
	rtnl_lock();
	dev = device_alloc(ndev);
	if (!dev) {
		err = -ENOMEM;
		goto err_unlock;
	}
	err = kiw_netdev_attach(dev, ndev);
	if (err)
		goto err_unlock;
	kiw_gid_refresh(dev);
	err = ib_device_set_netdev(&dev->ibdev, ndev, 1);
	if (err)
		goto err_unlock;
	rtnl_unlock();

	ib_mark_name_assigned_by_user(&dev->ibdev);
	/* Others may unregister the device once it is registered: hold a reference. */
	get_device(&dev->ibdev.dev);
	err = ib_register_device(&dev->ibdev, name, NULL);
	if (err)
		ib_dealloc_device(&dev->ibdev);
	else
		kiw_netdev_settle(dev);
	put_device(&dev->ibdev.dev);
	return err;

err_unlock:
	rtnl_unlock();
	if (dev)
		ib_dealloc_device(&dev->ibdev);
	return err;
}

static struct rdma_link_ops device_link_ops = {
	.type = "kiwarp",
	.newlink = device_newlink,
};

int kiw_device_init(void)
{
	int err;

	err = kiw_netdev_init();
	if (err)
		return err;
	err = -ENOMEM;
	device_farewell_wq = alloc_workqueue("kiwarp_farewell", WQ_UNBOUND, 0);
	if (!device_farewell_wq)
		goto err_netdev;
	err = ib_register_client(&device_client);
	if (err)
		goto err_wq;
	rdma_link_register(&device_link_ops);
	return 0;

err_wq:
	destroy_workqueue(device_farewell_wq);
err_netdev:
	kiw_netdev_exit();
	return err;
}

void kiw_device_exit(void)
{
	rdma_link_unregister(&device_link_ops);
	ib_unregister_driver(KIW_DRIVER_ID);
	ib_unregister_client(&device_client);
	destroy_workqueue(device_farewell_wq);
	kiw_netdev_exit();
}
