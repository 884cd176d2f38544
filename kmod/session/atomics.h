/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the atomics of a peer do to a region (RFC 7306 section 5). */
#ifndef KIW_SESSION_ATOMICS_H
#define KIW_SESSION_ATOMICS_H

#include "../proto/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_owner;

/**
 * kiw_atomic_check() - may the peer do this
 * @owner: queue pair, held
 * @at: as received
 *
 * The order of the checks is that of RFC 5041 section 7.1; the alignment, of the address as named
 * and of the memory behind it, comes last.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_atomic_check(const struct kiw_owner *owner, const struct kiw_atomic *at);

/**
 * kiw_atomic_run() - check it again, and do it
 * @owner: queue pair, held
 * @at: as received
 * @old: gets what the memory had before
 *
 * It is atomic with respect to all CPUs, and so to every other device of ours.
 *
 * Return: as kiw_atomic_check().
 */
enum kiw_err kiw_atomic_run(const struct kiw_owner *owner, const struct kiw_atomic *at, u64 *old);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_ATOMICS_H */
