// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The functions behind those that this library defines: of libc, or of a library that is preloaded behind this one.
#pragma once

#include "names.hpp"

namespace kiws {

struct Real {
#define KIWS_MEMBER(name) decltype(&::name) name;
	KIWS_NAMES(KIWS_MEMBER)
#undef KIWS_MEMBER
};

/// Finds them all. A name that no library has is nullptr.
const Real &find_real();

extern const Real *found_real;

/// They may be needed before the constructors of this library run.
inline const Real &real()
{
	const Real *found = __atomic_load_n(&found_real, __ATOMIC_ACQUIRE);

	return found ? *found : find_real();
}

} // namespace kiws
