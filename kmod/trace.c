// SPDX-License-Identifier: GPL-2.0
#include "cm_priv.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
