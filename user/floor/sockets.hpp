// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Which descriptors are the library's own sockets. A child of fork() closes them: otherwise a connection, or a port,
// would outlive the parent.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiwu {

class Sockets {
public:
	/// Returns false if there is no memory for it.
	bool add(int fd)
	{
		if (fd >= most)
			return true;
		std::atomic<Word *> &place = pages_[page_of(fd)];
		Word *page = place.load(std::memory_order_acquire);

		if (!page) {
			// Zeros are empty words.
			auto *made = static_cast<Word *>(std::calloc(per_page, sizeof(Word)));

			if (!made)
				return false;
			if (place.compare_exchange_strong(page, made, std::memory_order_acq_rel))
				page = made;
			else
				std::free(made);
		}
		page[word_of(fd)].fetch_or(bit_of(fd), std::memory_order_relaxed);
		return true;
	}

	/// It is about to be closed.
	void remove(int fd)
	{
		if (fd >= most)
			return;
		Word *page = pages_[page_of(fd)].load(std::memory_order_acquire);

		if (page)
			page[word_of(fd)].fetch_and(~bit_of(fd), std::memory_order_relaxed);
	}

	/// In a child of fork()
	void close_all()
	{
		for (std::uint32_t i = 0; i < pages; i++) {
			Word *page = pages_[i].load(std::memory_order_relaxed);

			for (std::uint32_t j = 0; page && j < per_page; j++)
				for (std::uint64_t bits = page[j].exchange(0); bits; bits &= bits - 1)
					::syscall(SYS_close, (i * per_page + j) * 64 +
								     static_cast<std::uint32_t>(__builtin_ctzll(bits)));
		}
	}

private:
	using Word = std::atomic<std::uint64_t>;

	static constexpr std::uint32_t per_page = 64, pages = 256;
	// The kernel's own limit, as long as nobody raises it
	static constexpr int most = 64 * per_page * pages;

	static std::uint32_t page_of(int fd) { return static_cast<std::uint32_t>(fd) / 64 / per_page; }
	static std::uint32_t word_of(int fd) { return static_cast<std::uint32_t>(fd) / 64 % per_page; }
	static std::uint64_t bit_of(int fd) { return 1ULL << (static_cast<std::uint32_t>(fd) % 64); }

	std::atomic<Word *> pages_[pages] = {};
};

inline constinit Sockets sockets;

} // namespace kiwu
