// SPDX-License-Identifier: GPL-2.0
// What two sides agree on. Frames travel through their wire form in each test.
#include "support.hpp"

namespace {

kiw_mpa_cfg plain()
{
	kiw_mpa_cfg c{};
	c.rev = 1;
	c.rtr = KIW_RTR_WRITE | KIW_RTR_READ;
	c.ird = c.ord = 16;
	c.ird_max = 128;
	return c;
}

kiw_mpa_cfg enhanced()
{
	kiw_mpa_cfg c = plain();
	c.rev = 2;
	return c;
}

kiw_mpa_cfg p2p(std::uint8_t rtr)
{
	kiw_mpa_cfg c = enhanced();
	c.p2p = true;
	c.rtr = rtr;
	return c;
}

kiw_mpa_frame over_the_wire(const kiw_mpa_frame &f)
{
	Bytes b(KIW_MPA_FRAME_MAX, 0xee);
	kiw_mpa_frame out;
	const std::size_t n = kiw_mpa_build(b.data(), &f);
	// What lies behind the frame stays.
	EXPECT_EQ(Bytes(b.begin() + static_cast<std::ptrdiff_t>(n), b.end()), Bytes(b.size() - n, 0xee));
	b.resize(n);
	EXPECT_EQ(kiw_mpa_parse(b.data(), b.size(), f.kind, &out), KIW_DONE);
	return out;
}

struct Outcome {
	kiw_mpa_frame req, rep;
	kiw_err answer, conclude;
	kiw_mpa_result initiator, responder;
};

Outcome negotiate(const kiw_mpa_cfg &initiator, const kiw_mpa_cfg &responder, int before = 0)
{
	Outcome o;

	std::memset(&o, before, sizeof(o));
	kiw_mpa_request(&initiator, &o.req);
	const kiw_mpa_frame req = over_the_wire(o.req);
	o.answer = kiw_mpa_answer(&responder, &req, &o.rep, &o.responder);
	const kiw_mpa_frame rep = over_the_wire(o.rep);
	o.conclude = kiw_mpa_conclude(&initiator, &o.req, &rep, &o.initiator);
	return o;
}

TEST(Terms, outputs_hold_nothing_from_before)
{
	for (const kiw_mpa_cfg &i : {plain(), enhanced(), p2p(KIW_RTR_WRITE), p2p(KIW_RTR_READ)}) {
		for (const kiw_mpa_cfg &r : {plain(), enhanced(), p2p(KIW_RTR_WRITE | KIW_RTR_READ)}) {
			const Outcome clean = negotiate(i, r), dirty = negotiate(i, r, 0xff);

			if (!clean.rep.enhanced) {
				EXPECT_EQ(clean.rep.ird, 0);
				EXPECT_EQ(clean.rep.ord, 0);
			}
			EXPECT_EQ(clean.req.kind, KIW_MPA_REQUEST);
			EXPECT_EQ(clean.rep.kind, KIW_MPA_REPLY);
			EXPECT_EQ(clean.responder.enhanced, clean.rep.enhanced);
			EXPECT_EQ(clean.initiator.enhanced, clean.req.enhanced);
			EXPECT_EQ(std::memcmp(&clean.req, &dirty.req, sizeof(clean.req)), 0);
			EXPECT_EQ(std::memcmp(&clean.rep, &dirty.rep, sizeof(clean.rep)), 0);
			EXPECT_EQ(std::memcmp(&clean.initiator, &dirty.initiator, sizeof(clean.initiator)), 0);
			EXPECT_EQ(std::memcmp(&clean.responder, &dirty.responder, sizeof(clean.responder)), 0);
		}
	}
}

TEST(Terms, depths_have_a_limit)
{
	kiw_mpa_cfg c = enhanced();

	c.ird = c.ord = c.ird_max = 0xffff;
	const Outcome o = negotiate(c, c);
	EXPECT_EQ(o.req.ird, KIW_DEPTH_MAX);
	EXPECT_EQ(o.initiator.ird, KIW_DEPTH_MAX);
	EXPECT_EQ(o.initiator.ord, KIW_DEPTH_MAX);
	EXPECT_EQ(o.responder.ird, KIW_DEPTH_MAX);
	EXPECT_EQ(o.responder.ord, KIW_DEPTH_MAX);
}

TEST(Terms, only_a_read_that_opens_the_stream_needs_a_place)
{
	for (const int rtr : {KIW_RTR_WRITE, KIW_RTR_SEND, KIW_RTR_READ}) {
		kiw_mpa_cfg c = p2p(static_cast<std::uint8_t>(rtr));
		kiw_mpa_frame req;

		c.ord = c.ird = c.ird_max = 0;
		kiw_mpa_request(&c, &req);
		EXPECT_EQ(req.ord, rtr == KIW_RTR_READ ? 1 : 0);
		EXPECT_EQ(negotiate(c, c).responder.ird, rtr == KIW_RTR_READ ? 1 : 0);
	}
}

TEST(Terms, crc_is_on_if_either_side_wants_it)
{
	for (bool a : {false, true}) {
		for (bool b : {false, true}) {
			kiw_mpa_cfg i = plain(), r = plain();
			i.crc = a;
			r.crc = b;
			const Outcome o = negotiate(i, r);
			EXPECT_EQ(o.initiator.crc, a || b);
			EXPECT_EQ(o.responder.crc, a || b);
			// Initiators that insist on it look for their bit in the Reply.
			EXPECT_EQ(o.rep.crc, a || b);
		}
	}
}

TEST(Terms, each_side_decides_on_the_markers_it_receives)
{
	for (bool a : {false, true}) {
		for (bool b : {false, true}) {
			kiw_mpa_cfg i = plain(), r = plain();
			i.markers = a;
			r.markers = b;
			const Outcome o = negotiate(i, r);
			EXPECT_EQ(o.initiator.markers_rx, a);
			EXPECT_EQ(o.responder.markers_tx, a);
			EXPECT_EQ(o.initiator.markers_tx, b);
			EXPECT_EQ(o.responder.markers_rx, b);
		}
	}
}

TEST(Terms, large_fpdus_take_both_sides)
{
	for (std::uint8_t rev : {1, 2}) {
		for (bool a : {false, true}) {
			for (bool b : {false, true}) {
				kiw_mpa_cfg i = plain(), r = enhanced();
				i.rev = rev;
				i.large = a;
				r.large = b;
				const Outcome o = negotiate(i, r);
				EXPECT_EQ(o.req.large, a);
				EXPECT_EQ(o.rep.large, a && b);
				EXPECT_EQ(o.initiator.large, a && b);
				EXPECT_EQ(o.responder.large, a && b);
			}
		}
	}
}

TEST(Terms, extensions_take_both_sides)
{
	for (std::uint8_t rev : {1, 2}) {
		for (bool a : {false, true}) {
			for (bool b : {false, true}) {
				kiw_mpa_cfg i = plain(), r = enhanced();
				i.rev = rev;
				i.ext = a;
				r.ext = b;
				const Outcome o = negotiate(i, r);
				EXPECT_EQ(o.req.ext, a);
				EXPECT_EQ(o.rep.ext, a && b);
				EXPECT_EQ(o.initiator.ext, a && b);
				EXPECT_EQ(o.responder.ext, a && b);
				EXPECT_FALSE(o.initiator.large);
			}
		}
	}
}

TEST(Terms, echoed_request_bits_switch_nothing_on)
{
	kiw_mpa_cfg i = plain();
	i.large = true;
	i.ext = true;
	kiw_mpa_frame req, rep;
	kiw_mpa_result res;
	kiw_mpa_request(&i, &req);
	Bytes b(KIW_MPA_FRAME_MAX);
	b.resize(kiw_mpa_build(b.data(), &req));
	std::memcpy(b.data(), KIW_MPA_KEY_REP, KIW_MPA_KEY_LEN);
	ASSERT_EQ(kiw_mpa_parse(b.data(), b.size(), KIW_MPA_REPLY, &rep), KIW_DONE);
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_OK);
	EXPECT_FALSE(res.large);
	EXPECT_FALSE(res.ext);
}

