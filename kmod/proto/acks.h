/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which send requests has the peer's TCP acknowledged? TCP numbers bytes, and knows no requests: a
 * mark notes the number behind the last byte of some.
 */
#ifndef KIW_PROTO_ACKS_H
#define KIW_PROTO_ACKS_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks of a session: when all are in use, the last one stands for all that is sent later, too. */
#define KIW_ACKS_MARKS 16

/**
 * struct kiw_acks - the requests that wait for an acknowledgment
 * @first: slot of the oldest mark
 * @num: marks in use
 * @mark: ring of them. @index: requests before this are acknowledged, as soon as all bytes before
 *	@seq are
 */
struct kiw_acks {
	u8	first;
	u8	num;
	struct kiw_acks_mark {
		u32	index;
		u32	seq;
	} mark[KIW_ACKS_MARKS];
};

/** kiw_acks_add() - the requests before @index end before byte @seq of TCP's numbers */
static inline void kiw_acks_add(struct kiw_acks *acks, u32 index, u32 seq)
{
	u8 slot;

	if (acks->num < KIW_ACKS_MARKS)
		acks->num++;
	slot = (acks->first + acks->num - 1) % KIW_ACKS_MARKS;
	acks->mark[slot].index = index;
	acks->mark[slot].seq = seq;
}

/** kiw_acks_any() - has anything been acknowledged that kiw_acks_take() would tell of */
static inline bool kiw_acks_any(const struct kiw_acks *acks, u32 una)
{
	return acks->num && (int)(una - acks->mark[acks->first].seq) >= 0;
}

/**
 * kiw_acks_take() - forget the marks of what is acknowledged
 * @acks: marks
 * @una: the oldest byte that is not, in TCP's numbers
 * @index: requests before it are acknowledged; stays as it is if there is no news
 */
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
