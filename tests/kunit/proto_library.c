// SPDX-License-Identifier: GPL-2.0
/*
 * The library once more, as one object of this module: objects of the driver's
 * own build cannot be shared with it. The receive machine isn't here: it takes a
 * source and a sink, and with the driver's it runs in every test of the driver.
 */
#include "../../kmod/proto/atomic.c"
#include "../../kmod/proto/crc.c"
#include "../../kmod/proto/ddp.c"
#include "../../kmod/proto/ddp_build.c"
#include "../../kmod/proto/dgram.c"
#include "../../kmod/proto/fault.c"
#include "../../kmod/proto/fpdu.c"
#include "../../kmod/proto/mpa_frame.c"
#include "../../kmod/proto/mpa_terms.c"
#include "../../kmod/proto/number.c"
#include "../../kmod/proto/qpstate.c"
#include "../../kmod/proto/record.c"
#include "../../kmod/proto/term.c"
