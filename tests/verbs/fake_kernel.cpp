// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fake_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "private_abi.hpp"

FakeKernel *FakeKernel::instance;

std::byte *FakeWorkRing::slot(std::uint32_t index) const
{
	return memory + KIW_RING_HEADER + std::size_t{index & (geometry.entries - 1)} * geometry.stride;
}

std::uint32_t FakeWorkRing::produced() const
{
	return std::atomic_ref(header().prod).load(std::memory_order_acquire);
}

void FakeWorkRing::set_flags(std::uint32_t flags)
{
	std::atomic_ref(header().flags).store(flags, std::memory_order_relaxed);
	std::atomic_thread_fence(std::memory_order_seq_cst);
}

const kiw_sge &FakeWorkRing::sge(std::uint32_t index, std::size_t header_octets, int number) const
{
	return reinterpret_cast<const kiw_sge *>(slot(index) + header_octets)[number];
}

bool FakeCompletionRing::has_room() const
{
	return prod - std::atomic_ref(header().cons).load(std::memory_order_acquire) < geometry.entries;
}

kiw_cqe &FakeCompletionRing::slot(std::uint32_t index) const
{
	return *reinterpret_cast<kiw_cqe *>(
		memory + KIW_RING_HEADER + std::size_t{index & (geometry.entries - 1)} * geometry.stride);
}

void FakeCompletionRing::add(const kiw_cqe &cqe)
{
	std::memcpy(&slot(prod), &cqe, sizeof(cqe));
	std::atomic_ref(header().prod).store(++prod, std::memory_order_release);
	std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint32_t FakeCompletionRing::notify()
{
	std::atomic_ref arm(header().arm);

	return arm.load(std::memory_order_relaxed) ? arm.exchange(KIW_ARM_NONE) : std::uint32_t{KIW_ARM_NONE};
}

FakeKernel::FakeKernel()
{
	context()->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context()->cmd_fd = memfd_create("fake uverbs", MFD_CLOEXEC);
	context()->async_fd = memfd_create("fake events", MFD_CLOEXEC);
	if (context_.origin.open() || pd_.origin.open())
		std::abort();
	pd_.ibv.context = context();
	instance = this;
}

FakeKernel::~FakeKernel()
{
	for (const Arena &arena : arenas_)
		munmap(arena.memory, arena.size);
	::close(context()->async_fd);
	::close(fd());
	instance = nullptr;
}

ibv_context *FakeKernel::open()
{
	opened++;
	if (refuse_open) {
		errno = refuse_open;
		return nullptr;
	}
	auto *fresh = new kiw::Context();
	fresh->ibv.abi_compat = __VERBS_ABI_IS_EXTENDED;
	fresh->ibv.cmd_fd = memfd_create("fake uverbs", MFD_CLOEXEC);
	fresh->ibv.async_fd = memfd_create("fake events", MFD_CLOEXEC);
	fresh->features = features();
	if (fresh->origin.open())
		std::abort();
	cqs.clear();
	srqs.clear();
	qps.clear();
	arenas_.clear();
	last_handle_ = 100;
	return &fresh->ibv;
}

void FakeKernel::set_file(int channel) const
{
	if (pwrite(channel, &opened, sizeof(opened), 0) != sizeof(opened))
		std::abort();
}

int FakeKernel::file_of(int channel) const
{
	int file = -1;

	return pread(channel, &file, sizeof(file), 0) == sizeof(file) ? file : -1;
}

void FakeKernel::close(ibv_context *context)
{
	::close(context->async_fd);
	::close(context->cmd_fd);
	delete &kiw::Context::from(context);
}

void FakeKernel::complete(const ibv_cq *ibv, const ibv_qp *ibv_qp, kiw_cqe cqe)
{
	cqe.cookie = qp(ibv_qp).cookie;
	cqe.qp_num = ibv_qp->qp_num;
	cq(ibv).add(cqe);
}

std::byte *FakeKernel::ring(kiw_ring_geometry &geometry, std::uint32_t entries, std::uint32_t stride)
{
	const std::uint64_t octets = (KIW_RING_HEADER + std::uint64_t{entries} * stride + KIW_RING_ALIGN - 1) /
				     KIW_RING_ALIGN * KIW_RING_ALIGN;

	if (arenas_.empty() || arenas_.back().used + octets > arenas_.back().size)
		add_arena((octets + arena_octets - 1) / arena_octets * arena_octets);
	Arena &arena = arenas_.back();
	geometry = {.mmap_offset = arena.offset,
		.mmap_size = arena.size,
		.mapping = arenas_.size(),
		.offset = static_cast<std::uint32_t>(arena.used),
		.entries = entries,
		.stride = stride,
		.reserved = 0};
	arena.used += octets;
	return arena.memory + geometry.offset;
}

void FakeKernel::add_arena(std::uint64_t size)
{
	const std::uint64_t offset = arenas_.empty() ? 0 : arenas_.back().offset + arenas_.back().size;

	if (ftruncate(fd(), static_cast<off_t>(offset + size)))
		std::abort();
	void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), static_cast<off_t>(offset));
	if (memory == MAP_FAILED)
		std::abort();
	arenas_.push_back({static_cast<std::byte *>(memory), offset, size, 0});
}