TEST(Terms, old_request_gets_an_old_reply)
{
	const Outcome o = negotiate(plain(), enhanced());
	EXPECT_EQ(o.answer, KIW_OK);
	EXPECT_EQ(o.conclude, KIW_OK);
	EXPECT_EQ(o.rep.rev, 1);
	EXPECT_FALSE(o.rep.enhanced);
	for (const kiw_mpa_result &r : {o.initiator, o.responder}) {
		EXPECT_EQ(r.rev, 1);
		EXPECT_FALSE(r.enhanced);
		EXPECT_FALSE(r.p2p);
		EXPECT_EQ(r.rtr, 0);
		EXPECT_EQ(r.ird, 16);
		EXPECT_EQ(r.ord, 16);
		EXPECT_EQ(r.peer_ird, KIW_DEPTH_UNSET);
		EXPECT_EQ(r.peer_ord, KIW_DEPTH_UNSET);
	}
}

TEST(Terms, revision_2_without_enhancement_is_answered_without)
{
	kiw_mpa_frame req{}, rep;
	kiw_mpa_result res;
	req.kind = KIW_MPA_REQUEST;
	req.rev = 2;
	const kiw_mpa_cfg r = enhanced();
	EXPECT_EQ(kiw_mpa_answer(&r, &req, &rep, &res), KIW_OK);
	EXPECT_FALSE(rep.enhanced);
	EXPECT_FALSE(res.enhanced);
	EXPECT_EQ(res.ird, 16);
}

