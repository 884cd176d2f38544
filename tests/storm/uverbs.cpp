// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "uverbs.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "../lib/connection.hpp"

namespace storm {

namespace {

std::uint64_t address_of(const void *object)
{
	return reinterpret_cast<std::uintptr_t>(object);
}

template <typename T>
T read_at(std::span<const std::uint8_t> octets, std::size_t place)
{
	T value;

	std::memcpy(&value, octets.subspan(place, sizeof(T)).data(), sizeof(T));
	return value;
}

Ring ring_of(const kiw_ring_geometry &from)
{
	return {from.mmap_offset, from.mmap_size, from.offset, from.entries, from.stride};
}

} // namespace

Uverbs::Uverbs(const std::string &device) : fd_(open(("/dev/infiniband/" + device).c_str(), O_RDWR | O_CLOEXEC))
{
	std::array<std::uint8_t, sizeof(ib_uverbs_get_context_resp) + sizeof(kiw_get_context_resp)> answer{};
	ib_uverbs_get_context request{};

	if (fd_ < 0)
		vt::fail(device, errno);
	request.response = address_of(answer.data());
	const kiw_get_context_req own = {.features = KIW_FEATURES, .reserved = 0};
	if (const int error = call(IB_USER_VERBS_CMD_GET_CONTEXT, bytes_of(request), bytes_of(own), answer)) {
		::close(fd_);
		vt::fail("GET_CONTEXT of " + device, error);
	}
	async_fd_ = static_cast<int>(read_at<ib_uverbs_get_context_resp>(answer, 0).async_fd);
}

Uverbs::~Uverbs()
{
	::close(async_fd_);
	::close(fd_);
}

void Uverbs::close() const
{
	// The number stays taken, by what can't be written to: another thread's next file must not get what a third
	// one sends here.
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (nothing < 0 || dup3(nothing, fd_, O_CLOEXEC) < 0 || dup3(nothing, async_fd_, O_CLOEXEC) < 0)
		vt::fail("/dev/null", errno);
	::close(nothing);
}

int Uverbs::call(std::uint32_t command, std::span<const std::uint8_t> request, std::span<const std::uint8_t> driver,
	std::span<std::uint8_t> response) const
{
	const ib_uverbs_cmd_hdr header = {
		.command = command,
		.in_words = static_cast<std::uint16_t>((sizeof(header) + request.size() + driver.size()) / 4),
		.out_words = static_cast<std::uint16_t>(response.size() / 4),
	};
	std::vector<std::uint8_t> whole(bytes_of(header).begin(), bytes_of(header).end());

	whole.insert(whole.end(), request.begin(), request.end());
	whole.insert(whole.end(), driver.begin(), driver.end());
	return write(fd_, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()) ? 0 : errno;
}

int Uverbs::alloc_pd(std::uint32_t &handle) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_alloc_pd_resp)> answer{};
	ib_uverbs_alloc_pd request{};

	request.response = address_of(answer.data());
	const int error = call(IB_USER_VERBS_CMD_ALLOC_PD, bytes_of(request), {}, answer);
	handle = read_at<ib_uverbs_alloc_pd_resp>(answer, 0).pd_handle;
	return error;
}

int Uverbs::dealloc_pd(std::uint32_t handle) const
{
	return call(IB_USER_VERBS_CMD_DEALLOC_PD, bytes_of(ib_uverbs_dealloc_pd{.pd_handle = handle}));
}

int Uverbs::reg_mr(
	std::uint32_t pd, std::uint64_t start, std::uint64_t length, std::uint32_t access, MrMade &made) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_reg_mr_resp)> answer{};
	ib_uverbs_reg_mr request{};

	request.response = address_of(answer.data());
	request.start = start;
	request.length = length;
	request.hca_va = start;
	request.pd_handle = pd;
	request.access_flags = access;
	const int error = call(IB_USER_VERBS_CMD_REG_MR, bytes_of(request), {}, answer);
	const auto told = read_at<ib_uverbs_reg_mr_resp>(answer, 0);
	made = {told.mr_handle, told.rkey};
	return error;
}

int Uverbs::dereg_mr(std::uint32_t handle) const
{
	return call(IB_USER_VERBS_CMD_DEREG_MR, bytes_of(ib_uverbs_dereg_mr{.mr_handle = handle}));
}