int FakeKernel::ring_doorbell(const FakeDoorbell &doorbell)
{
	doorbells++;
	if (on_doorbell)
		return on_doorbell(doorbell);
	last_doorbell = doorbell;
	return 0;
}

namespace {

/// A request or response is a core part, then ours.
template <typename Own>
Own &own_part(void *buffer, std::size_t size)
{
	return *reinterpret_cast<Own *>(static_cast<std::byte *>(buffer) + size - sizeof(Own));
}

/// What is the same in a write and in an ioctl
struct RawDoorbell {
	std::uint64_t response;
	std::uint32_t qp_handle;
	std::uint32_t wr_count;
	std::uint32_t sge_count;
	std::uint32_t wqe_size;
};

FakeDoorbell doorbell_of(const void *data)
{
	RawDoorbell raw{};

	std::memcpy(&raw, data, sizeof(raw));
	return {.by_ioctl = false,
		.command = 0,
		.in_octets = sizeof(raw),
		.out_octets = 0,
		.response = raw.response,
		.qp_handle = raw.qp_handle,
		.wr_count = raw.wr_count,
		.sge_count = raw.sge_count,
		.wqe_size = raw.wqe_size};
}

int uverbs_write(FakeKernel &kernel, const std::byte *data, std::size_t size)
{
	ib_uverbs_cmd_hdr header{};

	if (kernel.refuse_write) {
		kernel.refused_writes++;
		return kernel.refuse_write;
	}
	std::memcpy(&header, data, sizeof(header));
	if (size != sizeof(header) + sizeof(RawDoorbell) || header.in_words * 4 != size)
		return EINVAL;
	FakeDoorbell doorbell = doorbell_of(data + sizeof(header));
	doorbell.command = header.command;
	doorbell.out_octets = header.out_words * std::size_t{4};
	return kernel.ring_doorbell(doorbell);
}

/// The rules of RDMA_VERBS_IOCTL, and of the method that runs the command of a write
int uverbs_ioctl(FakeKernel &kernel, unsigned long request, ib_uverbs_ioctl_hdr *header)
{
	FakeDoorbell doorbell{};
	std::uint64_t answer_to = 0;
	unsigned int seen = 0;

	if (request != RDMA_VERBS_IOCTL)
		return ENOTTY;
	if (header->length != sizeof(*header) + header->num_attrs * sizeof(ib_uverbs_attr) || header->reserved1 ||
		header->reserved2 || header->driver_id != KIWARP_DRIVER_ID)
		return EINVAL;
	if (header->object_id != UVERBS_OBJECT_DEVICE || header->method_id != UVERBS_METHOD_INVOKE_WRITE)
		return EPROTONOSUPPORT;
	for (ib_uverbs_attr *attr = header->attrs; attr < header->attrs + header->num_attrs; attr++) {
		if (attr->attr_data.reserved || attr->attr_id > UVERBS_ATTR_WRITE_CMD || (seen & 1U << attr->attr_id))
			return EINVAL;
		seen |= 1U << attr->attr_id;
		switch (attr->attr_id) {
		case UVERBS_ATTR_CORE_IN:
			if (attr->len != sizeof(RawDoorbell))
				return EINVAL;
			doorbell = doorbell_of(
				reinterpret_cast<const void *>(attr->data)); // NOLINT(performance-no-int-to-ptr)
			break;
		case UVERBS_ATTR_CORE_OUT:
			answer_to = attr->data;
			doorbell.out_octets = attr->len;
			attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
			break;
		default:
			if (attr->len != sizeof(std::uint64_t))
				return EINVAL;
			doorbell.command = static_cast<std::uint32_t>(attr->data);
		}
	}
	if (seen != 7 || answer_to != doorbell.response)
		return EINVAL;
	doorbell.by_ioctl = true;
	return kernel.ring_doorbell(doorbell);
}

} // namespace

