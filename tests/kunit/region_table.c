// SPDX-License-Identifier: GPL-2.0
/* The table of regions once more, as proto_library.c has the library */
#include "../../kmod/region.c"
