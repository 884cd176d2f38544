/* SPDX-License-Identifier: GPL-2.0 */
/* Which user pays for what a process makes the module hold or do, where each user has a bound. */
#ifndef KIWARP_PAYER_H
#define KIWARP_PAYER_H

#include <linux/uidgid.h>

struct cred;

/**
 * kiw_payer() - find the user to charge for a process
 * @cred: the process's
 *
 * A user other than root pays for all users of the user namespaces that it created.
 *
 * Return: the user's ID in the initial user namespace.
 */
kuid_t kiw_payer(const struct cred *cred);

#endif
