// SPDX-License-Identifier: GPL-2.0
/* The users who pay once more, as proto_library.c has the library */
#include "../../kmod/payer.c"
