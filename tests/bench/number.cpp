// SPDX-License-Identifier: GPL-2.0
#include "connections.hpp"

#include "control.hpp"

#include <map>
#include <poll.h>

namespace bench {

namespace {

/// What programs tell each other of a queue pair; the server at last, with number 0, that all are closed
struct Name {
	ibv_gid gid;
	std::uint32_t number;
	std::uint32_t psn;
	/// In an answer: that of the peer's queue pair which it is for
	std::uint32_t peer;
};

/// Queue pairs by number; those that are under way, until they are closed
class Ends {
public:
	Ends(const Options &options, const Socket &control)
		: options_(options),
		  control_(control),
		  // One for each connection: the client, which is through first, may be any number ahead.
		  shared_(open_device(options.device), options.count),
		  address_(own_address(shared_.context()))
	{
		need(ibv_req_notify_cq(shared_.cq(), 0), "ibv_req_notify_cq");
	}
	virtual ~Ends() = default;
	Ends(const Ends &) = delete;
	Ends &operator=(const Ends &) = delete;

	[[nodiscard]] unsigned closed() const { return closed_; }
	[[nodiscard]] std::size_t under_way() const { return ends_.size(); }

	/// Sleeps until the peer has told something or a completion has come, and does what is due.
	void step()
	{
		pollfd ready[2] = {{control_.fd(), POLLIN, 0}, {shared_.channel()->fd, POLLIN, 0}};

		check(::poll(ready, 2, -1) > 0 || errno == EINTR, "poll");
		if (ready[0].revents)
			named(hear<Name>(control_));
		if (ready[1].revents)
			completions();
	}

protected:
	virtual void named(const Name &peer) = 0;

	/// A queue pair that can be named to the peer
	ibv_qp *make()
	{
		auto init = shared_.attributes();
		Qp qp(ibv_create_qp(shared_.pd(), &init));
		ibv_qp_attr attr{};

		check(qp != nullptr, "ibv_create_qp");
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		need(ibv_modify_qp(
			     qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			"INIT");
		return (ends_[qp->qp_num] = std::move(qp)).get();
	}
	void tell_name(const ibv_qp *qp, std::uint32_t peer) const
	{
		tell(control_, Name{address_.gid, qp->qp_num, psn_of(qp), peer});
	}
	/// Of those that were made
	[[nodiscard]] ibv_qp *find(std::uint32_t number) const { return ends_.at(number).get(); }
	void connect(ibv_qp *qp, const Name &peer) const
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer.number;
		attr.rq_psn = peer.psn;
		attr.max_dest_rd_atomic = 1;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh = {.dgid = peer.gid,
			.flow_label = 0,
			.sgid_index = address_.slot,
			.hop_limit = 64,
			.traffic_class = 0};
		need(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			"RTR");
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 14;
		attr.retry_cnt = attr.rnr_retry = 7;
		attr.sq_psn = psn_of(qp);
		attr.max_rd_atomic = 1;
		need(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC),
			"RTS");
	}

private:
	using Qp = Owned<ibv_qp, ibv_destroy_qp>;

	static std::uint32_t psn_of(const ibv_qp *qp) { return (qp->qp_num * 0x9e3779b1U) & 0xffffff; }

	/// One is enough: the connection is there, and this end needs it no more.
	void completions()
	{
		ibv_cq *cq = nullptr;
		void *context = nullptr;
		ibv_wc wc{};
		int n = 0;

		check(ibv_get_cq_event(shared_.channel(), &cq, &context) == 0, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		need(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		while ((n = ibv_poll_cq(cq, 1, &wc)) > 0) {
			good(wc.status);
			closed_ += unsigned(ends_.erase(wc.qp_num));
		}
		need(n < 0 ? EIO : 0, "ibv_poll_cq");
	}

	Options options_;
	const Socket &control_;
	Shared shared_;
	Address address_;
	std::map<std::uint32_t, Qp> ends_;
	unsigned closed_ = 0;
};

class Called : public Ends {
public:
	using Ends::Ends;

protected:
	/// As programs do: this end is connected first, then named.
	void named(const Name &peer) override
	{
		ibv_qp *const qp = make();
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		need(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
		connect(qp, peer);
		tell_name(qp, peer.number);
	}
};

class Calling : public Ends {
public:
	using Ends::Ends;

	void begin() { tell_name(make(), 0); }
	[[nodiscard]] bool over() const { return over_; }

protected:
	/// What is sent tells the peer that the connection is there.
	void named(const Name &peer) override
	{
		if (peer.number == 0) {
			over_ = true;
			return;
		}
		ibv_qp *const qp = find(peer.peer);
		ibv_send_wr wr{};
		ibv_send_wr *bad = nullptr;

		connect(qp, peer);
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = IBV_SEND_SIGNALED;
		need(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	}

private:
	bool over_ = false;
};

} // namespace

void serve_by_number(const Options &options, const Socket &control)
{
	Called ends(options, control);

	while (ends.closed() < options.count)
		ends.step();
	tell(control, Name{});
}

void call_by_number(const Options &options, const Socket &control)
{
	Calling ends(options, control);

	for (unsigned begun = 0; ends.closed() < options.count || !ends.over();) {
		for (; begun < options.count && ends.under_way() < options.window; begun++)
			ends.begin();
		ends.step();
	}
}

} // namespace bench
