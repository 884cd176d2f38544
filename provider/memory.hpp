// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory of the provider's objects, without the C++ run-time library.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace kiw {

/// Ends the life of an object from make().
struct Release {
	template <typename T>
	void operator()(T *object) const
	{
		object->~T();
		std::free(object);
	}
};

template <typename T>
using Owner = std::unique_ptr<T, Release>;

/// A zeroed, value-initialised T; empty if there is no memory.
template <typename T>
Owner<T> make()
{
	static_assert(std::is_nothrow_default_constructible_v<T> && alignof(T) >= alignof(void *));

	void *memory = std::aligned_alloc(alignof(T), sizeof(T));

	return Owner<T>(memory ? ::new (memory) T() : nullptr);
}

/// Frees an object that was released from its Owner, as libibverbs held it.
template <typename T>
void destroy(T *object)
{
	Release()(object);
}

} // namespace kiw
