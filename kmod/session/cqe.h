/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions published together: one store, and at most one notification. */
#ifndef KIW_SESSION_CQE_H
#define KIW_SESSION_CQE_H

#include "kiwarp-abi.h"
#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIW_CQE_BATCH 8

/**
 * struct kiw_cqe_batch - completions of one queue for its CQ; on the stack
 * @cq: completion queue
 * @owner: their queue pair, held
 * @n: entries of @cqe
 * @ok: the CQ had room for all so far
 * @cqe: completions
 */
struct kiw_cqe_batch {
	struct kiw_cq		*cq;
	const struct kiw_owner	*owner;
	unsigned int		n;
	bool			ok;
	struct kiw_cqe		cqe[KIW_CQE_BATCH];
};

/*
 * Completions of one queue for its CQ, on the stack. @owner is held.
 * @ok: the CQ had room for all so far
 */
void kiw_cqe_begin(struct kiw_cqe_batch *b, struct kiw_cq *cq, const struct kiw_owner *owner);

/** kiw_cqe_next() - add a completion: zero except for the QP; fill it in at once */
struct kiw_cqe *kiw_cqe_next(struct kiw_cqe_batch *b);

/** kiw_cqe_publish() - publish the batch. Return: false if the CQ overflowed */
bool kiw_cqe_publish(struct kiw_cqe_batch *b);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_CQE_H */
