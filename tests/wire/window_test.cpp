// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Memory windows: what a peer may do with their STags.
#include "session.hpp"

namespace {

constexpr Code unknown = {1, 1, 0}, not_of_this_stream = {1, 1, 2};
constexpr Code not_of_this_stream_to_invalidate = {0, 1, 9}, not_to_invalidate = {0, 2, 9};

using Mw = std::unique_ptr<ibv_mw, vt::Closer<ibv_mw, ibv_dealloc_mw>>;

// A window on memory that nothing else opens to peers
class Window {
public:
	Window(Session &s, ibv_mw_type type)
		: side_(s.kiwarp()),
		  region_(side_.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
		  mw_(ibv_alloc_mw(side_.pd(), type))
	{
		if (!mw_)
			vt::fail("ibv_alloc_mw", errno);
		s.greet();
		region_.fill(0);
		bind();
	}

	// By the next key
	void bind()
	{
		const ibv_mw_bind_info info = {region_.mr(), region_.address(), region_.size(),
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

		if (mw_->type == IBV_MW_TYPE_1) {
			ibv_mw_bind request = {1, IBV_SEND_SIGNALED, info};
			EXPECT_EQ(ibv_bind_mw(side_.qp(), mw_.get(), &request), 0);
		} else {
			ibv_send_wr wr{}, *bad = nullptr;
			mw_->rkey = ibv_inc_rkey(mw_->rkey);
			wr.opcode = IBV_WR_BIND_MW;
			wr.send_flags = IBV_SEND_SIGNALED;
			wr.bind_mw = {mw_.get(), mw_->rkey, info};
			EXPECT_EQ(ibv_post_send(side_.qp(), &wr, &bad), 0);
		}
		EXPECT_EQ(side_.sent().status, IBV_WC_SUCCESS);
	}

	uint32_t stag() const { return mw_->rkey; }
	Bytes write(const Bytes &what, uint32_t stag) const { return write_segment(stag, region_.address(), what); }
	Bytes write(const Bytes &what) const { return write(what, stag()); }
	bool has(const Bytes &what) const { return std::equal(what.begin(), what.end(), region_.data()); }
	bool untouched() const { return vt::all_equal(region_.bytes(), 0); }

private:
	vt::Side &side_;
	vt::Region region_;
	Mw mw_;
};

Bytes send_inv(uint32_t number, uint32_t stag)
{
	return untagged_segment(op_send_inv, 0, number, 0, {}, last | ddp_1, rdmap_1, stag);
}

// Another stream of the protection domain of a session in which kiwarp listens
class SecondStream {
public:
	explicit SecondStream(Session &s) : peer(dial(listener().port()))
	{
		peer.link.send(frame({}));
		auto [id, event] = listener().request();
		id_ = std::move(id);
		ibv_qp_init_attr attr{};
		attr.send_cq = s.kiwarp().send_cq();
		attr.recv_cq = s.kiwarp().recv_cq();
		attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
		attr.qp_type = IBV_QPT_RC;
		EXPECT_EQ(rdma_create_qp(id_.get(), s.kiwarp().pd(), &attr), 0);
		ibv_recv_wr wr{}, *bad = nullptr;
		EXPECT_EQ(ibv_post_recv(id_->qp, &wr, &bad), 0);
		rdma_conn_param param = vt::parameters({}, 1);
		EXPECT_EQ(rdma_accept(id_.get(), &param), 0);
		peer.link.frame(reply_key);
	}
	~SecondStream() { rdma_destroy_qp(id_.get()); }

	Peer peer;

private:
	vt::Id id_;
};

TEST(Window, r175_a_new_key_makes_the_old_one_invalid)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		Window w(s, IBV_MW_TYPE_1);
		const uint32_t old = w.stag();
		w.bind();
		s.peer().send(w.write(hello));
		s.sync(1);
		EXPECT_TRUE(w.has(hello));
		const Bytes bad = w.write(pattern(8), old);
		s.peer().send(bad);
		s.expect_terminate(terminate_segment(unknown, Headers::ddp, bad));
		EXPECT_TRUE(w.has(hello));
	}
}

TEST(Window, r137_r139_invalidation_by_the_peer)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Window w(s, IBV_MW_TYPE_2);
		s.peer().send(w.write(hello));
		s.peer().send(send_inv(1, w.stag()));
		const ibv_wc wc = s.kiwarp().received();
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
		EXPECT_EQ(wc.invalidated_rkey, w.stag());
		EXPECT_TRUE(w.has(hello));
		const Bytes bad = w.write(pattern(8));
		s.peer().send(bad);
		s.expect_terminate(terminate_segment(unknown, Headers::ddp, bad));
		EXPECT_TRUE(w.has(hello));
	}
}

TEST(Window, r138_invalidation_of_what_is_invalid)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Window w(s, IBV_MW_TYPE_2);
		s.peer().send(send_inv(1, w.stag()));
		EXPECT_EQ(s.kiwarp().received().status, IBV_WC_SUCCESS);
		const Bytes bad = send_inv(2, w.stag());
		s.peer().send(bad);
		s.expect_terminate(terminate_segment(not_to_invalidate, Headers::ddp, bad));
	}
}

TEST(Window, r140_a_window_that_streams_share)
{
	for (const Terms &t : both_crcs()) {
		Session s(t);
		const Window w(s, IBV_MW_TYPE_1);
		const Bytes bad = send_inv(1, w.stag());
		s.peer().send(bad);
		s.expect_terminate(terminate_segment(not_to_invalidate, Headers::ddp, bad));
		SecondStream second(s);
		second.peer.send(w.write(hello));
		second.peer.send(read_segment(1, w.stag(), 0, 0));
		second.peer.expect(tagged_segment(op_response, Read{}.sink_stag, 0, {}));
		EXPECT_TRUE(w.has(hello));
	}
}

TEST(Window, r177_a_write_of_another_queue_pair)
{
	Session s({});
	const Window w(s, IBV_MW_TYPE_2);
	SecondStream second(s);
	const Bytes bad = w.write(hello);
	second.peer.send(bad);
	second.peer.expect(terminate_segment(not_of_this_stream, Headers::ddp, bad));
	EXPECT_TRUE(w.untouched());
	s.peer().send(w.write(hello));
	s.sync(1);
	EXPECT_TRUE(w.has(hello));
}

TEST(Window, r138_r177_an_invalidation_by_another_queue_pair)
{
	Session s({});
	const Window w(s, IBV_MW_TYPE_2);
	SecondStream second(s);
	const Bytes bad = send_inv(1, w.stag());
	second.peer.send(bad);
	second.peer.expect(terminate_segment(not_of_this_stream_to_invalidate, Headers::ddp, bad));
	EXPECT_EQ(s.kiwarp().received().status, IBV_WC_REM_INV_REQ_ERR);
	s.peer().send(w.write(hello));
	s.sync(1);
	EXPECT_TRUE(w.has(hello));
}

} // namespace
