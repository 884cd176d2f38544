/* SPDX-License-Identifier: GPL-2.0 */
/* The module's types and functions for its sessions, see session/port.h. */
#ifndef KIWARP_SESSION_PORT_H
#define KIWARP_SESSION_PORT_H

#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "batch.h"
#include "compat.h"
#include "count.h"
#include "cursor.h"
#include "region.h"
#include "trace.h"

struct kiw_cq;
struct kiw_cqe;
struct kiw_loan;

/* Units of kiw_carrier_now() */
#define KIW_CARRIER_SECOND HZ

bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);
bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n);
void kiw_loan_put(struct kiw_loan *loan, bool any);

#endif /* KIWARP_SESSION_PORT_H */
