// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Names that headers of older rdma-cores lack. They have other names in here, since newer headers have them as well.
#pragma once

#include "names.hpp"
#include "next.hpp"

#define KIW_NEWER(result, name, ...) \
	KIW_NAME result kiw_##name(__VA_ARGS__) asm(#name); \
	KIW_NAME result kiw_##name(__VA_ARGS__)
#define NEXT_NEWER(name, ...) forward(#name, kiw_##name, __VA_ARGS__)
