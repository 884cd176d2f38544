// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

/// A name that the program finds in place of libc's
#define KIWS_EXPORT extern "C" [[gnu::visibility("default")]]
