// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Commands of uverbs that nobody would send: random ones, and good ones with something wrong in them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sides.hpp"

namespace storm {

namespace {

constexpr int commands_per_round = 400;

template <typename T>
void append(std::vector<std::uint8_t> &to, const T &object)
{
	const auto octets = bytes_of(object);

	to.insert(to.end(), octets.begin(), octets.end());
}

class Nonsense {
public:
	Nonsense(Part &part, RawPair &pair) : part_(part), random_(part.random.child()), side_(pair.either(random_))
	{
		mprotect(answers_.data() + answers_.size() - 4096, 4096, PROT_NONE);
		mprotect(read_only_.data(), read_only_.size(), PROT_READ);
	}

	void play()
	{
		refusals();
		for (int i = 0; i < commands_per_round && part_.running(); i++) {
			switch (random_.below(6)) {
			case 0:
				anything();
				break;
			case 1:
				post();
				break;
			case 2:
			case 3:
				by_ioctl();
				break;
			default:
				nearly_right();
				break;
			}
		}
	}

private:
	int count(bool good) const { return part_.counted(good ? 0 : errno); }

	/// Of the response, mostly; there is room for the longest that an ioctl may ask for, then nothing.
	std::uint64_t somewhere()
	{
		switch (random_.below(20)) {
		case 0:
			return random_.any();
		case 1:
			return read_only_.address() + random_.below(4096);
		case 2:
			return answers_.address() + answers_.size() - 4096 - random_.below(64);
		default:
			return answers_.address();
		}
	}
	std::uint32_t handle() { return random_.one_in(4) ? random_.word() : random_.below(6); }

	void send(std::uint32_t command, std::vector<std::uint8_t> request, std::size_t answer)
	{
		ib_uverbs_cmd_hdr header = {.command = command,
			.in_words = static_cast<std::uint16_t>((sizeof(header) + request.size()) / 4),
			.out_words = static_cast<std::uint16_t>(answer / 4)};

		if (random_.one_in(10))
			header.in_words = static_cast<std::uint16_t>(random_.nonsense(header.in_words));
		if (random_.one_in(10))
			header.out_words = static_cast<std::uint16_t>(random_.nonsense(header.out_words));
		if (random_.one_in(20))
			header.command |= 0x80000000U >> random_.below(8);
		request.insert(request.begin(), bytes_of(header).begin(), bytes_of(header).end());
		// Cut off, too
		const std::size_t size =
			random_.one_in(10) ? random_.below(static_cast<std::uint32_t>(request.size())) : request.size();
		count(write(side_.device().fd(), request.data(), size) == static_cast<ssize_t>(size));
	}

	void anything()
	{
		std::vector<std::uint8_t> request(4 * random_.below(64));

		random_.fill(request);
		const std::uint64_t response = somewhere();
		if (request.size() >= sizeof(response))
			std::memcpy(request.data(), &response, sizeof(response));
		send(random_.below(45), request, 4 * random_.below(64));
	}

	void nearly_right()
	{
		std::vector<std::uint8_t> request;
		std::uint32_t command = 0;
		std::size_t answer = 0;

		switch (random_.below(6)) {
		case 0:
			command = IB_USER_VERBS_CMD_CREATE_CQ;
			answer = sizeof(ib_uverbs_create_cq_resp) + sizeof(kiw_create_cq_resp);
			append(request,
				ib_uverbs_create_cq{
					.response = somewhere(), .cqe = random_.between(1, 200), .comp_channel = -1});
			break;
		case 1:
		case 2:
			command = IB_USER_VERBS_CMD_CREATE_QP;
			answer = sizeof(ib_uverbs_create_qp_resp) + sizeof(kiw_create_qp_resp);
			append(request, ib_uverbs_create_qp{.response = somewhere(),
						.pd_handle = side_.pd(),
						.send_cq_handle = side_.cq().handle,
						.recv_cq_handle = side_.cq().handle,
						.max_send_wr = random_.below(200),
						.max_recv_wr = random_.below(200),
						.max_send_sge = random_.below(18),
						.max_recv_sge = random_.below(18),
						.max_inline_data = random_.below(600),
						.qp_type = IBV_QPT_RC});
			append(request, kiw_create_qp_req{.cookie = random_.any()});
			break;
		case 3:
			command = IB_USER_VERBS_CMD_REG_MR;
			answer = sizeof(ib_uverbs_reg_mr_resp);
			append(request, ib_uverbs_reg_mr{.response = somewhere(),
						.start = side_.memory().address(),
						.length = random_.below(65536),
						.hca_va = side_.memory().address(),
						.pd_handle = side_.pd(),
						.access_flags = random_.below(8)});
			break;
		case 4:
			command = IB_USER_VERBS_CMD_GET_CONTEXT;
			answer = sizeof(ib_uverbs_get_context_resp) + sizeof(kiw_get_context_resp);
			append(request, ib_uverbs_get_context{.response = somewhere()});
			break;
		default:
			command = IB_USER_VERBS_CMD_MODIFY_QP;
			append(request, ib_uverbs_modify_qp{.qp_handle = handle(),
						.attr_mask = random_.word(),
						.qp_state = random_.octet()});
			break;
		}
		// Not in the address of the response, which comes first: the kernel would write where this process
		// lives.
		const auto rest = static_cast<std::uint32_t>(request.size() - sizeof(std::uint64_t));
		for (std::uint32_t n = rest ? random_.below(3) : 0; n > 0; n--)
			request.at(sizeof(std::uint64_t) + random_.below(rest)) = random_.octet();
		// The driver's part: longer, or shorter
		if (random_.one_in(3))
			for (std::uint32_t n = 4 * random_.below(32); n > 0; n--)
				request.push_back(random_.octet());
		else if (random_.one_in(3))
			request.resize(request.size() - std::min<std::size_t>(request.size(), 4 * random_.below(6)));
		send(command, request, random_.one_in(4) ? 4 * random_.below(40) : answer);
	}

