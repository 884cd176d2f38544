// SPDX-License-Identifier: GPL-2.0
/* Requests by number that wait for their QP */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "cm/priv.h"
#include "cm_library.h"

#define MANY 1024
/* Steps that a QP may take, whatever strangers do: those of some searches among MANY */
#define STEPS 100

struct caller {
	struct kiw_ep		ep;
	struct kiw_startup	su;
};

struct fixture {
	struct kiw_device	*dev;
	struct kiw_peer		peer;
	struct caller		*callers;
	unsigned int		used;
};

static int early_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->dev = kunit_kzalloc(test, sizeof(*f->dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->dev);
	f->callers = kvcalloc(2 * MANY, sizeof(*f->callers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->callers);
	spin_lock_init(&f->dev->ep_lock);
	f->dev->number.early = RB_ROOT;
	f->peer = (struct kiw_peer){
		.local = in6addr_loopback,
		.remote = in6addr_loopback,
		.ends = { .from = 0x10001, .to = 0x10002, .sq_psn = 3, .rq_psn = 4 },
	};
	return 0;
}

static void early_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (f)
		kvfree(f->callers);
}

/* The Request of the QP's peer, if it may send */
static struct kiw_number_said truth(void)
{
	return (struct kiw_number_said){ .from = 0x10002, .to = 0x10001, .psn = 4, .ready = true };
}

/* A Request waits for its QP. */
static struct kiw_ep *say(struct kunit *test, const struct kiw_number_said *said,
			  const struct in6_addr *remote)
{
	struct fixture *f = test->priv;
	struct caller *caller = &f->callers[f->used++];
	struct kiw_ep *ep = &caller->ep;

	KUNIT_ASSERT_LE(test, f->used, 2 * MANY);
	mutex_init(&ep->mutex);
	ep->dev = f->dev;
	ep->su = &caller->su;
	mutex_lock(&ep->mutex);
	kiw_early_add(ep, said, &in6addr_loopback, remote);
	mutex_unlock(&ep->mutex);
	return ep;
}

static void remove_request(struct kiw_ep *ep)
{
	mutex_lock(&ep->mutex);
	kiw_early_remove(ep);
	mutex_unlock(&ep->mutex);
}

static bool is_told(struct kiw_ep *ep)
{
	return atomic_long_xchg(&ep->inbox.events, 0) & KIW_INBOX_READY;
}

static void a_qp_finds_its_peer_alone(struct kunit *test)
{
	struct kiw_number_said said = truth(), to = truth(), from = truth(), psn = truth();
	struct fixture *f = test->priv;
	struct kiw_ep *good = say(test, &said, &in6addr_loopback), *bad[4];

	to.to++;
	from.from++;
	psn.psn = f->peer.ends.sq_psn;
	bad[0] = say(test, &to, &in6addr_loopback);
	bad[1] = say(test, &from, &in6addr_loopback);
	bad[2] = say(test, &psn, &in6addr_loopback);
	bad[3] = say(test, &said, &in6addr_any);
	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_TRUE(test, is_told(good));
	for (int i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_FALSE(test, is_told(bad[i]));
	remove_request(good);
	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_FALSE(test, is_told(good));
}

/* Until then the ends share no PSN. */
static void a_qp_that_is_ready_finds_one_that_is_not(struct kunit *test)
{
	struct kiw_number_said said = truth();
	struct fixture *f = test->priv;
	struct kiw_ep *ep;

	said.ready = false;
	said.psn = f->peer.ends.sq_psn;
	ep = say(test, &said, &in6addr_loopback);
	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_FALSE(test, is_told(ep));
	f->peer.ends.ready = true;
	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_TRUE(test, is_told(ep));
}

static void all_attempts_of_the_peer_are_found(struct kunit *test)
{
	struct kiw_number_said said = truth();
	struct fixture *f = test->priv;
	struct kiw_ep *first = say(test, &said, &in6addr_loopback);
	struct kiw_ep *second = say(test, &said, &in6addr_loopback);

	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_TRUE(test, is_told(first));
	KUNIT_EXPECT_TRUE(test, is_told(second));
}

/* They know all but the PSN. */
static void strangers_cost_a_qp_no_steps(struct kunit *test)
{
	struct kiw_number_said said = truth();
	struct fixture *f = test->priv;
	struct kiw_ep *good = say(test, &said, &in6addr_loopback);
	unsigned int before;

	for (int i = 0; i < MANY; i++) {
		said.psn = 100 + i;
		say(test, &said, &in6addr_loopback);
	}
	before = cm_steps;
	kiw_early_tell(f->dev, &f->peer);
	KUNIT_EXPECT_TRUE(test, is_told(good));
	KUNIT_EXPECT_GT(test, cm_steps, before);
	KUNIT_EXPECT_LT(test, cm_steps - before, STEPS);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_qp_finds_its_peer_alone),
	KUNIT_CASE(a_qp_that_is_ready_finds_one_that_is_not),
	KUNIT_CASE(all_attempts_of_the_peer_are_found),
	KUNIT_CASE(strangers_cost_a_qp_no_steps),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_early",
	.init = early_init,
	.exit = early_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
