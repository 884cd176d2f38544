/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Builds one FPDU (RFC 5044 sections 4 and 5) at the end of a batch: length, ULPDU, PAD, CRC,
 * markers; or one datagram: header, payload, CRC.
 */
#ifndef KIW_SESSION_BUILDER_H
#define KIW_SESSION_BUILDER_H

#include "port.h"
#include "../proto/fpdu.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_loan;
struct kiw_send_req;

/*
 * An FPDU under construction, on the stack. An FPDU that TCP holds nothing of can be cut off the
 * batch again, if memory or a region is missing.
 * @owner: queue pair with the regions of the payload
 * @loan: lends pages of regions to TCP; NULL: copy
 * @mk: next marker
 * @sum: CRC so far
 * @before: end of the batch before the FPDU
 */
struct kiw_builder {
	struct kiw_batch	*batch;
	const struct kiw_owner	*owner;
	gfp_t			gfp;
	struct kiw_loan		*loan;
	bool			crc;
	struct kiw_marker	mk;
	u32			sum;
	u32			ulpdu_len;
	struct kiw_batch_mark	before;
};

/**
 * kiw_builder_begin() - begin an FPDU
 * @f: builder with @batch, @owner, @gfp and @crc set; set @loan before any payload
 * @markers: send markers
 * @hdr: DDP and RDMAP headers
 * @hdr_len: bytes at @hdr, at most %KIW_HDR_MAX
 * @payload: bytes that will follow
 *
 * Return: 0 or -ENOMEM, as all functions below.
 */
int kiw_builder_begin(struct kiw_builder *f, bool markers, const void *hdr, u32 hdr_len,
		      u32 payload);

/** kiw_builder_put() - append @n (few) bytes to the ULPDU; reads each once */
int kiw_builder_put(struct kiw_builder *f, const void *p, u32 n);

/**
 * kiw_builder_put_region() - append bytes of a region to the ULPDU
 * @f: builder
 * @stag: region
 * @access: IB_ACCESS_* needed; 0: local
 * @addr: first byte, in the region's addresses
 * @n: bytes
 * @fault: with -EFAULT, the reason
 *
 * Checks each run by itself. Looks the region up again only if it is not the batch's last one.
 *
 * Return: 0, -ENOMEM or -EFAULT.
 */
int kiw_builder_put_region(struct kiw_builder *f, u32 stag, int access, u64 addr, u32 n,
			   enum kiw_region_fault *fault);

/**
 * kiw_builder_put_request() - append payload of a request
 * @f: builder
 * @req: request with inline data or local buffers
 * @off: first byte
 * @n: bytes, at most the rest of the request
 * @fault: as in kiw_builder_put_region()
 *
 * Return: 0, -ENOMEM or -EFAULT.
 */
int kiw_builder_put_request(struct kiw_builder *f, const struct kiw_send_req *req, u32 off, u32 n,
			    enum kiw_region_fault *fault);

int kiw_builder_end(struct kiw_builder *f);

/** kiw_builder_begin_datagram() - begin a datagram, with @hdr_len bytes of header */
int kiw_builder_begin_datagram(struct kiw_builder *f, const void *hdr, u32 hdr_len);

int kiw_builder_end_datagram(struct kiw_builder *f);

/** kiw_builder_undo() - cut the FPDU off the batch */
static inline void kiw_builder_undo(struct kiw_builder *f)
{
	kiw_batch_cut(f->batch, &f->before);
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_BUILDER_H */
