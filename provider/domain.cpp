// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain.hpp"

#include <cerrno>
#include <cstddef>

#include "context.hpp"
#include "inheritance.hpp"
#include "memory.hpp"
#include "private_abi.hpp"

namespace kiw {

static_assert(offsetof(Domain, ibv) == 0);
static_assert(offsetof(ThreadDomain, ibv) == 0);

namespace {

/// Makes a domain in the kernel. Returns 0 or an errno value.
int get(ibv_context *context, ibv_pd &pd)
{
	pabi::AllocPd request{};
	ib_uverbs_alloc_pd_resp response{};

	return ibv_cmd_alloc_pd(context, &pd, &request, sizeof(request), &response, sizeof(response));
}

/// Gives an inherited domain a handle in the context's own file. Under Origin::heirs(). Returns 0 or an errno value.
int replace(Domain &domain)
{
	ibv_pd own{};

	if (domain.imported)
		return EPERM;
	if (const int error = get(domain.ibv.context, own))
		return error;
	domain.ibv.handle = own.handle;
	return domain.origin.open();
}

} // namespace

int adopt(ibv_pd *pd)
{
	Domain &domain = Domain::from(pd);

	if (!domain.origin.inherited())
		return 0;
	if (const int error = adopt(Context::from(pd->context)))
		return error;
	Domain &protection = domain.protection ? *domain.protection : domain;
	Guard guard(Origin::heirs());
	if (protection.origin.inherited())
		if (const int error = replace(protection))
			return error;
	if (!domain.origin.inherited())
		return 0;
	domain.ibv.handle = protection.ibv.handle;
	return domain.origin.open();
}

ibv_pd *alloc_pd(ibv_context *context)
{
	int error = adopt(Context::from(context));

	if (error) {
		errno = error;
		return nullptr;
	}
	Owner<Domain> domain = make<Domain>();
	if (!domain) {
		errno = ENOMEM;
		return nullptr;
	}
	error = get(context, domain->ibv);
	if (error) {
		errno = error;
		return nullptr;
	}
	domain->origin = Context::from(context).origin;
	return &domain.release()->ibv;
}

ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr)
{
	// The kernel allocates the rings: the program's allocators would be unused.
	if (attr->comp_mask & ~std::uint32_t{IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT}) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (!attr->pd || Domain::from(attr->pd).protection) {
		errno = EINVAL;
		return nullptr;
	}
	if (const int error = adopt(attr->pd)) {
		errno = error;
		return nullptr;
	}
	Owner<Domain> domain = make<Domain>();
	if (!domain) {
		errno = ENOMEM;
		return nullptr;
	}
	domain->ibv.context = context;
	domain->ibv.handle = attr->pd->handle;
	domain->origin = Domain::from(attr->pd).origin;
	domain->protection = &Domain::from(attr->pd);
	domain->protection->users++;
	if (attr->td) {
		domain->thread = &ThreadDomain::from(attr->td);
		domain->thread->users++;
	}
	return &domain.release()->ibv;
}

int dealloc_pd(ibv_pd *pd)
{
	Domain &domain = Domain::from(pd);

	if (domain.origin.inherited())
		return EPERM;
	if (domain.users)
		return EBUSY;
	if (domain.protection) {
		domain.protection->users--;
		if (domain.thread)
			domain.thread->users--;
	} else if (const int error = ibv_cmd_dealloc_pd(pd)) {
		return error;
	}
	destroy(&domain);
	return 0;
}

ibv_pd *import_pd(ibv_context *context, std::uint32_t handle)
{
	if (Context::from(context).origin.inherited()) {
		errno = EPERM;
		return nullptr;
	}
	Owner<Domain> domain = make<Domain>();
	if (!domain) {
		errno = ENOMEM;
		return nullptr;
	}
	// The kernel has no command to query a domain: it judges the handle on use.
	domain->ibv.context = context;
	domain->ibv.handle = handle;
	domain->origin = Context::from(context).origin;
	domain->imported = true;
	return &domain.release()->ibv;
}

void unimport_pd(ibv_pd *pd)
{
	Domain &domain = Domain::from(pd);

	// A parent domain that still names it cannot be told: only its memory is lost then.
	if (!domain.users)
		destroy(&domain);
}

ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr)
{
	if (const int error = adopt(Context::from(context))) {
		errno = error;
		return nullptr;
	}
	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	Owner<ThreadDomain> domain = make<ThreadDomain>();
	if (!domain) {
		errno = ENOMEM;
		return nullptr;
	}
	domain->ibv.context = context;
	domain->origin = Context::from(context).origin;
	return &domain.release()->ibv;
}

int dealloc_td(ibv_td *td)
{
	ThreadDomain &domain = ThreadDomain::from(td);

	if (domain.origin.inherited())
		return EPERM;
	if (domain.users)
		return EBUSY;
	destroy(&domain);
	return 0;
}

} // namespace kiw
