// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Buffers that the library allocates for a program (ibv_alloc_buf()), and registration by attributes, in newer
// rdma-cores. A handle is a page of its own before the buffer, by which it is told from another library's.
#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

#include "mapped.hpp"
#include "newer.hpp"

using namespace kiwu;

namespace {

struct Buffer {
	const Buffer *self; // if it is ours
	std::uint8_t *bytes;
	std::size_t size;
	std::size_t mapped; // bytes, the handle's page included

	[[nodiscard]] bool holds(const void *address, std::size_t length) const
	{
		const std::size_t offset =
			reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(bytes);

		return offset <= size && length <= size - offset;
	}
};

/// As struct ibv_mr_init_attr, which older headers lack
struct RegionAttributes {
	enum : std::uint64_t { has_iova = 1, has_address = 2, has_buffer = 32 };

	std::size_t length;
	int access;
	std::uint64_t mask;
	std::uint64_t iova;
	void *address;
	int fd;
	std::uint64_t fd_offset;
	void *dma_handle;
	void *buffer;
};

/// nullptr: it is another library's.
Buffer *own_buffer(void *handle)
{
	auto *buffer = static_cast<Buffer *>(handle);

	return reinterpret_cast<std::uintptr_t>(handle) % page_size() == 0 && handle && buffer->self == buffer
		       ? buffer
		       : nullptr;
}

} // namespace

KIW_NEWER(void *, ibv_alloc_buf, ibv_pd *pd, std::size_t size, void **handle)
{
	const std::size_t page = page_size();

	if (!ours(pd))
		return NEXT_NEWER(ibv_alloc_buf, pd, size, handle);
	if (!size)
		return fail<void>(EINVAL);
	if (size > SIZE_MAX - 2 * page)
		return fail<void>(ENOMEM);
	const std::size_t mapped = page + (size + page - 1) / page * page;
	void *memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return nullptr;
	auto *buffer = static_cast<Buffer *>(memory);
	*buffer = {.self = buffer, .bytes = static_cast<std::uint8_t *>(memory) + page, .size = size, .mapped = mapped};
	*handle = buffer;
	return buffer->bytes;
}

KIW_NEWER(void, ibv_free_buf, void *handle)
{
	Buffer *buffer = own_buffer(handle);

	if (!buffer)
		return NEXT_NEWER(ibv_free_buf, handle);
	::munmap(buffer, buffer->mapped);
}

KIW_NEWER(int, ibv_export_buf_dmabuf_fd, void *handle)
{
	if (!own_buffer(handle))
		return NEXT_NEWER(ibv_export_buf_dmabuf_fd, handle);
	return fail(EOPNOTSUPP);
}

KIW_NEWER(ibv_mr *, ibv_reg_buf_mr, ibv_pd *pd, void *handle, void *address, std::size_t length, int access)
{
	if (!ours(pd))
		return NEXT_NEWER(ibv_reg_buf_mr, pd, handle, address, length, access);
	const Buffer *buffer = own_buffer(handle);
	if (!buffer || !buffer->holds(address, length))
		return fail<ibv_mr>(EINVAL);
	return ibv_reg_mr_iova2(
		pd, address, length, reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned int>(access));
}

KIW_NEWER(ibv_mr *, ibv_reg_mr_ex, ibv_pd *pd, void *attributes)
{
	const auto &attr = *static_cast<const RegionAttributes *>(attributes);

	if (!ours(pd))
		return NEXT_NEWER(ibv_reg_mr_ex, pd, attributes);
	// Of a file, with a handle for DMA, and what is younger
	if (attr.mask & ~(RegionAttributes::has_iova | RegionAttributes::has_address | RegionAttributes::has_buffer))
		return fail<ibv_mr>(EOPNOTSUPP);
	if (!(attr.mask & RegionAttributes::has_address))
		return fail<ibv_mr>(EINVAL);
	if (attr.mask & RegionAttributes::has_buffer) {
		const Buffer *buffer = own_buffer(attr.buffer);

		if (!buffer || !buffer->holds(attr.address, attr.length))
			return fail<ibv_mr>(EINVAL);
	}
	return ibv_reg_mr_iova2(pd, attr.address, attr.length,
		attr.mask & RegionAttributes::has_iova ? attr.iova : reinterpret_cast<std::uintptr_t>(attr.address),
		static_cast<unsigned int>(attr.access));
}
