// SPDX-License-Identifier: GPL-2.0
/* What an administrator may set about the start-up and the life of connections. */
#include "cm_priv.h"

#include <linux/moduleparam.h>

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
	return param_set_uint_minmax(val, kp, 1, KIW_RTR_SEND | KIW_RTR_WRITE | KIW_RTR_READ);
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
	return param_set_uint_minmax(val, kp, 1, 300);
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
	return param_set_uint_minmax(val, kp, 0, 32767);
}

static const struct kernel_param_ops keepalive_ops = {
	.set = cm_set_keepalive,
	.get = param_get_uint,
};

static unsigned int keepalive;
module_param_cb(keepalive, &keepalive_ops, &keepalive, 0644);
MODULE_PARM_DESC(keepalive,
		 "Seconds of silence after which TCP probes for the peer, 0 for never (default: 0)");

/**
 * kiw_ep_config() - note what this side wants, as configured right now
 * @su: start-up; IRD and ORD are left at what the device can do
 */
void kiw_ep_config(struct kiw_startup *su)
{
	su->cfg = (struct kiw_mpa_cfg) {
		.rev = READ_ONCE(mpa_rev),
		.crc = READ_ONCE(crc),
		.markers = READ_ONCE(markers),
		.p2p = READ_ONCE(p2p),
		.large = READ_ONCE(large),
		.ext = true,
		.rtr = READ_ONCE(rtr),
		.ird = KIW_MAX_RD_ATOM,
		.ord = KIW_MAX_RD_ATOM,
		.ird_max = KIW_MAX_RD_ATOM,
	};
	if (su->cfg.rev < KIW_MPA_REV_2)
		su->cfg.p2p = false;
}

/** kiw_responder_sends_first() - a responder doesn't wait for its peer, against RFC 5044 */
bool kiw_responder_sends_first(void)
{
	return READ_ONCE(responder_first);
}

/** kiw_keepalive_secs() - silence after which TCP probes for the peer, in seconds, or 0 */
unsigned int kiw_keepalive_secs(void)
{
	return READ_ONCE(keepalive);
}

/** kiw_connect_secs() - time for TCP and the Reply, in seconds */
unsigned int kiw_connect_secs(void)
{
	return READ_ONCE(connect_timeout);
}

/** kiw_mpa_secs() - time that a responder gives its peer for each step, in seconds */
unsigned int kiw_mpa_secs(void)
{
	return READ_ONCE(mpa_timeout);
}