	void post()
	{
		std::vector<std::uint8_t> request;

		append(request, somewhere());
		append(request, random_.one_in(4) ? handle() : side_.qp().handle);
		append(request, random_.one_in(2)   ? 0
				: random_.one_in(2) ? random_.below(4)
						    : random_.word()); // requests
		append(request, random_.one_in(2) ? 0 : random_.one_in(2) ? random_.below(4) : random_.word()); // SGEs
		append(request, random_.one_in(2) ? static_cast<std::uint32_t>(sizeof(ib_uverbs_send_wr))
						  : random_.nonsense(128));
		for (std::uint32_t n = 4 * random_.below(100); n > 0; n--)
			request.push_back(random_.octet());
		send(random_.one_in(2) ? IB_USER_VERBS_CMD_POST_SEND : IB_USER_VERBS_CMD_POST_RECV, request, 4);
	}

	void by_ioctl()
	{
		const std::uint32_t number = random_.below(12);
		ib_uverbs_ioctl_hdr header = {
			.length = static_cast<std::uint16_t>(sizeof(header) + number * sizeof(ib_uverbs_attr)),
			.object_id =
				static_cast<std::uint16_t>(random_.one_in(20) ? random_.word() : random_.below(20)),
			.method_id = static_cast<std::uint16_t>(random_.one_in(20) ? random_.word() : random_.below(8)),
			.num_attrs = static_cast<std::uint16_t>(random_.one_in(20) ? random_.word() : number),
			.driver_id = KIWARP_DRIVER_ID,
		};
		std::vector<std::uint8_t> command;

		if (random_.one_in(20))
			header.length = static_cast<std::uint16_t>(random_.word());
		append(command, header);
		random_.fill({input_.data(), input_.size()});
		for (std::uint32_t i = 0; i < number; i++)
			append(command, attribute(i));
		// As long as it says, at least
		command.resize(std::max<std::size_t>(command.size(), header.length));
		count(ioctl(side_.device().fd(), RDMA_VERBS_IOCTL, command.data()) == 0);
	}
	ib_uverbs_attr attribute(std::uint32_t place)
	{
		ib_uverbs_attr attribute{};

		// Those of the driver begin at 0x1000.
		attribute.attr_id = static_cast<std::uint16_t>(place + (random_.one_in(3) ? 0x1000 : 0));
		attribute.len = static_cast<std::uint16_t>(
			random_.one_in(4) ? random_.word() : random_.pick(std::array{0U, 4U, 8U, 16U, 48U, 64U}));
		attribute.flags = static_cast<std::uint16_t>(random_.below(2));
		if (random_.one_in(3))
			attribute.data = handle();
		else
			attribute.data = random_.one_in(2) ? input_.address() : somewhere();
		return attribute;
	}

	/// What the module has to refuse, by its header
	void refusals()
	{
		const auto create_qp = [&](std::size_t driver_octets, std::uint32_t flags, std::uint16_t reserved,
					       std::size_t answer) {
			const ib_uverbs_create_qp request = {.response = answers_.address(),
				.pd_handle = side_.pd(),
				.send_cq_handle = side_.cq().handle,
				.recv_cq_handle = side_.cq().handle,
				.max_send_wr = 4,
				.max_recv_wr = 4,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.qp_type = IBV_QPT_RC};
			const kiw_create_qp_req own = {.flags = flags, .reserved = reserved};
			return side_.device().call(IB_USER_VERBS_CMD_CREATE_QP, bytes_of(request),
				bytes_of(own).first(driver_octets), std::span(answers_.data(), answer));
		};
		constexpr std::size_t whole = sizeof(ib_uverbs_create_qp_resp) + sizeof(kiw_create_qp_resp);

		demand(create_qp(sizeof(kiw_create_qp_req), 0, 0, whole) == 0, "a good CREATE_QP was refused");
		demand(create_qp(0, 0, 0, whole) == EINVAL, "CREATE_QP without our part was accepted");
		demand(create_qp(8, 0, 0, whole) == EINVAL, "CREATE_QP with half of our part was accepted");
		demand(create_qp(sizeof(kiw_create_qp_req), 1, 0, whole) == EINVAL,
			"CREATE_QP with a flag was accepted");
		demand(create_qp(sizeof(kiw_create_qp_req), 0, 1, whole) == EINVAL,
			"CREATE_QP with something reserved was accepted");
		demand(create_qp(sizeof(kiw_create_qp_req), 0, 0, whole - 8) == EINVAL,
			"CREATE_QP with too little room for the response was accepted");
	}

	Part &part_;
	Random random_;
	RawSide &side_;
	Pages input_{4096};
	Pages answers_{19 * 4096};
	Pages read_only_{4096};
};

} // namespace

void send_nonsense(Part &part)
{
	const Devices devices = find_devices();
	vt::Listener listener;
	// Commands may have given us files that we don't know of: all above this one.
	const int first = dup(STDIN_FILENO);

	while (part.running()) {
		{
			RawPair pair(devices, listener, part);
			Nonsense(part, pair).play();
		}
		close_range(static_cast<unsigned int>(first) + 1, ~0U, 0);
	}
}

} // namespace storm