int Uverbs::alloc_mw(std::uint32_t pd, std::uint32_t type, MrMade &made) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_alloc_mw_resp)> answer{};
	ib_uverbs_alloc_mw request{};

	request.response = address_of(answer.data());
	request.pd_handle = pd;
	request.mw_type = static_cast<std::uint8_t>(type);
	const int error = call(IB_USER_VERBS_CMD_ALLOC_MW, bytes_of(request), {}, answer);
	const auto told = read_at<ib_uverbs_alloc_mw_resp>(answer, 0);
	made = {told.mw_handle, told.rkey};
	return error;
}

int Uverbs::dealloc_mw(std::uint32_t handle) const
{
	return call(IB_USER_VERBS_CMD_DEALLOC_MW, bytes_of(ib_uverbs_dealloc_mw{.mw_handle = handle}));
}

int Uverbs::create_cq(std::uint32_t entries, int channel, CqMade &made) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_create_cq_resp) + sizeof(kiw_create_cq_resp)> answer{};
	ib_uverbs_create_cq request{};

	request.response = address_of(answer.data());
	request.cqe = entries;
	request.comp_channel = channel;
	const int error = call(IB_USER_VERBS_CMD_CREATE_CQ, bytes_of(request), {}, answer);
	const auto own = read_at<kiw_create_cq_resp>(answer, sizeof(ib_uverbs_create_cq_resp));
	made = {read_at<ib_uverbs_create_cq_resp>(answer, 0).cq_handle, ring_of(own.ring)};
	return error;
}

int Uverbs::destroy_cq(std::uint32_t handle) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_destroy_cq_resp)> answer{};
	ib_uverbs_destroy_cq request{};

	request.response = address_of(answer.data());
	request.cq_handle = handle;
	return call(IB_USER_VERBS_CMD_DESTROY_CQ, bytes_of(request), {}, answer);
}

int Uverbs::create_srq(std::uint32_t pd, std::uint32_t requests, std::uint32_t sges, SrqMade &made) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_create_srq_resp) + sizeof(kiw_create_srq_resp)> answer{};
	ib_uverbs_create_srq request{};

	request.response = address_of(answer.data());
	request.pd_handle = pd;
	request.max_wr = requests;
	request.max_sge = sges;
	const int error = call(IB_USER_VERBS_CMD_CREATE_SRQ, bytes_of(request), {}, answer);
	const auto own = read_at<kiw_create_srq_resp>(answer, sizeof(ib_uverbs_create_srq_resp));
	made = {read_at<ib_uverbs_create_srq_resp>(answer, 0).srq_handle, ring_of(own.ring)};
	return error;
}

int Uverbs::modify_srq(
	std::uint32_t handle, std::uint32_t mask, std::uint32_t requests, std::uint32_t limit, Ring &ring) const
{
	kiw_create_srq_resp answer{};
	ib_uverbs_modify_srq request{};

	request.srq_handle = handle;
	request.attr_mask = mask;
	request.max_wr = requests;
	request.srq_limit = limit;
	const int error = call(IB_USER_VERBS_CMD_MODIFY_SRQ, bytes_of(request),
		bytes_of(kiw_modify_srq_req{.response = address_of(&answer)}));
	ring = ring_of(answer.ring);
	return error;
}

int Uverbs::destroy_srq(std::uint32_t handle) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_destroy_srq_resp)> answer{};
	ib_uverbs_destroy_srq request{};

	request.response = address_of(answer.data());
	request.srq_handle = handle;
	return call(IB_USER_VERBS_CMD_DESTROY_SRQ, bytes_of(request), {}, answer);
}

int Uverbs::create_qp(const QpWish &wish, QpMade &made) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_create_qp_resp) + sizeof(kiw_create_qp_resp)> answer{};
	ib_uverbs_create_qp request{};

	request.response = address_of(answer.data());
	request.pd_handle = wish.pd;
	request.send_cq_handle = wish.send_cq;
	request.recv_cq_handle = wish.recv_cq;
	request.max_send_wr = wish.cap.max_send_wr;
	request.max_recv_wr = wish.cap.max_recv_wr;
	request.max_send_sge = wish.cap.max_send_sge;
	request.max_recv_sge = wish.cap.max_recv_sge;
	request.max_inline_data = wish.cap.max_inline_data;
	request.qp_type = IBV_QPT_RC;
	request.is_srq = wish.srq.has_value();
	request.srq_handle = wish.srq.value_or(0);
	const int error =
		call(IB_USER_VERBS_CMD_CREATE_QP, bytes_of(request), bytes_of(kiw_create_qp_req{.cookie = 1}), answer);
	const auto core = read_at<ib_uverbs_create_qp_resp>(answer, 0);
	const auto own = read_at<kiw_create_qp_resp>(answer, sizeof(ib_uverbs_create_qp_resp));
	made = {.handle = core.qp_handle,
		.number = core.qpn,
		.cap = {core.max_send_wr, core.max_recv_wr, core.max_send_sge, core.max_recv_sge, core.max_inline_data},
		.sq = ring_of(own.sq),
		.rq = ring_of(own.rq)};
	return error;
}

