// SPDX-License-Identifier: GPL-2.0
#include "payer.h"

#include <linux/cred.h>
#include <linux/user_namespace.h>

kuid_t kiw_payer(const struct cred *cred)
{
	const struct user_namespace *ns;
	kuid_t user = cred->uid;

	for (ns = cred->user_ns; ns->parent; ns = ns->parent) {
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	}
	return user;
}
