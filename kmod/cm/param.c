// SPDX-License-Identifier: GPL-2.0
/* Parameters and options for the start-up and the life of connections. */
#include "priv.h"

#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>

#include "options.h"

#define CM_RTR_MAX		(KIW_RTR_SEND | KIW_RTR_WRITE | KIW_RTR_READ)
#define CM_SECS_MAX		300
#define CM_KEEPALIVE_MAX	32767	/* seconds, TCP's own limit */

static bool crc;
module_param(crc, bool, 0644);
MODULE_PARM_DESC(crc, "Ask for CRC on every connection (default: N; a peer that asks gets it)");

static bool markers;
module_param(markers, bool, 0644);
MODULE_PARM_DESC(markers,
		 "Ask for markers in what we receive (default: N; a peer that asks gets them)");

static int cm_set_rev(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, KIW_MPA_REV_1, KIW_MPA_REV_2);
}

static const struct kernel_param_ops rev_ops = { .set = cm_set_rev, .get = param_get_uint };
static unsigned int mpa_rev = KIW_MPA_REV_2;
module_param_cb(mpa_rev, &rev_ops, &mpa_rev, 0644);
MODULE_PARM_DESC(mpa_rev, "Highest MPA revision to speak, 1 or 2 (default: 2)");

static bool p2p = true;
module_param(p2p, bool, 0644);
MODULE_PARM_DESC(p2p, "Connect in the peer-to-peer model, which needs mpa_rev=2 (default: Y)");

static int cm_set_rtr(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, CM_RTR_MAX);
}

static const struct kernel_param_ops rtr_ops = { .set = cm_set_rtr, .get = param_get_uint };
static unsigned int rtr = KIW_RTR_WRITE | KIW_RTR_READ;
module_param_cb(rtr, &rtr_ops, &rtr, 0644);
MODULE_PARM_DESC(rtr,
		 "Usable ready-to-receive messages, sum of Send 1, Write 2, Read 4 (default: 6)");

static bool responder_first;
module_param(responder_first, bool, 0644);
MODULE_PARM_DESC(responder_first,
		 "Let a responder send first if not connected peer-to-peer, against RFC 5044 (default: N)");

static bool large = true;
module_param(large, bool, 0644);
MODULE_PARM_DESC(large,
		 "FPDUs beyond one TCP segment, where the peer takes them, too (default: Y)");

static int cm_set_secs(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, CM_SECS_MAX);
}

static const struct kernel_param_ops secs_ops = { .set = cm_set_secs, .get = param_get_uint };
static unsigned int connect_timeout = 20;
module_param_cb(connect_timeout, &secs_ops, &connect_timeout, 0644);
MODULE_PARM_DESC(connect_timeout,
		 "Seconds until a connection attempt without an answer fails (default: 20)");
static unsigned int mpa_timeout = 10;
module_param_cb(mpa_timeout, &secs_ops, &mpa_timeout, 0644);
MODULE_PARM_DESC(mpa_timeout,
		 "Seconds that a connecting peer may take for its Request or RTR (default: 10)");

static int cm_set_keepalive(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, CM_KEEPALIVE_MAX);
}

static const struct kernel_param_ops keepalive_ops = {
	.set = cm_set_keepalive,
	.get = param_get_uint,
};

static unsigned int keepalive;
module_param_cb(keepalive, &keepalive_ops, &keepalive, 0644);
MODULE_PARM_DESC(keepalive,
		 "Seconds of silence after which TCP probes for the peer, 0 for never (default: 0)");

static int cm_set_number(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, KIW_NUMBER_OFF, KIW_NUMBER_STRICT);
}

static const struct kernel_param_ops number_ops = { .set = cm_set_number, .get = param_get_uint };
/* Constant: read when a link is created, which opens its port or not. */
static unsigned int by_number = KIW_NUMBER_ON;
module_param_cb(number, &number_ops, &by_number, 0444);
MODULE_PARM_DESC(number,
		 "Connections by queue pair number: 0 none, 1 yes, 2 with ends that prove both PSNs (default: 1)");

/* --- options of a link --------------------------------------------------------------------- */

/* Module parameter behind each option: a bool at @flag, or a number from @min to @max at @number */
static const struct cm_option {
	const bool		*flag;
	const unsigned int	*number;
	unsigned int		min;
	unsigned int		max;
} cm_options[KIW_OPTION_COUNT] = {
	[KIW_OPTION_CRC] = { .flag = &crc },
	[KIW_OPTION_MARKERS] = { .flag = &markers },
	[KIW_OPTION_MPA_REV] = { .number = &mpa_rev, .min = KIW_MPA_REV_1, .max = KIW_MPA_REV_2 },
	[KIW_OPTION_P2P] = { .flag = &p2p },
	[KIW_OPTION_RTR] = { .number = &rtr, .min = 1, .max = CM_RTR_MAX },
	[KIW_OPTION_RESPONDER_FIRST] = { .flag = &responder_first },
	[KIW_OPTION_LARGE] = { .flag = &large },
	[KIW_OPTION_CONNECT_TIMEOUT] = {
		.number = &connect_timeout, .min = 1, .max = CM_SECS_MAX,
	},
	[KIW_OPTION_MPA_TIMEOUT] = { .number = &mpa_timeout, .min = 1, .max = CM_SECS_MAX },
	[KIW_OPTION_KEEPALIVE] = { .number = &keepalive, .min = 0, .max = CM_KEEPALIVE_MAX },
	[KIW_OPTION_NUMBER] = {
		.number = &by_number, .min = KIW_NUMBER_OFF, .max = KIW_NUMBER_STRICT,
	},
};

