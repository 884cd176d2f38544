// SPDX-License-Identifier: GPL-2.0
/* Contexts of processes, and their protection domains */
#include "context.h"

#include <linux/uaccess.h>

#define UVERBS_MODULE_NAME kiwarp
#include <rdma/uverbs_named_ioctl.h>

#include "arena.h"
#include "count.h"
#include "types.h"

static struct kiw_get_context_resp context_resp(u32 features)
{
	return (struct kiw_get_context_resp) {
		.max_inline = KIW_MAX_INLINE,
		.max_send_sge = KIW_MAX_SGE,
		.max_recv_sge = KIW_MAX_SGE,
		.features = features,
	};
}

int kiw_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata)
{
	struct kiw_get_context_req req = {};
	struct kiw_get_context_resp resp;
	int err;

	/* Fail for a process without our provider, which could do nothing here. */
	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	/* An earlier version sends nothing, a later one perhaps more. */
	if (udata->inlen >= sizeof(req)) {
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
		if (req.reserved)
			return -EINVAL;
	}
	resp = context_resp(req.features & KIW_FEATURES);
	to_kiw_ucontext(ibuctx)->features = resp.features;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (!err)
		kiw_rings_init(&to_kiw_ucontext(ibuctx)->rings);
	return err;
}

/*
 * A process imports a context opened by another process or itself. Does the work of RDMA core's
 * uverbs_copy_to(), without a dependency on ib_uverbs.
 */
int kiw_query_ucontext(struct ib_ucontext *ibuctx, struct uverbs_attr_bundle *attrs)
{
	struct kiw_get_context_resp resp = context_resp(to_kiw_ucontext(ibuctx)->features);
	const struct uverbs_attr *attr = uverbs_attr_get(attrs, KIW_ATTR_QUERY_CONTEXT_RESP);

	if (IS_ERR(attr))
		return 0;
	if (copy_to_user(u64_to_user_ptr(attr->ptr_attr.data), &resp,
			 min_t(size_t, attr->ptr_attr.len, sizeof(resp))))
		return -EFAULT;
	return 0;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(context_query, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(KIW_ATTR_QUERY_CONTEXT_RESP,
						 UVERBS_ATTR_TYPE(struct kiw_get_context_resp),
						 UA_OPTIONAL));

const struct uapi_definition kiw_context_uapi[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &context_query),
	{},
};

void kiw_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
	kiw_rings_exit(&to_kiw_ucontext(ibuctx)->rings);
}

/*
 * RDMA core requires this operation for removal of a device that processes have open. It needs no
 * action: the core destroys the objects, and mapped rings are plain memory.
 */
void kiw_disassociate_ucontext(struct ib_ucontext *ibuctx)
{
}

int kiw_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct kiw_pd *pd = to_kiw_pd(ibpd);

	if (!kiw_count_up(&to_kiw_device(ibpd->device)->num_pd, KIW_MAX_PD))
		return -ENOMEM;
	spin_lock_init(&pd->lock);
	pd->windows = RB_ROOT;
	return 0;
}

int kiw_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_kiw_device(ibpd->device)->num_pd);
	return 0;
}