extern "C" {

// The provider's system calls, by the linker's --wrap.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,cert-dcl50-cpp)
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	FakeKernel *kernel = FakeKernel::instance;

	if (number != SYS_write || !kernel || a != kernel->fd())
		return __real_syscall(number, a, b, c, d, e, f);
	// NOLINTNEXTLINE(performance-no-int-to-ptr)
	errno = uverbs_write(*kernel, reinterpret_cast<const std::byte *>(b), static_cast<std::size_t>(c));
	return errno ? -1 : c;
}

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	FakeKernel *kernel = FakeKernel::instance;

	if (!kernel || fd != kernel->fd())
		return __real_ioctl(fd, request, argument);
	errno = uverbs_ioctl(*kernel, request, static_cast<ib_uverbs_ioctl_hdr *>(argument));
	return errno ? -1 : 0;
}

int __real_sched_yield();
int __wrap_sched_yield()
{
	if (FakeKernel::instance)
		FakeKernel::instance->yields++;
	return __real_sched_yield();
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,cert-dcl50-cpp)

/// An event is the address of its queue.
int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **context)
{
	static std::mutex reading;
	pollfd descriptor = {.fd = channel->fd, .events = POLLIN, .revents = 0};

	// Whichever thread was told of the event is here by then.
	usleep(20000);
	const std::lock_guard guard(reading);
	if (poll(&descriptor, 1, 0) != 1) {
		FakeKernel::instance->vain_reads++;
		errno = EAGAIN;
		return -1;
	}
	*context = nullptr;
	return read(channel->fd, cq, sizeof(*cq)) == sizeof(*cq) ? 0 : -1;
}

void ibv_ack_cq_events(ibv_cq *, unsigned int) {}

// In place of the function in verbs.h
#undef ibv_open_device
ibv_context *ibv_open_device(ibv_device *)
{
	return FakeKernel::instance->open();
}

int ibv_close_device(ibv_context *context)
{
	FakeKernel::instance->close(context);
	return 0;
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context)
{
	auto *channel = new ibv_comp_channel{};

	channel->context = context;
	channel->fd = memfd_create("fake channel", MFD_CLOEXEC);
	FakeKernel::instance->set_file(channel->fd);
	return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel *channel)
{
	close(channel->fd);
	delete channel;
	return 0;
}

int ibv_cmd_create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int, ibv_cq *cq, void *, std::size_t,
	void *response, std::size_t response_size)
{
	FakeKernel &kernel = *FakeKernel::instance;
	auto &own = own_part<kiw_create_cq_resp>(response, response_size);
	FakeCompletionRing ring{};

	kernel.commands++;
	if (channel && kernel.file_of(channel->fd) != kernel.opened)
		return EBADF;
	if (kernel.refuse_create)
		return kernel.refuse_create;
	ring.memory = kernel.ring(ring.geometry, std::bit_ceil(static_cast<std::uint32_t>(cqe)), sizeof(kiw_cqe));
	cq->context = context;
	cq->handle = kernel.new_handle();
	cq->cqe = static_cast<int>(ring.geometry.entries);
	kernel.cqs[cq->handle] = ring;
	kiw_ring_geometry told = ring.geometry;
	if (kernel.distort)
		kernel.distort(told);
	own = {told};
	return 0;
}

