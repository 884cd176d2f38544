// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Whether an object is of our device, and the next library of a name for objects of others
#pragma once

#include <cerrno>
#include <dlfcn.h>
#include <type_traits>

#include "device.hpp"

namespace kiwu {

inline bool ours(const ibv_device *candidate)
{
	return candidate == &device;
}

/// A provider that looks how libibverbs is made calls functions with objects of no context.
inline bool ours(const ibv_context *context)
{
	return context && ours(context->device);
}

template <typename Object>
inline bool ours(const Object *object)
{
	return ours(object->context);
}

/// What a name returns that fails so
template <typename Object>
Object *fail(int error)
{
	errno = error;
	return nullptr;
}

inline int fail(int error)
{
	errno = error;
	return -1;
}

/// The function of that name behind this library, of the default version; nullptr: there is none.
template <typename Function>
Function *next(const char *name, Function *)
{
	return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

/// Calls the next library's, or says that there is none.
template <typename Result, typename... Parameters, typename... Arguments>
Result forward(const char *name, Result (*self)(Parameters...), Arguments... arguments)
{
	if (auto *function = next(name, self))
		return function(arguments...);
	errno = ENOSYS;
	if constexpr (std::is_pointer_v<Result>)
		return nullptr;
	else if constexpr (!std::is_void_v<Result>)
		return static_cast<Result>(ENOSYS);
}

#define NEXT(name, ...) forward(#name, name, __VA_ARGS__)

} // namespace kiwu
