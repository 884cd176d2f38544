/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What libkiwarp-user.so.0 offers beside the names of libibverbs and librdmacm. A program finds these
 * functions by dlsym(), as the library is there only where kiwarp-user runs it.
 */
#ifndef KIWARP_USER_H
#define KIWARP_USER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gives an option of KIWARP_USER another value. A start-up uses what is set when it begins.
 *
 * Returns 0, or an errno value: ENOENT for an option that doesn't exist, and for stats, which is a
 * file's name; EINVAL for a value that it doesn't take, or where KIWARP_USER itself is wrong.
 */
int kiwarp_user_set_option(const char *name, const char *value);

/** Writes the value of an option as text of at most size bytes. Returns 0, ENOENT, ENOSPC or EINVAL. */
int kiwarp_user_get_option(const char *name, char *value, size_t size);

/** Reads a counter of the process, named as the module's. Returns 0 or ENOENT. */
int kiwarp_user_get_counter(const char *name, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif /* KIWARP_USER_H */