TEST(Terms, old_responder_closes_on_a_new_request)
{
	EXPECT_EQ(negotiate(enhanced(), plain()).answer, KIW_ERR_LLP_FRAME);
}

TEST(Terms, reply_must_fit_the_request)
{
	kiw_mpa_cfg i = enhanced();
	kiw_mpa_frame req, rep{};
	kiw_mpa_result res;
	kiw_mpa_request(&i, &req);
	rep.kind = KIW_MPA_REPLY;
	rep.rev = 1;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_FRAME);
	rep.rev = 2;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_FRAME);
	rep.enhanced = true;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_OK);

	i = plain();
	kiw_mpa_request(&i, &req);
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_FRAME);
	rep.enhanced = false;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_FRAME);
	rep.rev = 1;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_OK);
}

TEST(Terms, depths_agree_for_every_combination)
{
	const std::uint16_t depths[] = {0, 1, 2, 16, 127, 128, 129, 0x3ffe};
	for (auto i_ird : depths) {
		for (auto i_ord : depths) {
			for (auto r_ird : depths) {
				for (auto r_ord : depths) {
					for (std::uint16_t limit : {0, 1, 64, 0x3ffe}) {
						kiw_mpa_cfg i = enhanced(), r = enhanced();
						i.ird = i_ird;
						i.ord = i_ord;
						r.ird = r_ird;
						r.ord = r_ord;
						r.ird_max = limit;
						const Outcome o = negotiate(i, r);
						const bool fits = i_ord <= std::max(r_ird, limit);

						ASSERT_EQ(o.answer, fits ? KIW_OK : KIW_ERR_LLP_IRD);
						ASSERT_EQ(o.conclude, KIW_OK);
						// Nobody has more Reads under way than the other holds
						ASSERT_LE(o.initiator.ord, o.responder.ird);
						ASSERT_LE(o.responder.ord, o.initiator.ird);
						ASSERT_EQ(o.initiator.ird, i_ird);
						ASSERT_EQ(o.responder.ord, std::min(r_ord, i_ird));
						ASSERT_GE(o.responder.ird, r_ird);
						if (fits) {
							ASSERT_EQ(o.initiator.ord, i_ord);
							ASSERT_EQ(o.responder.ird, std::max(r_ird, i_ord));
						} else {
							ASSERT_EQ(o.initiator.ord, std::max(r_ird, limit));
						}
						ASSERT_EQ(o.responder.peer_ird, i_ird);
						ASSERT_EQ(o.responder.peer_ord, i_ord);
						ASSERT_EQ(o.initiator.peer_ird, o.rep.ird);
						ASSERT_EQ(o.initiator.peer_ord, o.rep.ord);
					}
				}
			}
		}
	}
}

TEST(Terms, unset_depth_is_not_a_number)
{
	kiw_mpa_frame req, rep;
	kiw_mpa_result res;
	const kiw_mpa_cfg c = enhanced();

	kiw_mpa_request(&c, &req);
	req.ord = KIW_DEPTH_UNSET;
	EXPECT_EQ(kiw_mpa_answer(&c, &req, &rep, &res), KIW_OK);
	EXPECT_EQ(rep.ird, KIW_DEPTH_UNSET);
	EXPECT_EQ(rep.ord, 16);
	EXPECT_EQ(res.ird, 16);

	kiw_mpa_request(&c, &req);
	req.ird = KIW_DEPTH_UNSET;
	EXPECT_EQ(kiw_mpa_answer(&c, &req, &rep, &res), KIW_OK);
	EXPECT_EQ(rep.ord, KIW_DEPTH_UNSET);
	EXPECT_EQ(rep.ird, 16);
	EXPECT_EQ(res.ord, 16);

	kiw_mpa_request(&c, &req);
	rep.ird = rep.ord = KIW_DEPTH_UNSET;
	EXPECT_EQ(kiw_mpa_conclude(&c, &req, &rep, &res), KIW_OK);
	EXPECT_EQ(res.ird, 16);
	EXPECT_EQ(res.ord, 16);
	EXPECT_EQ(res.peer_ird, KIW_DEPTH_UNSET);
}

