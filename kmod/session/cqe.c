// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cqe.h"

void kiw_cqe_begin(struct kiw_cqe_batch *b, struct kiw_cq *cq, const struct kiw_owner *owner)
{
	b->cq = cq;
	b->owner = owner;
	b->n = 0;
	b->ok = true;
}

bool kiw_cqe_publish(struct kiw_cqe_batch *b)
{
	if (b->n && b->ok)
		b->ok = kiw_cq_add(b->cq, b->cqe, b->n);
	b->n = 0;
	return b->ok;
}

struct kiw_cqe *kiw_cqe_next(struct kiw_cqe_batch *b)
{
	struct kiw_cqe *cqe;

	if (b->n == KIW_CQE_BATCH)
		kiw_cqe_publish(b);
	cqe = &b->cqe[b->n++];
	memset(cqe, 0, sizeof(*cqe));
	cqe->cookie = b->owner->cookie;
	cqe->qp_num = b->owner->num;
	return cqe;
}
