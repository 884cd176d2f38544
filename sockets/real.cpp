// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "real.hpp"

#include <dlfcn.h>

namespace kiws {

const Real *found_real;

const Real &find_real()
{
	// Threads that come at the same time find the same.
	static Real functions;

#define KIWS_FIND(name) functions.name = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name));
	KIWS_NAMES(KIWS_FIND)
#undef KIWS_FIND
	__atomic_store_n(&found_real, &functions, __ATOMIC_RELEASE);
	return functions;
}

namespace {

[[gnu::constructor(101)]] void find_early()
{
	find_real();
}

} // namespace

} // namespace kiws