int Uverbs::modify_qp(std::uint32_t handle, std::uint32_t mask, std::uint32_t state, std::uint32_t current,
	std::uint32_t access) const
{
	ib_uverbs_modify_qp request{};

	request.qp_handle = handle;
	request.attr_mask = mask;
	request.qp_state = static_cast<std::uint8_t>(state);
	request.cur_qp_state = static_cast<std::uint8_t>(current);
	request.qp_access_flags = access;
	request.port_num = 1;
	return call(IB_USER_VERBS_CMD_MODIFY_QP, bytes_of(request));
}

int Uverbs::query_state(std::uint32_t handle, std::uint32_t &state) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_query_qp_resp)> answer{};
	ib_uverbs_query_qp request{};

	request.response = address_of(answer.data());
	request.qp_handle = handle;
	request.attr_mask = IBV_QP_STATE;
	const int error = call(IB_USER_VERBS_CMD_QUERY_QP, bytes_of(request), {}, answer);
	state = read_at<ib_uverbs_query_qp_resp>(answer, 0).qp_state;
	return error;
}

int Uverbs::destroy_qp(std::uint32_t handle) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_destroy_qp_resp)> answer{};
	ib_uverbs_destroy_qp request{};

	request.response = address_of(answer.data());
	request.qp_handle = handle;
	return call(IB_USER_VERBS_CMD_DESTROY_QP, bytes_of(request), {}, answer);
}

int Uverbs::create_channel(int &fd) const
{
	std::array<std::uint8_t, sizeof(ib_uverbs_create_comp_channel_resp)> answer{};
	ib_uverbs_create_comp_channel request{};

	request.response = address_of(answer.data());
	const int error = call(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, bytes_of(request), {}, answer);
	fd = static_cast<int>(read_at<ib_uverbs_create_comp_channel_resp>(answer, 0).fd);
	return error;
}

namespace {

/// The struct of the commands that post; its last member is where the requests would follow.
struct Doorbell {
	std::uint64_t response;
	std::uint32_t handle, wr_count, sge_count, wqe_size;
};

int ring_bell(const Uverbs &device, std::uint32_t command, std::uint32_t handle, std::uint32_t wqe_size)
{
	std::array<std::uint8_t, sizeof(ib_uverbs_post_send_resp)> answer{};
	const Doorbell request = {address_of(answer.data()), handle, 0, 0, wqe_size};

	return device.call(command, bytes_of(request), {}, answer);
}

} // namespace

int Uverbs::doorbell(std::uint32_t qp, bool send) const
{
	return send ? ring_bell(*this, IB_USER_VERBS_CMD_POST_SEND, qp, sizeof(ib_uverbs_send_wr))
		    : ring_bell(*this, IB_USER_VERBS_CMD_POST_RECV, qp, sizeof(ib_uverbs_recv_wr));
}

int Uverbs::srq_doorbell(std::uint32_t srq) const
{
	return ring_bell(*this, IB_USER_VERBS_CMD_POST_SRQ_RECV, srq, sizeof(ib_uverbs_recv_wr));
}

Devices find_devices()
{
	const vt::Listener listener;
	const vt::Caller caller(listener.port());

	return {caller.id->verbs->device->dev_name, listener.id()->verbs->device->dev_name};
}

Mapping::Mapping(int fd, const Ring &ring) : ring_(ring)
{
	void *memory =
		mmap(nullptr, ring.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(ring.offset));

	if (memory == MAP_FAILED)
		vt::fail("mmap of a ring", errno);
	data_ = static_cast<std::uint8_t *>(memory) + ring.place;
}

Mapping::~Mapping()
{
	if (data_)
		munmap(data_ - ring_.place, ring_.size);
}

Mapping::Mapping(Mapping &&other) noexcept : data_(std::exchange(other.data_, nullptr)), ring_(other.ring_) {}

Mapping &Mapping::operator=(Mapping &&other) noexcept
{
	std::swap(data_, other.data_);
	std::swap(ring_, other.ring_);
	return *this;
}

Pages::Pages(std::size_t octets) : size_(octets)
{
	void *memory = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		vt::fail("mmap", errno);
	data_ = static_cast<std::uint8_t *>(memory);
}

Pages::~Pages()
{
	munmap(data_, size_);
}

} // namespace storm
