/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that the peer's TCP has acknowledged. TCP numbers bytes, not requests: a mark notes the
 * number after the last byte of some requests.
 */
#ifndef KIW_PROTO_ACKS_H
#define KIW_PROTO_ACKS_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks of a session; when all are in use, the last covers all later requests too */
#define KIW_ACKS_MARKS 16

/* Requests before @index are acknowledged once all bytes before @seq are. */
struct kiw_acks_mark {
	u32	index;
	u32	seq;
};

/* Bytes of &kiw_acks.mark */
#define KIW_ACKS_LEN	(KIW_ACKS_MARKS * sizeof(struct kiw_acks_mark))

/*
 * Requests that wait for acknowledgment: a ring of @num marks from @first on.
 * @mark: room for %KIW_ACKS_MARKS; NULL: kiw_acks_add() is never called
 */
struct kiw_acks {
	u8			first;
	u8			num;
	struct kiw_acks_mark	*mark;
};

/** kiw_acks_add() - requests before @index end before TCP sequence number @seq */
static inline void kiw_acks_add(struct kiw_acks *acks, u32 index, u32 seq)
{
	u8 slot;

	if (acks->num < KIW_ACKS_MARKS)
		acks->num++;
	slot = (acks->first + acks->num - 1) % KIW_ACKS_MARKS;
	acks->mark[slot].index = index;
	acks->mark[slot].seq = seq;
}

/** kiw_acks_any() - would kiw_acks_take() change its index */
static inline bool kiw_acks_any(const struct kiw_acks *acks, u32 una)
{
	return acks->num && (int)(una - acks->mark[acks->first].seq) >= 0;
}

/** kiw_acks_take() - drop marks before byte @una; requests before *@index are acknowledged */
static inline void kiw_acks_take(struct kiw_acks *acks, u32 una, u32 *index)
{
	for (; kiw_acks_any(acks, una); acks->num--) {
		*index = acks->mark[acks->first].index;
		acks->first = (acks->first + 1) % KIW_ACKS_MARKS;
	}
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_PROTO_ACKS_H */
