/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Protocol errors, with the value that a Terminate carries: layer, error type, code (RFC 5040
 * section 4.8, RFC 5041 section 7.2, RFC 5044 section 8, RFC 6580 section 3).
 */
#ifndef KIW_PROTO_VERDICT_H
#define KIW_PROTO_VERDICT_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIW_LAYER_RDMAP 0
#define KIW_LAYER_DDP 1
#define KIW_LAYER_LLP 2

#define KIW_ETYPE_LOCAL 0 /* layers RDMAP and DDP */
#define KIW_ETYPE_PROTECTION 1 /* layer RDMAP */
#define KIW_ETYPE_OPERATION 2 /* layer RDMAP */
#define KIW_ETYPE_TAGGED 1 /* layer DDP */
#define KIW_ETYPE_UNTAGGED 2 /* layer DDP */
#define KIW_ETYPE_MPA 0 /* layer LLP */
#define KIW_ETYPE_MPA_ALT 3 /* layer LLP, as much hardware sends it */

#define KIW_ERR(layer, etype, code) ((layer) << 12 | (etype) << 8 | (code))

/*
 * An error of the peer, or a local breakdown. RDMAP's "local catastrophic" leaves the code open;
 * 0xff keeps it apart from %KIW_OK.
 */
enum kiw_err {
	KIW_OK = 0,

	/* RDMAP, local catastrophic */
	KIW_ERR_LOCAL_CATASTROPHE = KIW_ERR(0, 0, 0xff),

	/* RDMAP, remote protection */
	KIW_ERR_RDMAP_STAG = KIW_ERR(0, 1, 0x00),
	KIW_ERR_RDMAP_BOUNDS = KIW_ERR(0, 1, 0x01),
	KIW_ERR_RDMAP_ACCESS = KIW_ERR(0, 1, 0x02),
	KIW_ERR_RDMAP_PD = KIW_ERR(0, 1, 0x03),
	KIW_ERR_RDMAP_WRAP = KIW_ERR(0, 1, 0x04),
	KIW_ERR_RDMAP_INVAL = KIW_ERR(0, 1, 0x09),

	/* RDMAP, remote operation */
	KIW_ERR_RDMAP_VERSION = KIW_ERR(0, 2, 0x05),
	KIW_ERR_RDMAP_OPCODE = KIW_ERR(0, 2, 0x06),
	KIW_ERR_RDMAP_CATASTROPHE = KIW_ERR(0, 2, 0x07), /* this stream */
	KIW_ERR_RDMAP_GLOBAL = KIW_ERR(0, 2, 0x08), /* all streams */
	KIW_ERR_RDMAP_CANT_INVAL = KIW_ERR(0, 2, 0x09),
	KIW_ERR_RDMAP_UNSPECIFIED = KIW_ERR(0, 2, 0xff),

	/* DDP, local catastrophic */
	KIW_ERR_DDP_CATASTROPHE = KIW_ERR(1, 0, 0x00),

	/* DDP, tagged buffer */
	KIW_ERR_DDP_STAG = KIW_ERR(1, 1, 0x00),
	KIW_ERR_DDP_BOUNDS = KIW_ERR(1, 1, 0x01),
	KIW_ERR_DDP_PD = KIW_ERR(1, 1, 0x02),
	KIW_ERR_DDP_WRAP = KIW_ERR(1, 1, 0x03),
	KIW_ERR_DDP_TVERSION = KIW_ERR(1, 1, 0x04),

	/* DDP, untagged buffer */
	KIW_ERR_DDP_QN = KIW_ERR(1, 2, 0x01),
	KIW_ERR_DDP_NOBUF = KIW_ERR(1, 2, 0x02),
	KIW_ERR_DDP_MSN = KIW_ERR(1, 2, 0x03),
	KIW_ERR_DDP_MO = KIW_ERR(1, 2, 0x04),
	KIW_ERR_DDP_TOOLONG = KIW_ERR(1, 2, 0x05),
	KIW_ERR_DDP_UVERSION = KIW_ERR(1, 2, 0x06),

	/* MPA. After LOST and FRAME no Terminate can be sent. */
	KIW_ERR_LLP_LOST = KIW_ERR(2, 0, 0x01),
	KIW_ERR_LLP_CRC = KIW_ERR(2, 0, 0x02),
	KIW_ERR_LLP_MARKER = KIW_ERR(2, 0, 0x03),
	KIW_ERR_LLP_FRAME = KIW_ERR(2, 0, 0x04),
	KIW_ERR_LLP_LOCAL = KIW_ERR(2, 0, 0x05),
	KIW_ERR_LLP_IRD = KIW_ERR(2, 0, 0x06),
	KIW_ERR_LLP_RTR = KIW_ERR(2, 0, 0x07),
};

/* An error as fields of a Terminate. A peer may send any 4-bit @layer and @etype. */
struct kiw_term {
	u8 layer;
	u8 etype;
	u8 code;
};

/** kiw_err_term() - split an error into fields of a Terminate */
static inline struct kiw_term kiw_err_term(enum kiw_err err)
{
	struct kiw_term t = {
		.layer = (u8)(err >> 12 & 0xf),
		.etype = (u8)(err >> 8 & 0xf),
		.code = (u8)(err & 0xff),
	};

	return t;
}

#ifdef __cplusplus
}
#endif

#endif
