// SPDX-License-Identifier: GPL-2.0
/* The order in which a listener reports the Requests of connections that the tests make up */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "cm/priv.h"
#include "cm_library.h"

#define MANY 1024
/* Steps that a connection may cost, whatever others do: those of some searches among MANY */
#define STEPS 200

struct caller {
	struct kiw_ep		ep;
	struct kiw_startup	su;
};

struct fixture {
	struct kiw_listener	l;
	struct iw_cm_id		id;
	struct kiw_ep		*told;
	struct sock		sk;
	struct socket		sock;
	struct caller		*callers;
	unsigned int		used;
};

static int told(struct iw_cm_id *id, struct iw_cm_event *event)
{
	container_of(id, struct fixture, id)->told = event->provider_data;
	return 0;
}

static int queue_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->callers = kvcalloc(2 * MANY, sizeof(*f->callers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->callers);
	mutex_init(&f->l.lock);
	INIT_LIST_HEAD(&f->l.waiting);
	f->l.order = RB_ROOT;
	f->l.next = RB_ROOT_CACHED;
	f->l.max_waiting = U32_MAX;
	f->l.max_told = U32_MAX;
	f->l.id = &f->id;
	refcount_set(&f->l.ep.inbox.ref, 1);
	f->id.event_handler = told;
	f->sock.sk = &f->sk;
	f->sk.sk_family = AF_INET;
	test->priv = f;
	return 0;
}

static void queue_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (f)
		kvfree(f->callers);
}

/* TCP accepts a connection of a host. As long as the test runs, its Request may still come. */
static struct kiw_ep *call(struct kunit *test, u32 host)
{
	struct fixture *f = test->priv;
	struct caller *caller = &f->callers[f->used++];
	struct kiw_ep *ep = &caller->ep;

	KUNIT_ASSERT_LE(test, f->used, 2 * MANY);
	mutex_init(&ep->mutex);
	ep->su = &caller->su;
	ep->sock = &f->sock;
	f->sk.sk_daddr = htonl(host);
	mutex_lock(&ep->mutex);
	KUNIT_EXPECT_TRUE(test, kiw_listener_add(&f->l, ep));
	mutex_unlock(&ep->mutex);
	ep->su->accepted += 3600 * HZ;
	return ep;
}

/* It was so long ago that nobody waits for its Request. */
static struct kiw_ep *call_and_say_nothing(struct kunit *test, u32 host)
{
	struct kiw_ep *ep = call(test, host);

	ep->su->accepted = jiffies - KIW_ORDER_PATIENCE - 1;
	return ep;
}

static void complete_request(struct kiw_ep *ep)
{
	mutex_lock(&ep->mutex);
	kiw_listener_ready(ep);
	mutex_unlock(&ep->mutex);
}

static void leave(struct kiw_ep *ep)
{
	mutex_lock(&ep->mutex);
	kiw_listener_leave(ep);
	mutex_unlock(&ep->mutex);
}

/* Does the user get the Request now? */
static bool tells(struct kunit *test, struct kiw_ep *ep)
{
	struct iw_cm_event event = { .provider_data = ep };
	struct fixture *f = test->priv;
	int err;

	f->told = NULL;
	mutex_lock(&ep->mutex);
	err = kiw_listener_tell(ep, &event);
	mutex_unlock(&ep->mutex);
	KUNIT_EXPECT_TRUE(test, err == 0 || err == -EAGAIN);
	KUNIT_EXPECT_PTR_EQ(test, f->told, err ? NULL : ep);
	return !err;
}

static bool was_notified(struct kiw_ep *ep)
{
	return atomic_long_xchg(&ep->inbox.events, 0) & KIW_EP_SOCKET;
}

static void requests_of_a_host_come_in_its_order(struct kunit *test)
{
	struct kiw_ep *first = call(test, 1), *second = call(test, 1), *third = call(test, 1);

	complete_request(third);
	complete_request(second);
	KUNIT_EXPECT_FALSE(test, tells(test, third));
	KUNIT_EXPECT_FALSE(test, tells(test, second));
	complete_request(first);
	KUNIT_EXPECT_FALSE(test, tells(test, third));
	KUNIT_EXPECT_TRUE(test, was_notified(first));
	KUNIT_EXPECT_TRUE(test, tells(test, first));
	KUNIT_EXPECT_TRUE(test, was_notified(second));
	KUNIT_EXPECT_TRUE(test, tells(test, second));
	KUNIT_EXPECT_TRUE(test, was_notified(third));
	KUNIT_EXPECT_TRUE(test, tells(test, third));
}

static void a_host_waits_for_no_other(struct kunit *test)
{
	struct kiw_ep *first = call(test, 1), *second = call(test, 2), *third = call(test, 1);

	complete_request(third);
	complete_request(second);
	KUNIT_EXPECT_FALSE(test, tells(test, third));
	KUNIT_EXPECT_TRUE(test, tells(test, second));
	leave(first);
	KUNIT_EXPECT_TRUE(test, was_notified(third));
	KUNIT_EXPECT_TRUE(test, tells(test, third));
}

static void the_silent_delay_nobody(struct kunit *test)
{
	struct kiw_ep *silent = call_and_say_nothing(test, 1), *second = call(test, 1);

	complete_request(second);
	KUNIT_EXPECT_TRUE(test, tells(test, second));
	complete_request(silent);
	KUNIT_EXPECT_TRUE(test, tells(test, silent));
	leave(silent);
	leave(second);
}

/* The whole start-up of many connections, beside as many others */
static void many_come(struct kunit *test, u32 host)
{
	unsigned int before = cm_steps;

	for (int i = 0; i < MANY; i++) {
		struct kiw_ep *ep = call(test, host);

		complete_request(ep);
		KUNIT_EXPECT_TRUE(test, tells(test, ep));
		leave(ep);
	}
	KUNIT_EXPECT_GT(test, cm_steps - before, MANY);
	KUNIT_EXPECT_LT(test, cm_steps - before, MANY * STEPS);
}

static void the_silent_cost_the_others_no_steps(struct kunit *test)
{
	for (int i = 0; i < MANY; i++)
		call_and_say_nothing(test, 1);
	many_come(test, 1);
}

static void hosts_cost_each_other_no_steps(struct kunit *test)
{
	for (int i = 0; i < MANY; i++)
		call(test, 2 + i);
	many_come(test, 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(requests_of_a_host_come_in_its_order),
	KUNIT_CASE(a_host_waits_for_no_other),
	KUNIT_CASE(the_silent_delay_nobody),
	KUNIT_CASE(the_silent_cost_the_others_no_steps),
	KUNIT_CASE(hosts_cost_each_other_no_steps),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_queue",
	.init = queue_init,
	.exit = queue_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
