/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Atomics of a peer on a region (RFC 7306 section 5). */
#ifndef KIW_SESSION_ATOMICS_H
#define KIW_SESSION_ATOMICS_H

#include "../proto/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_owner;

/**
 * kiw_atomic_check() - may the peer do this atomic
 * @owner: queue pair, held
 * @at: request as received
 *
 * Order of checks: RFC 5041 section 7.1, then the alignment of the tagged offset and of the memory.
 *
 * Return: KIW_OK, or the error for the peer.
 */
enum kiw_err kiw_atomic_check(const struct kiw_owner *owner, const struct kiw_atomic *at);

/**
 * kiw_atomic_run() - check an atomic again and carry it out
 * @owner: queue pair, held
 * @at: request as received
 * @old: gets the value before it
 *
 * Atomic with respect to all CPUs, hence to all kiwarp devices.
 *
 * Return: as kiw_atomic_check().
 */
enum kiw_err kiw_atomic_run(const struct kiw_owner *owner, const struct kiw_atomic *at, u64 *old);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_ATOMICS_H */
