// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Accesses to memory that may not be there.
#pragma once

#include <csetjmp>

namespace storm {

/// Where the thread goes on after a fault; null outside of touch().
extern thread_local sigjmp_buf *after_fault;

/// From here on, faults inside touch() are no end of the process.
void survive_faults();

/// Whether the access came to its end. It must own nothing: after a fault its destructors don't run.
template <typename Access>
bool touch(Access access)
{
	sigjmp_buf here;

	if (sigsetjmp(here, 1)) { // NOLINT(cert-err52-cpp): there is no other way out of a fault
		after_fault = nullptr;
		return false;
	}
	after_fault = &here;
	access();
	after_fault = nullptr;
	return true;
}

} // namespace storm
