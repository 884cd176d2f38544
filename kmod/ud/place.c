// SPDX-License-Identifier: GPL-2.0
#include "place.h"

#include "proto/dgram.h"

void kiw_ud_source_open(struct kiw_ud_source *src, const struct kiw_ud_packet *packet,
			const struct kiw_dgram *d)
{
	u32 from = packet->from + d->hdr_len;

	skb_prepare_seq_read(packet->skb, from, from + d->payload_len, &src->walk);
	src->use = packet->use;
	src->p = NULL;
	src->n = 0;
	src->done = 0;
}

/* Map the bytes before the region: mappings are released in reverse order. */
static bool place_fill(struct kiw_ud_source *src)
{
	if (!src->n) {
		src->n = skb_seq_read(src->done, &src->p, &src->walk);
		src->done += src->n;
	}
	return src->n;
}

enum kiw_region_fault kiw_ud_place(const struct kiw_owner *owner, struct kiw_ud_source *src,
				   u32 stag, int access, u64 addr, u32 n)
{
	enum kiw_region_fault fault;
	u32 chunk;
	void *to;

	fault = kiw_region_go_on(owner, stag, access, addr, n, src->use);
	if (fault)
		return fault;
	for (; n && place_fill(src); n -= chunk, addr += chunk) {
		chunk = min(n, src->n);
		to = kiw_region_chunk(src->use->region, addr, &chunk);
		memcpy(to, src->p, chunk);
		kunmap_local(to);
		src->p += chunk;
		src->n -= chunk;
	}
	kiw_region_set_aside(src->use);
	/* The walk ends early only if a datagram is shorter than UDP says. */
	WARN_ON_ONCE(n);
	return KIW_REGION_OK;
}
