// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "verbs.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <new>

#include "lock.hpp"

namespace kiws {

const Verbs *verbs;

namespace {

// Protects pds. No host has more devices.
kiw::Lock pds_lock;
ibv_pd *pds[64];

/// What stands in front of a library has its names in the global scope.
void *find(void *library, const char *name)
{
	void *global = ::dlsym(RTLD_DEFAULT, name);

	return global ? global : ::dlsym(library, name);
}

bool load(Verbs &found)
{
	void *ibverbs = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	void *rdmacm = ibverbs ? ::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL) : nullptr;

	if (!rdmacm)
		return false;
#define KIWS_FIND(library, name) \
	if (!(found.name = reinterpret_cast<decltype(&::name)>(find(library, #name)))) \
		return false;
#define KIWS_FIND_VERB(name) KIWS_FIND(ibverbs, name)
#define KIWS_FIND_CM(name) KIWS_FIND(rdmacm, name)
	KIWS_VERBS(KIWS_FIND_VERB)
	KIWS_RDMACM(KIWS_FIND_CM)
#undef KIWS_FIND_CM
#undef KIWS_FIND_VERB
#undef KIWS_FIND
	return true;
}

} // namespace

const Verbs *load_verbs()
{
	static kiw::Lock lock;
	static bool tried;
	static Verbs found;
	kiw::Guard guard(lock);

	if (!tried) {
		tried = true;
		if (load(found))
			verbs = &found;
	}
	return verbs;
}

ibv_pd *pd_of(ibv_context *context)
{
	kiw::Guard guard(pds_lock);

	for (ibv_pd *&pd : pds)
		if (!pd || pd->context == context)
			return pd ? pd : pd = verbs->ibv_alloc_pd(context);
	return nullptr;
}

void forget_pds()
{
	pds_lock.~Lock();
	::new (&pds_lock) kiw::Lock;
	std::fill(std::begin(pds), std::end(pds), nullptr);
}

} // namespace kiws
