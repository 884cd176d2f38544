// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory of objects, without the C++ run-time library.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace kiw {

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

/// A zeroed, value-initialised T; empty without memory.
template <typename T>
Owner<T> make()
{
	static_assert(std::is_nothrow_default_constructible_v<T> && alignof(T) >= alignof(void *));

	void *memory = std::aligned_alloc(alignof(T), sizeof(T));

	return Owner<T>(memory ? ::new (memory) T() : nullptr);
}

/// Frees an object released from its Owner to libibverbs.
template <typename T>
void destroy(T *object)
{
	Release()(object);
}

} // namespace kiw
