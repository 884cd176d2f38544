// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

MODULE_DESCRIPTION("KUnit tests of kiwarp's kernel verbs");
MODULE_LICENSE("GPL");
