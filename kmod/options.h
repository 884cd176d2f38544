/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an administrator may set about the connections of one link. Until then the parameter of the
 * module with the same name holds for the link; cm/param.c has both.
 */
#ifndef KIWARP_OPTIONS_H
#define KIWARP_OPTIONS_H

#include <linux/types.h>

/** enum kiw_option - the parameters of the module that a link may have otherwise */
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
	KIW_NUMBER_OFF,		/* nothing: no port, and no change to RTR that names a peer */
	KIW_NUMBER_ON,
	KIW_NUMBER_STRICT,	/* connects to ends alone that prove the PSN they weren't told */
};

/**
 * struct kiw_options - those of one link
 * @value: by &enum kiw_option; negative where the parameter of the module holds
 */
struct kiw_options {
	int value[KIW_OPTION_COUNT];
};

void kiw_options_init(struct kiw_options *options);
ssize_t kiw_option_show(const struct kiw_options *options, enum kiw_option which, char *buf);
ssize_t kiw_option_store(struct kiw_options *options, enum kiw_option which, const char *buf,
			 size_t count);

#endif /* KIWARP_OPTIONS_H */