TEST(Terms, own_depth_never_reads_as_unset)
{
	kiw_mpa_cfg i = enhanced(), r = enhanced();
	i.ird = i.ord = r.ird = r.ord = r.ird_max = 0xffff;
	const Outcome o = negotiate(i, r);
	EXPECT_EQ(o.req.ird, KIW_DEPTH_MAX);
	EXPECT_EQ(o.req.ord, KIW_DEPTH_MAX);
	EXPECT_EQ(o.rep.ird, KIW_DEPTH_MAX);
	EXPECT_EQ(o.rep.ord, KIW_DEPTH_MAX);
}

TEST(Terms, initiator_lowers_its_depth_to_the_reply)
{
	const kiw_mpa_cfg i = enhanced();
	kiw_mpa_frame req, rep{};
	kiw_mpa_result res;
	kiw_mpa_request(&i, &req);
	rep.rev = 2;
	rep.enhanced = true;
	rep.ird = 2;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_OK);
	EXPECT_EQ(res.ord, 2);
	rep.ord = 17;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_IRD);
}

TEST(Terms, rtr_is_one_both_sides_know)
{
	for (std::uint8_t a = 1; a < 8; a++) {
		for (std::uint8_t b = 1; b < 8; b++) {
			const Outcome o = negotiate(p2p(a), p2p(b));
			EXPECT_TRUE(o.rep.p2p);
			EXPECT_EQ(o.rep.rtr, a & b ? a & b : b);
			EXPECT_EQ(o.responder.rtr, o.rep.rtr);
			EXPECT_EQ(o.answer, KIW_OK);
			if (!(a & b)) {
				EXPECT_EQ(o.conclude, KIW_ERR_LLP_RTR);
				continue;
			}
			EXPECT_EQ(o.conclude, KIW_OK);
			EXPECT_TRUE(o.initiator.p2p);
			EXPECT_EQ(o.initiator.rtr & (o.initiator.rtr - 1), 0);
			EXPECT_TRUE(o.initiator.rtr & a & b);
		}
	}
}

TEST(Terms, rtr_preference_is_write_then_read_then_send)
{
	EXPECT_EQ(negotiate(p2p(7), p2p(7)).initiator.rtr, KIW_RTR_WRITE);
	EXPECT_EQ(negotiate(p2p(5), p2p(7)).initiator.rtr, KIW_RTR_READ);
	EXPECT_EQ(negotiate(p2p(1), p2p(7)).initiator.rtr, KIW_RTR_SEND);
}

TEST(Terms, responder_follows_the_request_into_peer_to_peer)
{
	kiw_mpa_cfg r = enhanced();
	EXPECT_TRUE(negotiate(p2p(KIW_RTR_WRITE), r).responder.p2p);
	const Outcome o = negotiate(enhanced(), p2p(7));
	EXPECT_FALSE(o.rep.p2p);
	EXPECT_EQ(o.rep.rtr, 0);
	EXPECT_FALSE(o.initiator.p2p);
}

TEST(Terms, reply_that_drops_peer_to_peer_leaves_no_rtr)
{
	const kiw_mpa_cfg i = p2p(7);
	kiw_mpa_frame req, rep{};
	kiw_mpa_result res;
	kiw_mpa_request(&i, &req);
	rep.rev = 2;
	rep.enhanced = true;
	rep.ird = 16;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_ERR_LLP_RTR);
}

TEST(Terms, read_rtr_makes_room_for_itself)
{
	kiw_mpa_cfg i = p2p(KIW_RTR_READ), r = p2p(KIW_RTR_READ);
	i.ird = i.ord = r.ird = r.ord = r.ird_max = 0;
	const Outcome o = negotiate(i, r);
	EXPECT_EQ(o.req.ord, 1);
	EXPECT_EQ(o.answer, KIW_OK);
	EXPECT_EQ(o.responder.ird, 1);
	EXPECT_EQ(o.conclude, KIW_OK);
	EXPECT_EQ(o.initiator.rtr, KIW_RTR_READ);
	EXPECT_EQ(o.initiator.ord, 1);
}

TEST(Terms, read_rtr_is_passed_over_when_the_peer_holds_no_read)
{
	const kiw_mpa_cfg i = p2p(KIW_RTR_READ | KIW_RTR_SEND);
	kiw_mpa_frame req, rep{};
	kiw_mpa_result res;
	kiw_mpa_request(&i, &req);
	rep.rev = 2;
	rep.enhanced = rep.p2p = true;
	rep.rtr = 7;
	EXPECT_EQ(kiw_mpa_conclude(&i, &req, &rep, &res), KIW_OK);
	EXPECT_EQ(res.rtr, KIW_RTR_SEND);
}

} // namespace
