// SPDX-License-Identifier: GPL-2.0
/* The decision to gather once more, as proto_library.c has the library */
#include "../../kmod/gather.c"
