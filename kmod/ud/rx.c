// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams from UDP's queue. Header, CRC, then Q_Key are checked before any byte is placed. A
 * datagram that fails is counted and dropped without an answer; the QP goes on.
 */
#include "rx.h"

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "srq.h"
#include "ud.h"
#include "place.h"
#include "record.h"
#include "proto/crc.h"
#include "proto/dgram.h"

/* Next header of a GRH on InfiniBand */
#define UDRX_NEXTHDR_IB 0x1b

/* --- judging -------------------------------------------------------------------------------- */

static bool udrx_crc_good(const struct kiw_ud_packet *packet)
{
	u32 covered = packet->len - KIW_DGRAM_CRC_SIZE, done, n;
	u32 end = packet->from + covered;
	u32 crc = kiw_crc_init();
	struct skb_seq_state walk;
	__le32 wire;
	const u8 *p;

	skb_prepare_seq_read(packet->skb, packet->from, end, &walk);
	for (done = 0; done < covered; done += n) {
		/* It may return more than requested. */
		n = min(skb_seq_read(done, &p, &walk), covered - done);
		if (!n)
			break;
		crc = kiw_crc_update(crc, p, n);
	}
	skb_abort_seq_read(&walk);
	return done == covered && !skb_copy_bits(packet->skb, end, &wire, sizeof(wire)) &&
	       wire == kiw_crc_wire(crc);
}

/*
 * Was it sent to an address of this host alone? Then IPv4 would answer from that address. Only the
 * QP's own socket gets this information.
 */
static bool udrx_is_unicast(const struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IPV6))
		return !ipv6_addr_is_multicast(&ipv6_hdr(skb)->daddr);
	return PKTINFO_SKB_CB(skb)->ipi_spec_dst.s_addr == ip_hdr(skb)->daddr;
}

/* Return: the counter of dropped datagrams to increase, or KIW_STAT_NUM. */
static enum kiw_stat udrx_judge(const struct kiw_ud_packet *packet, struct kiw_dgram *d)
{
	u8 buf[KIW_DGRAM_HDR_MAX];
	const u8 *hdr;

	hdr = skb_header_pointer(packet->skb, packet->from, min_t(u32, packet->len, sizeof(buf)),
				 buf);
	if (!hdr)
		return KIW_STAT_UD_MALFORMED;
	switch (kiw_dgram_parse(hdr, packet->len, d)) {
	case KIW_DGRAM_OK:
		break;
	case KIW_DGRAM_MALFORMED:
		return KIW_STAT_UD_MALFORMED;
	case KIW_DGRAM_OTHER_VERSION:
		return KIW_STAT_UD_VERSIONS;
	}
	return udrx_crc_good(packet) ? KIW_STAT_NUM : KIW_STAT_UD_CRC_ERRORS;
}

/* --- placing -------------------------------------------------------------------------------- */

/*
 * Build the header before the message: IP's in the form of InfiniBand's GRH, an IPv4 header as one
 * of IPv6 with mapped addresses. ibv_create_ah_from_wc() understands this form; it takes any other
 * for RoCE's and looks for a GID of RoCE.
 */
static void udrx_grh(const struct kiw_ud_packet *packet, struct ipv6hdr *grh)
{
	const struct sk_buff *skb = packet->skb;
	const struct iphdr *four;

	BUILD_BUG_ON(sizeof(*grh) != KIW_GRH_LEN);
	if (skb->protocol == htons(ETH_P_IPV6)) {
		*grh = *ipv6_hdr(skb);
	} else {
		four = ip_hdr(skb);
		ip6_flow_hdr(grh, four->tos, 0);
		grh->hop_limit = four->ttl;
		ipv6_addr_set_v4mapped(four->saddr, &grh->saddr);
		ipv6_addr_set_v4mapped(four->daddr, &grh->daddr);
	}
	grh->payload_len = htons(sizeof(struct udphdr) + packet->len);
	grh->nexthdr = UDRX_NEXTHDR_IB;
}

static bool udrx_to_list(const struct kiw_owner *owner, struct kiw_ud_source *src,
			 const struct kiw_sge *sge, u32 len)
{
	u32 part;

	for (; len; len -= part, sge++) {
		part = min(len, sge->length);
		if (part && kiw_ud_place(owner, src, sge->lkey, IB_ACCESS_LOCAL_WRITE, sge->addr,
					 part))
			return false;
	}
	return true;
}

static bool udrx_place(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
		       const struct kiw_dgram *d)
{
	struct kiw_ud_source src;
	struct ipv6hdr grh;
	bool placed;

	udrx_grh(packet, &grh);
	kiw_ud_source_open(&src, packet, d);
	/* Before the message */
	src.p = (const u8 *)&grh;
	src.n = KIW_GRH_LEN;
	placed = udrx_to_list(&ud->core->own, &src, ud->recv.sge, KIW_GRH_LEN + d->payload_len);
	kiw_ud_source_close(&src);
	return placed;
}

