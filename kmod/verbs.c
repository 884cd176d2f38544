// SPDX-License-Identifier: GPL-2.0
/* Verbs that differ by the kind of a queue pair, and those of consumers in the kernel */
#include "verbs.h"

#include "cm/number.h"
#include "qp.h"
#include "ud/ud.h"
#include "ud/group.h"

int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (kiw_qp_is_ud(qp))
		return kiw_ud_modify(qp->ud, attr, mask);
	return kiw_number_modify(qp, attr, mask);
}

/* Run the doorbell of a process: its requests are in the ring. */
static int verbs_ring(struct ib_qp *ibqp, bool send)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);

	return kiw_qp_is_ud(qp) ? kiw_ud_doorbell(qp->ud, send) : kiw_qp_doorbell(qp, send);
}

int kiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	return verbs_ring(ibqp, true);
}

int kiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	return verbs_ring(ibqp, false);
}

int kiw_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return kiw_ud_join(to_kiw_qp(ibqp)->ud, gid);
}

int kiw_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return kiw_ud_leave(to_kiw_qp(ibqp)->ud, gid);
}

/*
 * Verbs of consumers in the kernel, which are not supported: these three, posts with requests, and
 * creation without a process. If a device lacks one of these operations, RDMA core offers it only
 * to processes, and rdma_cm counts as a kernel consumer; so they exist and refuse.
 */
struct ib_mr *kiw_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

int kiw_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	return -EOPNOTSUPP;
}

int kiw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	return -EOPNOTSUPP;
}
