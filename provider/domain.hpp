// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Protection domains, which the kernel has; and parent domains and thread domains, which it doesn't know.
#pragma once

#include <atomic>
#include <cstdint>
#include <infiniband/verbs.h>

#include "origin.hpp"

namespace kiw {

/// What one thread alone uses, as the program promises. The provider takes its locks all the same, unless a CQ says
/// IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
struct ThreadDomain {
	ibv_td ibv;
	Origin origin;
	// Parent domains that name it
	std::atomic<std::uint32_t> users = 0;

	static ThreadDomain &from(ibv_td *td) { return *reinterpret_cast<ThreadDomain *>(td); }
};

/// A protection domain, or a parent domain: to the kernel, what is made in that is made in the protection domain.
struct Domain {
	ibv_pd ibv;
	// Of a parent domain
	Domain *protection = nullptr;
	ThreadDomain *thread = nullptr;
	// Parent domains that name it; of a parent domain, CQs
	std::atomic<std::uint32_t> users = 0;
	Origin origin;
	// Of ibv_import_pd(): another process may have it, too
	bool imported = false;

	static Domain &from(ibv_pd *pd) { return *reinterpret_cast<Domain *>(pd); }
};

/// Makes a domain the caller's own, and its context before it: see inheritance.hpp. What the parent made in it
/// isn't in the new one. Returns 0 or an errno value; EPERM for a domain that is imported. From any thread.
int adopt(ibv_pd *pd);

// Operations; see ibv_alloc_pd(3) and so on.
ibv_pd *alloc_pd(ibv_context *context);
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr);
int dealloc_pd(ibv_pd *pd);
ibv_pd *import_pd(ibv_context *context, std::uint32_t handle);
void unimport_pd(ibv_pd *pd);
ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr);
int dealloc_td(ibv_td *td);

} // namespace kiw
