/* SPDX-License-Identifier: GPL-2.0 */
/* What bench_crc_main.c calls of the kernel's code */
#include <crc/x86/crc32-pclmul.S>
#include <crc/x86/crc32c-3way.S>
