/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions that are published together: one store and at most one notification for several. */
#ifndef KIW_SESSION_CQE_H
#define KIW_SESSION_CQE_H

#include "kiwarp-abi.h"
#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Completions in one batch */
#define KIW_CQE_BATCH 8

/**
 * struct kiw_cqe_batch - completions of one queue on their way to its CQ; on the stack
 * @cq: completion queue
 * @owner: queue pair that they are about, held
 * @n: entries of @cqe
 * @ok: all that were published so far have found room
 * @cqe: the completions
 */
struct kiw_cqe_batch {
	struct kiw_cq		*cq;
	const struct kiw_owner	*owner;
	unsigned int		n;
	bool			ok;
	struct kiw_cqe		cqe[KIW_CQE_BATCH];
};

/** kiw_cqe_begin() - begin a batch of completions for @cq; @owner is held */
void kiw_cqe_begin(struct kiw_cqe_batch *b, struct kiw_cq *cq, const struct kiw_owner *owner);

/** kiw_cqe_next() - one more completion, zeroed but for what names the QP; fill it in at once */
struct kiw_cqe *kiw_cqe_next(struct kiw_cqe_batch *b);

/**
 * kiw_cqe_publish() - publish what the batch holds
 * @b: batch
 *
 * Return: false when the completion queue has overflowed.
 */
bool kiw_cqe_publish(struct kiw_cqe_batch *b);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_CQE_H */