int ibv_cmd_resize_cq(ibv_cq *cq, int cqe, void *, std::size_t, void *response, std::size_t response_size)
{
	FakeKernel &kernel = *FakeKernel::instance;
	FakeCompletionRing &old = kernel.cqs.at(cq->handle);
	FakeCompletionRing ring{};

	kernel.commands++;
	if (kernel.refuse_modify)
		return kernel.refuse_modify;
	ring.memory = kernel.ring(ring.geometry, std::bit_ceil(static_cast<std::uint32_t>(cqe)), sizeof(kiw_cqe));
	ring.prod = ring.header().prod = ring.header().cons = old.header().cons;
	for (std::uint32_t index = ring.prod; index != old.prod; index++)
		ring.add(old.slot(index));
	ring.header().arm = old.header().arm;
	// What stays behind is nothing to rely on.
	std::memset(old.memory, 0xee, KIW_RING_HEADER);
	old = ring;
	cq->cqe = static_cast<int>(ring.geometry.entries);
	kiw_ring_geometry told = ring.geometry;
	if (kernel.distort)
		kernel.distort(told);
	own_part<kiw_resize_cq_resp>(response, response_size) = {told};
	return 0;
}

int ibv_cmd_modify_cq(ibv_cq *, ibv_modify_cq_attr *, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_modify;
}

int ibv_cmd_destroy_cq(ibv_cq *cq)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	if (!kernel.refuse_destroy)
		kernel.cqs.erase(cq->handle);
	return kernel.refuse_destroy;
}

int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, void *, std::size_t, void *response,
	std::size_t response_size)
{
	FakeKernel &kernel = *FakeKernel::instance;
	auto &own = own_part<kiw_create_srq_resp>(response, response_size);
	FakeWorkRing ring{};

	kernel.commands++;
	if (kernel.refuse_create)
		return kernel.refuse_create;
	ring.memory = kernel.ring(ring.geometry, std::bit_ceil(attr->attr.max_wr),
		static_cast<std::uint32_t>(sizeof(kiw_rqe) + attr->attr.max_sge * sizeof(kiw_sge)));
	attr->attr.max_wr = ring.geometry.entries;
	srq->context = pd->context;
	srq->pd = pd;
	srq->handle = kernel.new_handle();
	kernel.srqs[srq->handle] = ring;
	own = {ring.geometry};
	if (kernel.distort)
		kernel.distort(own.ring);
	return 0;
}

int ibv_cmd_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask, void *request, std::size_t request_size)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	if (kernel.refuse_modify || !(mask & IBV_SRQ_MAX_WR))
		return kernel.refuse_modify;
	FakeWorkRing &old = kernel.srqs.at(srq->handle);
	FakeWorkRing ring{};
	ring.memory = kernel.ring(ring.geometry, std::bit_ceil(attr->max_wr), old.geometry.stride);
	std::memcpy(ring.memory, old.memory, KIW_RING_HEADER);
	for (std::uint32_t index = old.header().cons; index != old.produced(); index++)
		std::memcpy(ring.slot(index), old.slot(index), old.geometry.stride);
	// What stays behind is nothing to rely on.
	std::memset(old.memory, 0xee, KIW_RING_HEADER);
	old = ring;
	kiw_ring_geometry told = ring.geometry;
	if (kernel.distort)
		kernel.distort(told);
	const std::uint64_t response = own_part<kiw_modify_srq_req>(request, request_size).response;
	*reinterpret_cast<kiw_create_srq_resp *>(response) = {told}; // NOLINT(performance-no-int-to-ptr)
	return 0;
}

int ibv_cmd_query_srq(ibv_srq *, ibv_srq_attr *, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	return 0;
}

int ibv_cmd_destroy_srq(ibv_srq *srq)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	if (!kernel.refuse_destroy)
		kernel.srqs.erase(srq->handle);
	return kernel.refuse_destroy;
}

