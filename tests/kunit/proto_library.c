// SPDX-License-Identifier: GPL-2.0
/*
 * The library's headers and CRC once more, as one object of this module: objects
 * of the driver's own build cannot be shared with it.
 */
#include "../../kmod/proto/crc.c"
#include "../../kmod/proto/ddp.c"
#include "../../kmod/proto/ddp_build.c"
#include "../../kmod/proto/dgram.c"
#include "../../kmod/proto/fault.c"
#include "../../kmod/proto/fpdu.c"
#include "../../kmod/proto/mpa_frame.c"
#include "../../kmod/proto/number.c"
#include "../../kmod/proto/term.c"
