// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The receive machine's source: the library's, over the cursor of these tests.
#include "../../user/floor/cursor.cpp" // NOLINT(bugprone-suspicious-include)
