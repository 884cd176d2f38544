// SPDX-License-Identifier: GPL-2.0
/* Who pays for a process, in user namespaces that nobody entered */
#include <kunit/test.h>
#include <linux/cred.h>
#include <linux/user_namespace.h>

#include "payer.h"

#define USER 1000
#define NEIGHBOUR 1001
#define MAPPED 100000	/* the first of a user's subordinate IDs */

/* Who pays for a user's process in nested namespaces, whose owners come from the outermost on */
static uid_t payer_of(struct kunit *test, uid_t uid, const uid_t *owner, size_t n)
{
	struct user_namespace *ns = kunit_kcalloc(test, n + 1, sizeof(*ns), GFP_KERNEL);
	struct cred *cred = kunit_kzalloc(test, sizeof(*cred), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ns);
	KUNIT_ASSERT_NOT_NULL(test, cred);
	for (size_t i = 0; i < n; i++) {
		ns[i + 1].parent = &ns[i];
		ns[i + 1].owner = KUIDT_INIT(owner[i]);
	}
	cred->user_ns = &ns[n];
	cred->uid = KUIDT_INIT(uid);
	return __kuid_val(kiw_payer(cred));
}

#define OWNERS(...) ((const uid_t[]) { __VA_ARGS__ })
#define PAYER(uid, ...) \
	payer_of(test, uid, OWNERS(__VA_ARGS__), ARRAY_SIZE(OWNERS(__VA_ARGS__)))

static void users_pay_for_themselves(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, payer_of(test, USER, NULL, 0), USER);
	KUNIT_EXPECT_EQ(test, payer_of(test, 0, NULL, 0), 0);
}

/* By as many IDs as a user has mapped, the bound would be as many times as large. */
static void makers_pay_for_their_namespaces(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, PAYER(USER, USER), USER);
	KUNIT_EXPECT_EQ(test, PAYER(MAPPED, USER), USER);
	KUNIT_EXPECT_EQ(test, PAYER(MAPPED + 1, USER, MAPPED), USER);
	KUNIT_EXPECT_EQ(test, PAYER(MAPPED + 1, USER, USER, MAPPED), USER);
}

/* The containers of a service that runs as root: their users are strangers to each other. */
static void root_pays_for_nobody(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, PAYER(MAPPED, 0), MAPPED);
	KUNIT_EXPECT_EQ(test, PAYER(MAPPED + NEIGHBOUR, 0), MAPPED + NEIGHBOUR);
	KUNIT_EXPECT_EQ(test, PAYER(0, 0), 0);
	KUNIT_EXPECT_EQ(test, PAYER(NEIGHBOUR, 0, MAPPED), MAPPED);
	KUNIT_EXPECT_EQ(test, PAYER(NEIGHBOUR, USER, 0), USER);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(users_pay_for_themselves),
	KUNIT_CASE(makers_pay_for_their_namespaces),
	KUNIT_CASE(root_pays_for_nobody),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_payer",
	.test_cases = cases,
};

kunit_test_suite(suite);
