/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options of a link's connections. An unset option follows the module's parameter of its name
 * (cm/param.c).
 */
#ifndef KIWARP_OPTIONS_H
#define KIWARP_OPTIONS_H

#include <linux/types.h>

/** enum kiw_option - parameters that links can override */
enum kiw_option {
	KIW_OPTION_CRC,
	KIW_OPTION_MARKERS,
	KIW_OPTION_MPA_REV,
	KIW_OPTION_P2P,
	KIW_OPTION_RTR,
	KIW_OPTION_RESPONDER_FIRST,
	KIW_OPTION_LARGE,
	KIW_OPTION_CONNECT_TIMEOUT,
	KIW_OPTION_MPA_TIMEOUT,
	KIW_OPTION_KEEPALIVE,
	KIW_OPTION_NUMBER,
	KIW_OPTION_COUNT,
};

/** enum kiw_number_mode - values of the option number */
enum kiw_number_mode {
	KIW_NUMBER_OFF,		/* no port; a change to RTR cannot name a peer */
	KIW_NUMBER_ON,
	KIW_NUMBER_STRICT,	/* only to ends that prove the PSN that they were not told */
};

/* Options of a link by &enum kiw_option; negative: the module's parameter counts */
struct kiw_options {
	int value[KIW_OPTION_COUNT];
};

void kiw_options_init(struct kiw_options *options);
ssize_t kiw_option_show(const struct kiw_options *options, enum kiw_option which, char *buf);
ssize_t kiw_option_store(struct kiw_options *options, enum kiw_option which, const char *buf,
			 size_t count);

#endif /* KIWARP_OPTIONS_H */
