// SPDX-License-Identifier: GPL-2.0
/* What an idle connection takes of the module's memory, besides its rings */
#include <kunit/test.h>
#include <linux/slab.h>

#include "cm/priv.h"
#include "qp.h"
#include "stream.h"

/* kmalloc() rounds up to its next size: one byte too many may double it. */
static void idle_connections_are_small(struct kunit *test)
{
	/* The bounds are those of kernels that users run; debugging makes each lock longer. */
	if (IS_ENABLED(CONFIG_DEBUG_SPINLOCK) || IS_ENABLED(CONFIG_PREEMPT_RT) ||
	    SMP_CACHE_BYTES > 64)
		kunit_skip(test, "locks or cache lines are longer than usual");
	KUNIT_EXPECT_LE(test, kmalloc_size_roundup(sizeof(struct kiw_ep)), 256);
	KUNIT_EXPECT_LE(test, kmalloc_size_roundup(sizeof(struct kiw_qp)), 512);
	KUNIT_EXPECT_LE(test, kmalloc_size_roundup(sizeof(struct kiw_core)), 192);
	KUNIT_EXPECT_LE(test, sizeof(struct kiw_stream), 1152);
	/* Only during the start-up */
	KUNIT_EXPECT_LE(test, kmalloc_size_roundup(sizeof(struct kiw_startup)), 2048);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(idle_connections_are_small),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_size",
	.test_cases = cases,
};

kunit_test_suite(suite);
