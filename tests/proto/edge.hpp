// SPDX-License-Identifier: GPL-2.0
// Bytes behind which there is no memory: a read beyond their end is a fault, also without the address sanitizer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "support.hpp"

class Edge {
public:
	/// A copy of at most a page
	explicit Edge(const Bytes &b)
		: page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
		  pages_(::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
		  data_(static_cast<std::uint8_t *>(pages_) + page_ - b.size())
	{
		if (pages_ == MAP_FAILED || ::mprotect(data_ + b.size(), page_, PROT_NONE))
			std::abort();
		std::ranges::copy(b, data_);
	}
	~Edge() { ::munmap(pages_, 2 * page_); }
	Edge(const Edge &) = delete;
	Edge &operator=(const Edge &) = delete;

	const std::uint8_t *data() const { return data_; }

private:
	std::size_t page_;
	void *pages_;
	std::uint8_t *data_;
};