/* Current value of a link's option */
static unsigned int cm_option(const struct kiw_options *options, enum kiw_option which)
{
	const struct cm_option *option = &cm_options[which];
	int value = READ_ONCE(options->value[which]);

	if (value >= 0)
		return value;
	return option->flag ? READ_ONCE(*option->flag) : READ_ONCE(*option->number);
}

/**
 * kiw_options_init() - let a new link follow the module's parameters
 * @options: options of the link
 */
void kiw_options_init(struct kiw_options *options)
{
	memset(options->value, 0xff, sizeof(options->value));
}

/**
 * kiw_option_show() - print the current value of an option, formatted as the module's parameter
 * @options: options of the link
 * @which: option
 * @buf: page for a file of sysfs
 *
 * Return: bytes in @buf.
 */
ssize_t kiw_option_show(const struct kiw_options *options, enum kiw_option which, char *buf)
{
	unsigned int value = cm_option(options, which);

	if (cm_options[which].flag)
		return sysfs_emit(buf, "%c\n", value ? 'Y' : 'N');
	return sysfs_emit(buf, "%u\n", value);
}

/**
 * kiw_option_store() - set an option for later connections
 * @options: options of the link
 * @which: option
 * @buf: a value in the format of the module's parameter, or "default": follow that parameter
 * @count: bytes at @buf
 *
 * Return: @count, or a negative errno for an invalid value, without any change.
 */
ssize_t kiw_option_store(struct kiw_options *options, enum kiw_option which, const char *buf,
			 size_t count)
{
	const struct cm_option *option = &cm_options[which];
	unsigned int number;
	bool flag;
	int err;

	if (sysfs_streq(buf, "default")) {
		WRITE_ONCE(options->value[which], -1);
		return count;
	}
	if (option->flag) {
		err = kstrtobool(buf, &flag);
		number = !err && flag;
	} else {
		err = kstrtouint(buf, 0, &number);
		if (!err && (number < option->min || number > option->max))
			err = -EINVAL;
	}
	if (err)
		return err;
	WRITE_ONCE(options->value[which], number);
	return count;
}

/**
 * kiw_ep_config() - configure a start-up by the current options
 * @dev: device of the connection
 * @su: start-up; IRD and ORD become the device's limits
 */
void kiw_ep_config(const struct kiw_device *dev, struct kiw_startup *su)
{
	const struct kiw_options *options = &dev->options;

	su->cfg = (struct kiw_mpa_cfg) {
		.rev = cm_option(options, KIW_OPTION_MPA_REV),
		.crc = cm_option(options, KIW_OPTION_CRC),
		.markers = cm_option(options, KIW_OPTION_MARKERS),
		.p2p = cm_option(options, KIW_OPTION_P2P),
		.large = cm_option(options, KIW_OPTION_LARGE),
		.ext = true,
		.rtr = cm_option(options, KIW_OPTION_RTR),
		.ird = KIW_MAX_RD_ATOM,
		.ord = KIW_MAX_RD_ATOM,
		.ird_max = KIW_MAX_RD_ATOM,
	};
	if (su->cfg.rev < KIW_MPA_REV_2)
		su->cfg.p2p = false;
}

/** kiw_responder_sends_first() - may a responder send before its peer, against RFC 5044 */
bool kiw_responder_sends_first(const struct kiw_device *dev)
{
	return cm_option(&dev->options, KIW_OPTION_RESPONDER_FIRST);
}

/** kiw_keepalive_secs() - seconds of silence before TCP probes for the peer, or 0 */
unsigned int kiw_keepalive_secs(const struct kiw_device *dev)
{
	return cm_option(&dev->options, KIW_OPTION_KEEPALIVE);
}

/** kiw_connect_secs() - seconds for TCP and the Reply */
unsigned int kiw_connect_secs(const struct kiw_device *dev)
{
	return cm_option(&dev->options, KIW_OPTION_CONNECT_TIMEOUT);
}

/** kiw_mpa_secs() - seconds that a responder grants its peer for each step */
unsigned int kiw_mpa_secs(const struct kiw_device *dev)
{
	return cm_option(&dev->options, KIW_OPTION_MPA_TIMEOUT);
}

/** kiw_number_mode() - does the link connect by QP number, and to which ends */
enum kiw_number_mode kiw_number_mode(const struct kiw_device *dev)
{
	return cm_option(&dev->options, KIW_OPTION_NUMBER);
}
