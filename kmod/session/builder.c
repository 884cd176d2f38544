// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Payload is copied once into our memory. The CRC is computed from the copy, so nobody can change
 * the bytes that it covers. Markers are inserted while copying.
 */
#include "builder.h"

#include "sq.h"
#include "../proto/crc.h"
#include "../proto/wire.h"

/* PAD, marker, CRC */
#define FPDU_TAIL_MAX (KIW_FPDU_PAD_MAX + KIW_MARKER_SIZE + KIW_FPDU_CRC_SIZE)

/* Append @n private bytes of the wire in one run. */
static int builder_append(struct kiw_builder *f, const void *p, u32 n)
{
	u32 room;
	void *to = kiw_batch_room(f->batch, n, f->gfp, &room);

	if (!to)
		return -ENOMEM;
	memcpy(to, p, n);
	kiw_batch_grow(f->batch, n);
	return 0;
}

static int builder_put_marker(struct kiw_builder *f)
{
	u8 marker[KIW_MARKER_SIZE];

	kiw_marker_put(&f->mk, marker);
	if (f->crc)
		f->sum = kiw_crc_update(f->sum, marker, sizeof(marker));
	return builder_append(f, marker, sizeof(marker));
}

/*
 * Return where the next of @n bytes go, and in @run how many: at least @least unless a marker comes
 * first, more if cheap. Write them before the next append.
 */
static void *builder_room(struct kiw_builder *f, u32 least, u32 n, u32 *run)
{
	u32 room;
	void *to;

	if (unlikely(kiw_marker_due(&f->mk)) && builder_put_marker(f))
		return NULL;
	to = kiw_batch_room(f->batch, least, f->gfp, &room);
	if (to)
		*run = kiw_marker_run(&f->mk, min(n, room));
	return to;
}

static void builder_copy(struct kiw_builder *f, void *to, const void *from, u32 n)
{
	if (f->crc)
		f->sum = kiw_crc_copy(f->sum, to, from, n);
	else
		kiw_batch_copy(to, from, n);
}

int kiw_builder_put(struct kiw_builder *f, const void *p, u32 n)
{
	u32 run;
	void *to;

	for (; n; p += run, n -= run) {
		to = builder_room(f, n, n, &run);
		if (!to)
			return -ENOMEM;
		builder_copy(f, to, p, run);
		kiw_batch_grow(f->batch, run);
	}
	return 0;
}

int kiw_builder_begin(struct kiw_builder *f, bool markers, const void *hdr, u32 hdr_len,
		      u32 payload)
{
	u8 buf[KIW_FPDU_LEN_SIZE + KIW_HDR_MAX];

	kiw_marker_begin(&f->mk, f->batch->offset, markers);
	f->sum = kiw_crc_init();
	f->ulpdu_len = hdr_len + payload;
	f->before = kiw_batch_mark(f->batch);

	put_unaligned_be16(f->ulpdu_len, buf);
	memcpy(buf + KIW_FPDU_LEN_SIZE, hdr, hdr_len);
	return kiw_builder_put(f, buf, KIW_FPDU_LEN_SIZE + hdr_len);
}

int kiw_builder_put_request(struct kiw_builder *f, const struct kiw_send_req *req, u32 off, u32 n,
			    enum kiw_region_fault *fault)
{
	const struct kiw_sge *sge = req->sge;
	u32 part;
	int ret;

	if (req->wqe.flags & KIW_WQE_INLINE)
		return kiw_builder_put(f, req->inline_data + off, n);
	for (; n; sge++) {
		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		part = min(n, sge->length - off);
		ret = kiw_builder_put_region(f, sge->lkey, 0, sge->addr + off, part, fault);
		if (ret)
			return ret;
		off = 0;
		n -= part;
	}
	return 0;
}

int kiw_builder_end(struct kiw_builder *f)
{
	u8 buf[FPDU_TAIL_MAX] = {};
	__le32 crc = 0;
	u32 n;
	int ret;

	/* PAD ends where a marker may stand, so none comes before its end. */
	n = kiw_marker_run(&f->mk, kiw_fpdu_pad(f->ulpdu_len));
	if (unlikely(kiw_marker_due(&f->mk))) {
		kiw_marker_put(&f->mk, buf + n);
		n += KIW_MARKER_SIZE;
	}
	if (f->crc)
		crc = kiw_crc_wire(kiw_crc_update(f->sum, buf, n));
	memcpy(buf + n, &crc, sizeof(crc));
	ret = builder_append(f, buf, n + KIW_FPDU_CRC_SIZE);
	if (!ret)
		f->batch->fpdus++;
	return ret;
}

int kiw_builder_begin_datagram(struct kiw_builder *f, const void *hdr, u32 hdr_len)
{
	f->crc = true;
	f->loan = NULL;
	kiw_marker_begin(&f->mk, f->batch->offset, false);
	f->sum = kiw_crc_init();
	f->before = kiw_batch_mark(f->batch);
	return kiw_builder_put(f, hdr, hdr_len);
}

int kiw_builder_end_datagram(struct kiw_builder *f)
{
	__le32 crc = kiw_crc_wire(f->sum);

	return builder_append(f, &crc, sizeof(crc));
}

static int builder_copy_region(struct kiw_builder *f, u32 stag, int access, u64 addr, u32 n,
			       enum kiw_region_fault *fault)
{
	u32 part, chunk;
	void *to, *from;

	while (n) {
		to = builder_room(f, 1, n, &part);
		if (!to)
			return -ENOMEM;
		*fault = kiw_region_go_on(f->owner, stag, access, addr, part, &f->batch->use);
		if (*fault)
			return -EFAULT;
		for (u32 done = 0; done < part; done += chunk) {
			chunk = part - done;
			from = kiw_region_chunk(f->batch->use.region, addr + done, &chunk);
			builder_copy(f, to + done, from, chunk);
			kiw_region_unmap(from);
		}
		kiw_region_set_aside(&f->batch->use);
		kiw_batch_grow(f->batch, part);
		addr += part;
		n -= part;
	}
	return 0;
}

/* Return: 0, -EFAULT, or -EAGAIN if the loan refuses the region. */
static int builder_lend_region(struct kiw_builder *f, u32 stag, int access, u64 addr, u32 n,
			       enum kiw_region_fault *fault)
{
	struct kiw_region_use use;
	int ret = 0;

	*fault = kiw_region_begin(f->owner, stag, access, addr, n, &use);
	if (*fault)
		return -EFAULT;
	if (kiw_loan_use(f->loan, use.region, addr, n))
		kiw_batch_lend(f->batch, use.region, addr, n);
	else
		ret = -EAGAIN;
	kiw_region_end(&use);
	return ret;
}

int kiw_builder_put_region(struct kiw_builder *f, u32 stag, int access, u64 addr, u32 n,
			   enum kiw_region_fault *fault)
{
	int ret = -EAGAIN;

	if (f->loan)
		ret = builder_lend_region(f, stag, access, addr, n, fault);
	if (ret == -EAGAIN)
		ret = builder_copy_region(f, stag, access, addr, n, fault);
	return ret;
}
