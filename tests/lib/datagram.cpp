// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "datagram.hpp"

#include <cerrno>

#include "link.hpp"

namespace ud {

namespace {

vt::Cq make_recv_cq(ibv_context *context, const Options &options, ibv_comp_channel *channel)
{
	if (!options.extended_cq)
		return vt::make_cq(context, options.completions, channel);
	ibv_cq_init_attr_ex attr{};

	attr.cqe = static_cast<std::uint32_t>(options.completions);
	attr.channel = channel;
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
	if (!cq)
		vt::fail("ibv_create_cq_ex", errno);
	return vt::Cq(ibv_cq_ex_to_cq(cq));
}

vt::Queues make_queues(ibv_context *context, const Options &options)
{
	vt::Queues queues;

	queues.channel.reset(ibv_create_comp_channel(context));
	queues.send = vt::make_cq(context, options.completions);
	queues.recv = make_recv_cq(context, options, queues.channel.get());
	return queues;
}

} // namespace

End::End(const std::string &device, const Options &options)
	: Endpoint(options.open(device), [&options](ibv_context *context) { return make_queues(context, options); }),
	  device_(device),
	  memory_(std::make_unique<vt::Region>(pd(), options.memory))
{
	ibv_qp_init_attr_ex attr{};

	attr.send_cq = send_cq();
	attr.recv_cq = recv_cq();
	attr.qp_type = IBV_QPT_UD;
	if (options.shared)
		srq_ = vt::make_srq(pd(), options.depth, options.sges);
	attr.srq = srq();
	attr.cap = {options.depth, options.depth, options.sges, options.sges, options.max_inline};
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd();
	if (options.send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = options.send_ops;
	}
	qp_.reset(options.create_qp(context(), &attr));
	if (!qp_)
		vt::fail("a queue pair", errno);
	go_to(options.state, options.key);
}

int End::modify(ibv_qp_state state, std::uint32_t key)
{
	ibv_qp_attr attr{};
	int mask = IBV_QP_STATE;

	attr.qp_state = state;
	attr.port_num = 1;
	attr.qkey = key;
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	else if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN;
	return Endpoint::modify(attr, mask);
}

void End::go_to(ibv_qp_state state, std::uint32_t key)
{
	for (const ibv_qp_state step : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
		if (step <= state)
			if (const int error = modify(step, key))
				vt::fail("ibv_modify_qp", error);
}

Ah End::make_ah(const Gid &from, const ibv_gid &to, std::uint8_t hop_limit, std::uint8_t traffic_class) const
{
	ibv_ah_attr attr{};

	attr.is_global = 1;
	attr.port_num = 1;
	attr.grh.sgid_index = static_cast<std::uint8_t>(from.slot);
	attr.grh.dgid = to;
	attr.grh.hop_limit = hop_limit;
	attr.grh.traffic_class = traffic_class;
	return Ah(ibv_create_ah(pd(), &attr));
}

Ah End::ah(const std::string &from, const End &peer, const std::string &to) const
{
	Ah ah = make_ah(gid(from), peer.gid(to).gid);

	if (!ah)
		vt::fail("ibv_create_ah", errno);
	return ah;
}

int End::try_send(const To &to, const std::vector<ibv_sge> &list, std::uint64_t id, unsigned int flags) const
{
	std::vector<ibv_sge> sges = list;
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	wr.wr_id = id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = flags;
	wr.wr.ud = {to.ah, to.number, to.key};
	return ibv_post_send(qp_.get(), &wr, &bad);
}

void End::send(const To &to, std::size_t offset, std::size_t length) const
{
	if (const int error = try_send(to, {memory_->sge(offset, length)}, 1000))
		vt::fail("ibv_post_send", error);
	EXPECT_WC(sent(), 1000, IBV_WC_SUCCESS);
}

void End::receive(std::uint64_t id, std::size_t offset, std::size_t payload) const
{
	ibv_sge sge = memory_->sge(offset, grh + payload);
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (const int error = srq() ? ibv_post_srq_recv(srq(), &wr, &bad) : ibv_post_recv(qp(), &wr, &bad))
		vt::fail("posting a receive", error);
}

std::uint64_t End::counter(const std::string &name) const
{
	return vt::counter(context(), name);
}

void End::expect_counter(const std::string &name, std::uint64_t value) const
{
	vt::wait_until([&] { return counter(name) == value; }, name + " to be " + std::to_string(value));
}

} // namespace ud
