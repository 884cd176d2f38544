// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mapping.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "memory.hpp"

namespace kiw {

int Mapping::map(int fd, const kiw_ring_geometry &geometry)
{
	void *base = ::mmap(nullptr, geometry.mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		static_cast<off_t>(geometry.mmap_offset));

	if (base == MAP_FAILED)
		return errno;
	number_ = geometry.mapping;
	base_ = static_cast<std::byte *>(base);
	size_ = geometry.mmap_size;
	if (::madvise(base_, size_, MADV_DONTFORK) == 0)
		return 0;
	const int error = errno;
	unmap();
	return error;
}

void Mapping::unmap()
{
	::munmap(base_, size_);
}

void Mapping::release()
{
	Guard guard(owner_->lock_);
	Mapping **link = &owner_->first_;

	if (--users_ > 0)
		return;
	while (*link != this)
		link = &(*link)->next_;
	*link = next_;
	unmap();
	destroy(this);
}

int Mappings::acquire(int fd, const kiw_ring_geometry &geometry, Mapping *&mapping)
{
	Guard guard(lock_);
	Mapping *found = first_;

	while (found && found->number_ != geometry.mapping)
		found = found->next_;
	if (found && found->size_ != geometry.mmap_size)
		return EPROTO;
	if (!found) {
		Owner<Mapping> made = make<Mapping>();

		if (!made)
			return ENOMEM;
		if (const int error = made->map(fd, geometry))
			return error;
		made->owner_ = this;
		made->next_ = first_;
		found = first_ = made.release();
	}
	found->users_++;
	mapping = found;
	return 0;
}

} // namespace kiw
