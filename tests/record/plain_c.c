// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The header of direct verbs in C11. */
#include "kiwarpdv.h"

/* Returns the bytes that are missing, by a function of C. */
static int add(void *argument, uint64_t addr, uint32_t length)
{
	(void)addr;
	*(uint64_t *)argument += length;
	return 0;
}

uint64_t missing_in_c(const struct kiwarpdv_record *record);
uint64_t missing_in_c(const struct kiwarpdv_record *record)
{
	uint64_t missing = 0;

	return kiwarpdv_for_each_hole(record, add, &missing) ? UINT64_MAX : missing;
}
