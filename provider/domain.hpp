// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Protection domains, which the kernel keeps; parent domains and thread domains, which it does not know.
#pragma once

#include <atomic>
#include <cstdint>
#include <infiniband/verbs.h>

#include "origin.hpp"

namespace kiw {

/// Objects of one thread, as the program promises. The provider locks nevertheless, except a CQ with
/// IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
struct ThreadDomain {
	ibv_td ibv;
	Origin origin;
	// Its parent domains
	std::atomic<std::uint32_t> users = 0;

	static ThreadDomain &from(ibv_td *td) { return *reinterpret_cast<ThreadDomain *>(td); }
};

/// A protection domain, or a parent domain: for the kernel its objects belong to the protection domain.
struct Domain {
	ibv_pd ibv;
	// Parent domains only
	Domain *protection = nullptr;
	ThreadDomain *thread = nullptr;
	// Its parent domains; CQs of a parent domain
	std::atomic<std::uint32_t> users = 0;
	Origin origin;
	// Of ibv_import_pd(): another process may own it too
	bool imported = false;

	static Domain &from(ibv_pd *pd) { return *reinterpret_cast<Domain *>(pd); }
};

/// Makes a domain and its context the caller's own: see inheritance.hpp. The new one lacks the parent's objects.
/// Returns 0 or an errno value; EPERM for an imported domain. From any thread.
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
