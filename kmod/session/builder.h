/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Building one FPDU (RFC 5044 sections 4 and 5) at the end of a batch: length, ULPDU, PAD, CRC and
 * markers; or one datagram, which has neither length nor PAD nor markers. It knows neither stream
 * nor socket.
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

/**
 * struct kiw_builder - an FPDU under construction; on the stack
 * @batch: what it is added to; can be cut back as long as TCP has nothing of the FPDU: memory may
 *	run out, or a region may be gone in the middle
 * @owner: queue pair; the payload comes from its regions
 * @gfp: how to allocate
 * @loan: registered pages become part of the batch as they are; NULL: they are copied
 * @crc: the CRC field is the CRC, else it is 0
 * @mk: where the next marker is
 * @sum: CRC so far
 * @ulpdu_len: ULPDU_Length
 * @before: where the batch ended before the FPDU
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
 * kiw_fpdu_begin() - begin an FPDU
 * @f: builder with @batch, @owner, @gfp and @crc set; @loan before any payload
 * @markers: there are markers between the bytes
 * @hdr: DDP and RDMAP headers
 * @hdr_len: bytes at @hdr, at most %KIW_HDR_MAX
 * @payload: bytes that will follow
 *
 * Return: 0 or -ENOMEM, as that of all following.
 */
int kiw_fpdu_begin(struct kiw_builder *f, bool markers, const void *hdr, u32 hdr_len, u32 payload);

/** kiw_fpdu_put() - append @n bytes at @p to the ULPDU, few of them; each is read once */
int kiw_fpdu_put(struct kiw_builder *f, const void *p, u32 n);

/**
 * kiw_fpdu_put_region() - append bytes of a region to the ULPDU
 * @f: builder
 * @stag: region
 * @access: IB_ACCESS_* that is needed, 0 for what is local
 * @addr: first byte, as the region counts them
 * @n: how many
 * @fault: with -EFAULT, what is wrong with the region
 *
 * Each run of bytes is checked by itself. The region is looked up again only where it isn't the one
 * that the batch copied from last.
 *
 * Return: 0, -ENOMEM or -EFAULT.
 */
int kiw_fpdu_put_region(struct kiw_builder *f, u32 stag, int access, u64 addr, u32 n,
			enum kiw_region_fault *fault);

/**
 * kiw_fpdu_put_request() - append bytes of a request's payload
 * @f: builder
 * @req: request, of whose data or local buffers
 * @off: first byte
 * @n: how many, not more than the request has from there
 * @fault: as in kiw_fpdu_put_region()
 *
 * Return: 0, -ENOMEM or -EFAULT.
 */
int kiw_fpdu_put_request(struct kiw_builder *f, const struct kiw_send_req *req, u32 off, u32 n,
			 enum kiw_region_fault *fault);

/** kiw_fpdu_end() - append PAD and CRC: the FPDU is part of the batch */
int kiw_fpdu_end(struct kiw_builder *f);

/**
 * kiw_fpdu_begin_datagram() - begin a datagram in place of an FPDU; it has a CRC
 * @f: builder with @batch, @owner and @gfp set
 * @hdr: its header
 * @hdr_len: bytes at @hdr
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_fpdu_begin_datagram(struct kiw_builder *f, const void *hdr, u32 hdr_len);

/** kiw_fpdu_end_datagram() - append the CRC: the datagram is part of the batch */
int kiw_fpdu_end_datagram(struct kiw_builder *f);

/** kiw_fpdu_undo() - drop it; the batch is as it was before kiw_fpdu_begin() */
static inline void kiw_fpdu_undo(struct kiw_builder *f)
{
	kiw_batch_cut(f->batch, &f->before);
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_BUILDER_H */
