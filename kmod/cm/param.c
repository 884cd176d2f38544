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

/* A parameter of the module: a number from @min to @max, or Y or N where @flag is set */
struct cm_param {
	unsigned int	value;
	unsigned int	min;
	unsigned int	max;
	bool		flag;
};

static struct cm_param cm_params[KIW_OPTION_COUNT] = {
	[KIW_OPTION_CRC] = { .flag = true, .value = false },
	[KIW_OPTION_MARKERS] = { .flag = true, .value = false },
	[KIW_OPTION_MPA_REV] = {
		.value = KIW_MPA_REV_2, .min = KIW_MPA_REV_1, .max = KIW_MPA_REV_2,
	},
	[KIW_OPTION_P2P] = { .flag = true, .value = true },
	[KIW_OPTION_RTR] = { .value = KIW_RTR_WRITE | KIW_RTR_READ, .min = 1, .max = CM_RTR_MAX },
	[KIW_OPTION_RESPONDER_FIRST] = { .flag = true, .value = false },
	[KIW_OPTION_LARGE] = { .flag = true, .value = true },
	[KIW_OPTION_CONNECT_TIMEOUT] = { .value = 20, .min = 1, .max = CM_SECS_MAX },
	[KIW_OPTION_MPA_TIMEOUT] = { .value = 10, .min = 1, .max = CM_SECS_MAX },
	[KIW_OPTION_KEEPALIVE] = { .value = 0, .min = 0, .max = CM_KEEPALIVE_MAX },
	[KIW_OPTION_NUMBER] = {
		.value = KIW_NUMBER_ON, .min = KIW_NUMBER_OFF, .max = KIW_NUMBER_STRICT,
	},
};

/* Reads a value that @param may have; no text is Y */
static int cm_parse(const struct cm_param *param, const char *val, unsigned int *value)
{
	bool flag = true;
	int err = 0;

	if (param->flag) {
		if (val)
			err = kstrtobool(val, &flag);
		*value = flag;
		return err;
	}
	if (!val)
		return -EINVAL;
	err = kstrtouint(val, 0, value);
	if (!err && (*value < param->min || *value > param->max))
		err = -EINVAL;
	return err;
}

static int cm_print(const struct cm_param *param, unsigned int value, char *buf)
{
	if (param->flag)
		return sysfs_emit(buf, "%c\n", value ? 'Y' : 'N');
	return sysfs_emit(buf, "%u\n", value);
}

static int cm_param_set(const char *val, const struct kernel_param *kp)
{
	struct cm_param *param = kp->arg;
	unsigned int value;
	int err = cm_parse(param, val, &value);

	if (!err)
		WRITE_ONCE(param->value, value);
	return err;
}

static int cm_param_get(char *buf, const struct kernel_param *kp)
{
	const struct cm_param *param = kp->arg;

	return cm_print(param, READ_ONCE(param->value), buf);
}

static const struct kernel_param_ops cm_param_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = cm_param_set,
	.get = cm_param_get,
};

module_param_cb(crc, &cm_param_ops, &cm_params[KIW_OPTION_CRC], 0644);
MODULE_PARM_DESC(crc, "Ask for CRC on every connection (default: N; a peer that asks gets it)");
module_param_cb(markers, &cm_param_ops, &cm_params[KIW_OPTION_MARKERS], 0644);
MODULE_PARM_DESC(markers,
		 "Ask for markers in what we receive (default: N; a peer that asks gets them)");
module_param_cb(mpa_rev, &cm_param_ops, &cm_params[KIW_OPTION_MPA_REV], 0644);
MODULE_PARM_DESC(mpa_rev, "Highest MPA revision to speak, 1 or 2 (default: 2)");
module_param_cb(p2p, &cm_param_ops, &cm_params[KIW_OPTION_P2P], 0644);
MODULE_PARM_DESC(p2p, "Connect in the peer-to-peer model, which needs mpa_rev=2 (default: Y)");
module_param_cb(rtr, &cm_param_ops, &cm_params[KIW_OPTION_RTR], 0644);
MODULE_PARM_DESC(rtr,
		 "Usable ready-to-receive messages, sum of Send 1, Write 2, Read 4 (default: 6)");
module_param_cb(responder_first, &cm_param_ops, &cm_params[KIW_OPTION_RESPONDER_FIRST], 0644);
MODULE_PARM_DESC(responder_first,
		 "Let a responder send first if not connected peer-to-peer, against RFC 5044 (default: N)");
module_param_cb(large, &cm_param_ops, &cm_params[KIW_OPTION_LARGE], 0644);
MODULE_PARM_DESC(large,
		 "FPDUs beyond one TCP segment, where the peer takes them, too (default: Y)");
module_param_cb(connect_timeout, &cm_param_ops, &cm_params[KIW_OPTION_CONNECT_TIMEOUT], 0644);
MODULE_PARM_DESC(connect_timeout,
		 "Seconds until a connection attempt without an answer fails (default: 20)");
module_param_cb(mpa_timeout, &cm_param_ops, &cm_params[KIW_OPTION_MPA_TIMEOUT], 0644);
MODULE_PARM_DESC(mpa_timeout,
		 "Seconds that a connecting peer may take for its Request or RTR (default: 10)");
module_param_cb(keepalive, &cm_param_ops, &cm_params[KIW_OPTION_KEEPALIVE], 0644);
MODULE_PARM_DESC(keepalive,
		 "Seconds of silence after which TCP probes for the peer, 0 for never (default: 0)");
/* Constant: read when a link is created, which opens its port or not. */
module_param_cb(number, &cm_param_ops, &cm_params[KIW_OPTION_NUMBER], 0444);
MODULE_PARM_DESC(number,
		 "Connections by queue pair number: 0 none, 1 yes, 2 with ends that prove both PSNs (default: 1)");

/* --- options of a link --------------------------------------------------------------------- */

/* Current value of a link's option */
static unsigned int cm_option(const struct kiw_options *options, enum kiw_option which)
{
	int value = READ_ONCE(options->value[which]);

	return value >= 0 ? value : READ_ONCE(cm_params[which].value);
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
	return cm_print(&cm_params[which], cm_option(options, which), buf);
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
	unsigned int value;
	int err;

	if (sysfs_streq(buf, "default")) {
		WRITE_ONCE(options->value[which], -1);
		return count;
	}
	err = cm_parse(&cm_params[which], buf, &value);
	if (err)
		return err;
	WRITE_ONCE(options->value[which], value);
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
