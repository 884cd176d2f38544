// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A table from numbers of 24 bits to objects. Looking up takes no lock. Its nodes stay as long as the process.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "lock.hpp"

namespace kiwu {

template <typename T>
class Table {
public:
	static constexpr std::uint32_t size = 1 << 24;

	/// nullptr: there is none. Whether the object may go meanwhile is the caller's matter.
	T *find(std::uint32_t number) const
	{
		const Middle *middle = root_[number >> 16 & 255].load(std::memory_order_acquire);
		const Leaf *leaf = middle ? middle->leaf[number >> 8 & 255].load(std::memory_order_acquire) : nullptr;

		return leaf ? leaf->object[number & 255].load(std::memory_order_acquire) : nullptr;
	}

	/// Returns 0, EBUSY if the number has one, or ENOMEM.
	int insert(std::uint32_t number, T *object)
	{
		kiw::Guard guard(lock_);

		return insert_locked(number, object);
	}

	/// Gives an object the next number from first on that is free, in turn. Returns 0, ENOSPC or ENOMEM.
	int add(T *object, std::uint32_t first, std::uint32_t &number)
	{
		kiw::Guard guard(lock_);

		for (std::uint32_t tries = first; tries < size; tries++) {
			if (next_ < first || next_ >= size)
				next_ = first;
			const std::uint32_t candidate = next_++;
			const int error = insert_locked(candidate, object);

			if (error != EBUSY) {
				number = candidate;
				return error;
			}
		}
		return ENOSPC;
	}

	/// Puts another one in an object's place, or none.
	void replace(std::uint32_t number, T *object)
	{
		kiw::Guard guard(lock_);
		Middle *middle = root_[number >> 16 & 255].load(std::memory_order_relaxed);
		Leaf *leaf = middle->leaf[number >> 8 & 255].load(std::memory_order_relaxed);

		leaf->object[number & 255].store(object, std::memory_order_release);
	}

	void remove(std::uint32_t number) { replace(number, nullptr); }

	/// In a child of fork(): the objects are its parent's. Their numbers aren't given again soon.
	void begin_anew()
	{
		// A thread of the parent may have had the lock.
		lock_.~Lock();
		::new (&lock_) kiw::Lock;
		for (auto &entry : root_)
			entry.store(nullptr, std::memory_order_relaxed);
	}

	/// Calls a function with each object, until it returns false. None may go meanwhile.
	template <typename Function>
	void for_each(const Function &function)
	{
		for (const auto &entry : root_) {
			const Middle *middle = entry.load(std::memory_order_acquire);

			if (middle && !visit(*middle, function))
				return;
		}
	}

private:
	struct Leaf {
		std::atomic<T *> object[256];
	};
	struct Middle {
		std::atomic<Leaf *> leaf[256];
	};

	template <typename Node>
	static Node *need(std::atomic<Node *> &place)
	{
		Node *node = place.load(std::memory_order_relaxed);

		// Zeros are null pointers.
		if (!node && (node = static_cast<Node *>(std::calloc(1, sizeof(Node)))))
			place.store(node, std::memory_order_release);
		return node;
	}

	template <typename Function>
	static bool visit(const Middle &middle, const Function &function)
	{
		for (const auto &entry : middle.leaf) {
			const Leaf *leaf = entry.load(std::memory_order_acquire);

			for (std::uint32_t i = 0; leaf && i < 256; i++) {
				T *object = leaf->object[i].load(std::memory_order_acquire);

				if (object && !function(*object))
					return false;
			}
		}
		return true;
	}

	int insert_locked(std::uint32_t number, T *object)
	{
		Middle *middle = need(root_[number >> 16 & 255]);
		Leaf *leaf = middle ? need(middle->leaf[number >> 8 & 255]) : nullptr;

		if (!leaf)
			return ENOMEM;
		if (leaf->object[number & 255].load(std::memory_order_relaxed))
			return EBUSY;
		leaf->object[number & 255].store(object, std::memory_order_release);
		return 0;
	}

	// Protects all changes, and next_.
	kiw::Lock lock_;
	std::uint32_t next_ = 0;
	std::atomic<Middle *> root_[256] = {};
};

} // namespace kiwu
