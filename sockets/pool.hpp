// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory of objects that stays theirs: a thread with an old pointer finds one of the same kind, or a free one.
#pragma once

#include <cstddef>
#include <sys/mman.h>

#include "lock.hpp"

namespace kiws {

template <typename T>
class Pool {
public:
	/// Returns zeros, or what an object left; nullptr without memory.
	T *take()
	{
		kiw::Guard guard(lock_);

		if (!free_ && !grow())
			return nullptr;
		Item *item = free_;
		free_ = item->next;
		return &item->object;
	}

	void give(T *object)
	{
		kiw::Guard guard(lock_);
		auto *item = reinterpret_cast<Item *>(object);

		item->next = free_;
		free_ = item;
	}

	kiw::Lock &lock() { return lock_; }

private:
	struct Item {
		T object;
		Item *next;
	};
	static constexpr std::size_t size = std::size_t(64) << 10;

	bool grow()
	{
		void *memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return false;
		for (std::size_t i = 0; i < size / sizeof(Item); i++) {
			Item *item = static_cast<Item *>(memory) + i;

			item->next = free_;
			free_ = item;
		}
		return true;
	}

	kiw::Lock lock_; // protects the list
	Item *free_ = nullptr;
};

} // namespace kiws
