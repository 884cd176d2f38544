// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <cerrno>

#include "names.hpp"
#include "options.hpp"
#include "stats.hpp"
#include "user/kiwarp-user.h"

using namespace kiwu;

KIW_NAME int kiwarp_user_set_option(const char *name, const char *value)
{
	return read_options() ? set_option(name, value) : EINVAL;
}

KIW_NAME int kiwarp_user_get_option(const char *name, char *value, std::size_t size)
{
	return read_options() ? get_option(name, value, size) : EINVAL;
}

KIW_NAME int kiwarp_user_get_counter(const char *name, std::uint64_t *value)
{
	return read_counter(name, *value) ? 0 : ENOENT;
}
