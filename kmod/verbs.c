// SPDX-License-Identifier: GPL-2.0
/* Verbs that differ by the kind of a queue pair */
#include "verbs.h"

#include "cm/number.h"
#include "post.h"
#include "qp.h"
#include "srq.h"
#include "ud/ud.h"
#include "ud/group.h"

int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	/* Only rdma_cm connects queue pairs of the kernel. */
	if (kiw_qp_is_kernel(qp) && (mask & (IB_QP_AV | IB_QP_DEST_QPN)))
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
	if (kiw_qp_is_kernel(to_kiw_qp(ibqp)))
		return kiw_qp_post_send(to_kiw_qp(ibqp), wr, bad);
	/* A process writes its requests into the ring. */
	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	return verbs_ring(ibqp, true);
}

int kiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	if (kiw_qp_is_kernel(to_kiw_qp(ibqp)))
		return kiw_qp_post_recv(to_kiw_qp(ibqp), wr, bad);
	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	return verbs_ring(ibqp, false);
}

int kiw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad)
{
	struct kiw_srq *srq = to_kiw_srq(ibsrq);

	if (srq->kernel)
		return kiw_srq_post_recv(srq, wr, bad);
	if (wr) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	kiw_srq_doorbell(srq);
	return 0;
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
 * Refused: a key of peers for all memory. Without the operation RDMA core would offer the device
 * only to processes.
 */
struct ib_mr *kiw_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}