int ibv_cmd_create_qp(ibv_pd *pd, ibv_qp *qp, ibv_qp_init_attr *attr, void *request, std::size_t request_size,
	void *response, std::size_t response_size)
{
	FakeKernel &kernel = *FakeKernel::instance;
	auto &own = own_part<kiw_create_qp_resp>(response, response_size);
	ibv_qp_cap &cap = attr->cap;
	FakeQp fake{};

	kernel.commands++;
	if (kernel.refuse_create)
		return kernel.refuse_create;
	fake.cookie = own_part<kiw_create_qp_req>(request, request_size).cookie;
	if (attr->srq)
		cap.max_recv_wr = 0;
	const std::uint32_t send_payload =
		std::max(cap.max_inline_data, cap.max_send_sge * static_cast<std::uint32_t>(sizeof(kiw_sge)));
	const std::size_t head = sizeof(kiw_wqe) + (attr->qp_type == IBV_QPT_UD ? sizeof(kiw_ud_dest) : 0);
	const std::uint32_t send_stride = (static_cast<std::uint32_t>(head) + send_payload + 15) / 16 * 16;
	const std::uint32_t recv_stride =
		static_cast<std::uint32_t>(sizeof(kiw_rqe) + cap.max_recv_sge * sizeof(kiw_sge));
	if (cap.max_send_wr)
		fake.sq.memory = kernel.ring(fake.sq.geometry, std::bit_ceil(cap.max_send_wr), send_stride);
	if (cap.max_recv_wr)
		fake.rq.memory = kernel.ring(fake.rq.geometry, std::bit_ceil(cap.max_recv_wr), recv_stride);
	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->handle = kernel.new_handle();
	qp->qp_num = qp->handle * 7;
	qp->qp_type = attr->qp_type;
	kernel.qps[qp->handle] = fake;
	own = {fake.sq.geometry, fake.rq.geometry};
	if (kernel.distort) {
		kernel.distort(own.sq);
		kernel.distort(own.rq);
	}
	return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *qp)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	if (!kernel.refuse_destroy)
		kernel.qps.erase(qp->handle);
	return kernel.refuse_destroy;
}

int ibv_cmd_attach_mcast(ibv_qp *, const ibv_gid *, std::uint16_t)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_modify;
}

int ibv_cmd_detach_mcast(ibv_qp *, const ibv_gid *, std::uint16_t)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_modify;
}

int ibv_cmd_modify_qp(ibv_qp *, ibv_qp_attr *, int, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_modify;
}

int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	return 0;
}

int ibv_cmd_create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *, ib_uverbs_create_ah_resp *, std::size_t)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	ah->context = pd->context;
	ah->pd = pd;
	return kernel.refuse_create;
}

int ibv_cmd_destroy_ah(ibv_ah *)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_destroy;
}

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, void *, std::size_t, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	pd->context = context;
	pd->handle = FakeKernel::instance->new_handle();
	return 0;
}

int ibv_cmd_dealloc_pd(ibv_pd *)
{
	FakeKernel::instance->commands++;
	return 0;
}

int ibv_cmd_reg_mr(ibv_pd *pd, void *, std::size_t, std::uint64_t, int, kiw::pabi::MemoryRegion *mr, void *,
	std::size_t, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	mr->mr.context = pd->context;
	return 0;
}

int ibv_cmd_rereg_mr(kiw::pabi::MemoryRegion *, std::uint32_t, void *, std::size_t, std::uint64_t, int, ibv_pd *,
	void *, std::size_t, void *, std::size_t)
{
	FakeKernel::instance->commands++;
	return 0;
}

int ibv_cmd_query_mr(ibv_pd *pd, kiw::pabi::MemoryRegion *mr, std::uint32_t handle)
{
	FakeKernel::instance->commands++;
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.handle = handle;
	return FakeKernel::instance->refuse_create;
}

int ibv_cmd_dereg_mr(kiw::pabi::MemoryRegion *)
{
	FakeKernel::instance->commands++;
	return 0;
}

int ibv_cmd_alloc_mw(
	ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, void *, std::size_t, ib_uverbs_alloc_mw_resp *, std::size_t)
{
	FakeKernel &kernel = *FakeKernel::instance;

	kernel.commands++;
	if (kernel.refuse_create)
		return kernel.refuse_create;
	*mw = {.context = pd->context, .pd = pd, .rkey = 0xabcdefff, .handle = kernel.new_handle(), .type = type};
	return 0;
}

int ibv_cmd_dealloc_mw(ibv_mw *)
{
	FakeKernel::instance->commands++;
	return FakeKernel::instance->refuse_destroy;
}

} // extern "C"
