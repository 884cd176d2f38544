// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <functional>
#include <vector>

namespace faults {

/// A call of the thread that tests.
struct Call {
	std::function<void()> prepare; ///< without faults, before every call
	std::function<int()> call;     ///< returns 0 or errno
	std::function<void()> after;   ///< undoes a call that succeeded
	std::function<void()> clean;   ///< undoes prepare
	std::vector<int> errors;       ///< with which it may fail; one that has none always succeeds
};

enum class Allocates { something, nothing, maybe };

/// Makes the call with its first allocation failing, then with its second, and so on until none is left to fail. Each
/// time it fails with an error that it may have, or succeeds; nothing stays behind; and the next call succeeds.
void every_fault(Allocates allocates, const Call &call);

} // namespace faults
