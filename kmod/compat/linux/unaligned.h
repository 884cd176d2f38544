/* SPDX-License-Identifier: GPL-2.0 */
/* 6.12: the header's new place. Found only where the kernel itself has none there. */
#include <asm/unaligned.h>
