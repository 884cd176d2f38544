/* SPDX-License-Identifier: GPL-2.0 */
/* Included before everything else, makes a kernel look like one with HIGHMEM. */
#undef CONFIG_INFINIBAND_VIRT_DMA