/* --- receiving ------------------------------------------------------------------------------ */

/* Return: as kiw_ud_receive(). */
static bool udrx_complete(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
			  const struct kiw_dgram *d)
{
	struct kiw_stats *stats = &ud->dev->stats;
	struct kiw_recv_req *recv = &ud->recv;
	struct kiw_received received = {
		.len = KIW_GRH_LEN + d->payload_len,
		.op = KIW_WR_RECV,
		.flags = KIW_CQE_GRH | (d->solicited ? KIW_CQE_SOLICITED : 0) |
			 (d->has_imm ? KIW_CQE_WITH_IMM : 0),
		.imm = d->imm,
	};

	if (received.len > recv->room) {
		kiw_stat_inc(stats, KIW_STAT_UD_TOO_LONG);
		return kiw_rq_fail(&ud->core->rq, recv, IB_WC_LOC_LEN_ERR);
	}
	if (!udrx_place(ud, packet, d)) {
		kiw_stat_inc(stats, KIW_STAT_UD_BAD_RECEIVES);
		return kiw_rq_fail(&ud->core->rq, recv, IB_WC_LOC_PROT_ERR);
	}
	kiw_traffic_received(stats, packet->len, 1);
	received.from = ntohs(udp_hdr(packet->skb)->source);
	return kiw_rq_complete(&ud->core->rq, recv, &received);
}

static enum kiw_take udrx_take(struct kiw_ud *ud)
{
	enum kiw_take take = kiw_rq_take(&ud->core->rq, &ud->recv);

	if (take == KIW_TAKE_NONE && ud->ibqp->srq)
		take = kiw_srq_take(to_kiw_srq(ud->ibqp->srq), NULL, &ud->recv);
	return take;
}

static bool udrx_deliver(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
			 const struct kiw_dgram *d)
{
	struct kiw_stats *stats = &ud->dev->stats;

	lockdep_assert_held(&ud->lock);
	if (ud->state != IB_QPS_RTR && ud->state != IB_QPS_RTS) {
		kiw_stat_inc(stats, KIW_STAT_UD_NOT_READY);
		return true;
	}
	if (d->qkey != ud->qkey) {
		kiw_stat_inc(stats, KIW_STAT_UD_QKEY_ERRORS);
		return true;
	}
	/* Broadcasts, and groups of other sockets */
	if (packet->own && !udrx_is_unicast(packet->skb)) {
		kiw_stat_inc(stats, KIW_STAT_UD_STRAYS);
		return true;
	}
	/* The program cannot receive immediate data. */
	if (d->has_imm && !(ud->core->caps & KIW_CAP_IMM)) {
		kiw_stat_inc(stats, KIW_STAT_UD_MALFORMED);
		return true;
	}
	if (d->is_write)
		return kiw_ud_record(ud, packet, d);
	switch (udrx_take(ud)) {
	case KIW_TAKE_ONE:
		return udrx_complete(ud, packet, d);
	case KIW_TAKE_BAD:
		kiw_stat_inc(stats, KIW_STAT_UD_BAD_RECEIVES);
		return kiw_rq_fail(&ud->core->rq, &ud->recv, IB_WC_LOC_QP_OP_ERR);
	case KIW_TAKE_RING:
		kiw_stat_inc(stats, KIW_STAT_RING_ERRORS);
		return false;
	case KIW_TAKE_NONE:
		break;
	}
	kiw_stat_inc(stats, KIW_STAT_UD_NO_RECEIVES);
	return true;
}

/* Return: as kiw_ud_receive(). */
static bool udrx_receive(struct kiw_ud *ud, const struct kiw_ud_packet *packet)
{
	enum kiw_stat dropped;
	struct kiw_dgram d;
	bool whole = true;

	dropped = udrx_judge(packet, &d);
	spin_lock(&ud->lock);
	if (!ud->open)
		goto out;
	if (dropped == KIW_STAT_NUM)
		whole = udrx_deliver(ud, packet, &d);
	else
		kiw_stat_inc(&ud->dev->stats, dropped);
out:
	spin_unlock(&ud->lock);
	return whole;
}

bool kiw_ud_receive(struct kiw_ud *ud, struct sk_buff *skb, bool own)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	u32 size = info->gso_type & SKB_GSO_UDP_L4 ? info->gso_size : skb->len;
	struct kiw_region_use use = {};
	struct kiw_ud_packet packet = { .skb = skb, .own = own, .use = &use };
	bool whole;

	do {
		packet.len = min(size, skb->len - packet.from);
		whole = udrx_receive(ud, &packet);
		packet.from += packet.len;
	} while (whole && packet.from < skb->len);
	kiw_region_leave(&use);
	return whole;
}
