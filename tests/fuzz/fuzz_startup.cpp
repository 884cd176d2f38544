// SPDX-License-Identifier: GPL-2.0
// MPA start-up: frames that arrive in pieces, frames that are built, and what two sides agree on.
#include "fuzz.hpp"
#include "receiver.hpp"

using library::require;

static uint8_t rtr(uint8_t mask)
{
	return (mask & KIW_RTR_SEND ? model::by_send : 0) | (mask & KIW_RTR_WRITE ? model::by_write : 0) |
	       (mask & KIW_RTR_READ ? model::by_read : 0);
}

static model::StartFrame translated(const kiw_mpa_frame &f)
{
	model::StartFrame s;

	s.reply = f.kind == KIW_MPA_REPLY;
	s.revision = f.rev;
	s.reject = f.reject;
	s.crc = f.crc;
	s.markers = f.markers;
	s.large = f.large;
	s.extensions = f.ext;
	s.enhanced = f.enhanced;
	s.peer_to_peer = f.p2p;
	s.rtr = rtr(f.rtr);
	s.ird = f.ird;
	s.ord = f.ord;
	s.data.assign(f.pd, f.pd + f.pd_len);
	return s;
}

static model::Terms translated(const kiw_mpa_result &r)
{
	model::Terms t;

	t.enhanced = r.enhanced;
	t.crc = r.crc;
	t.markers_out = r.markers_tx;
	t.markers_in = r.markers_rx;
	t.large = r.large;
	t.extensions = r.ext;
	t.peer_to_peer = r.p2p;
	t.revision = r.rev;
	t.rtr = rtr(r.rtr);
	t.ird = r.ird;
	t.ord = r.ord;
	t.peer_ird = r.peer_ird;
	t.peer_ord = r.peer_ord;
	return t;
}

// Both make the same of the octets that have arrived. Returns what the parser wants next, 0 if it is through.
static size_t look(model::Octets arrived, bool reply, kiw_mpa_frame &f, Bytes &exact)
{
	const model::Startup expected = model::startup(arrived, reply);

	exact.reserve(1); // there is a buffer, even with nothing in it
	exact.assign(arrived.begin(), arrived.end());
	const kiw_step step = kiw_mpa_parse(exact.data(), exact.size(), reply ? KIW_MPA_REPLY : KIW_MPA_REQUEST, &f);
	switch (step) {
	case KIW_MORE:
		require(!expected.malformed && !expected.frame, "the library wants more of a frame that is over");
		require(f.need > arrived.size() && f.need <= KIW_MPA_FRAME_MAX, "the library wants what can't be");
		return f.need;
	case KIW_BAD: {
		const uint8_t why = f.bad == KIW_MPA_BAD_KEY	  ? model::bad_key
				    : f.bad == KIW_MPA_BAD_REV	  ? model::bad_revision
				    : f.bad == KIW_MPA_BAD_PD_LEN ? model::bad_length
				    : f.bad == KIW_MPA_BAD_V2	  ? model::bad_word
								  : 0;
		require(expected.malformed & why, "the library refuses a frame, or for another reason");
		return 0;
	}
	case KIW_DONE:
		require(expected.frame.has_value(), "the library takes a frame that isn't one");
		require(f.len == expected.consumed, "the frame has another length");
		require(translated(f) == *expected.frame, "the frame has another meaning");
		return 0;
	}
	library::finding("no such step");
}

// A peer's frame: as a socket brings it, no more than was asked for, and besides at any length there is
static bool arrives(const Bytes &stream, bool reply, Input &in, kiw_mpa_frame &f, Bytes &exact)
{
	size_t have = 0;
	kiw_mpa_frame other;
	Bytes scratch;

	for (int i = 0; i < 4; i++)
		look(model::Octets(stream).first(stream.empty() ? 0 : in.u16() % (stream.size() + 1)), reply, other,
			scratch);
	look(stream, reply, other, scratch);
	for (;;) {
		const size_t need = look(model::Octets(stream).first(have), reply, f, exact);
		if (!need)
			return model::startup(model::Octets(stream).first(have), reply).frame.has_value();
		if (have == stream.size())
			return false;
		have = std::min(need, stream.size());
	}
}

// What is built is what was meant
static Bytes built(kiw_mpa_frame &f, const Bytes &data, const model::StartFrame &meant)
{
	Bytes b(KIW_MPA_FRAME_MAX);
	model::StartFrame with_data = meant;

	with_data.data = data;
	f.pd = data.empty() ? nullptr : data.data();
	f.pd_len = uint16_t(data.size());
	b.resize(kiw_mpa_build(b.data(), &f));
	require(b == model::encode(with_data), "the frame that is built has other octets");
	const model::Startup back = model::startup(b, meant.reply);
	require(back.frame == with_data && back.consumed == b.size(), "the frame that is built has another meaning");
	return b;
}

static Bytes private_data(Input &in, const kiw_mpa_frame &f)
{
	Bytes b(in.u16() % (kiw_mpa_pd_max(&f) + 1));

	for (auto &octet : b)
		octet = uint8_t(&octet - b.data());
	return b;
}

struct Side {
	kiw_mpa_cfg library;
	model::Wishes model;
};

static Side side(Input &in)
{
	const uint8_t flags = in.u8();
	const uint8_t more = in.u8();
	const uint8_t mask = flags >> 5 ? flags >> 5 : 7;
	auto depth = [&] {
		return uint16_t(in.u16() % (KIW_DEPTH_MAX + 1));
	};
	Side s = {};

	s.model.revision = flags & 1 ? 2 : 1;
	s.model.crc = flags & 2;
	s.model.markers = flags & 4;
	s.model.large = flags & 8;
	s.model.extensions = more & 1;
	s.model.peer_to_peer = flags & 16;
	s.model.rtr = rtr(mask);
	s.model.ird = depth();
	s.model.ord = depth();
	s.model.ird_max = depth();
	s.library.rev = s.model.revision;
	s.library.crc = s.model.crc;
	s.library.markers = s.model.markers;
	s.library.large = s.model.large;
	s.library.ext = s.model.extensions;
	s.library.p2p = s.model.peer_to_peer;
	s.library.rtr = mask;
	s.library.ird = s.model.ird;
	s.library.ord = s.model.ord;
	s.library.ird_max = s.model.ird_max;
	return s;
}

static void objects_to(kiw_err err, const model::Settled &s)
{
	const bool fine = err == KIW_OK			       ? !s.frame && !s.ird && !s.rtr
			  : err == KIW_ERR_LLP_FRAME	       ? s.frame
			  : err == KIW_ERR_LLP_IRD && !s.frame ? s.ird
			  : err == KIW_ERR_LLP_RTR && !s.frame ? s.rtr
							       : false;
	require(fine, "the library objects to other terms");
}

static void respond(const Side &own, const kiw_mpa_frame &req, const Bytes &octets, bool refuse, Input &in)
{
	kiw_mpa_frame rep;
	kiw_mpa_result res;
	const kiw_err err = kiw_mpa_answer(&own.library, &req, &rep, &res);
	model::Settled expected = model::answer(own.model, *model::startup(octets, false).frame);

	objects_to(err, expected);
	if (expected.frame)
		return;
	require(translated(res) == expected.terms, "the responder settles on other terms");
	rep.reject = expected.own.reject = refuse;
	built(rep, private_data(in, rep), expected.own);
}

// The initiator sends a Request and gets this as Reply.
static void initiate(const Side &own, const Bytes &stream, Input &in)
{
	kiw_mpa_frame req, rep;
	kiw_mpa_result res;
	Bytes exact;

	kiw_mpa_request(&own.library, &req);
	const Bytes data = private_data(in, req);
	const Bytes sent = built(req, data, model::request(own.model));
	if (!arrives(stream, true, in, rep, exact) || rep.reject)
		return;
	const kiw_err err = kiw_mpa_conclude(&own.library, &req, &rep, &res);
	const model::Settled expected =
		model::conclude(own.model, *model::startup(sent, false).frame, *model::startup(exact, true).frame);
	objects_to(err, expected);
	require(res.crc == expected.terms.crc && res.markers_tx == expected.terms.markers_out &&
			res.markers_rx == expected.terms.markers_in,
		"a Terminate would be framed in another way");
	if (err == KIW_OK)
		require(translated(res) == expected.terms, "the initiator settles on other terms");
}

// Behind the frame, for what is chosen after it
static constexpr size_t tail = 24;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in(data, size);
	const uint8_t how = in.u8();
	const Side own = side(in);
	Bytes stream = in.some(size > tail ? size - tail : 0);

	// Sixteen octets are hard to guess
	if (how & 1) {
		const auto key = how & 2 ? reply_key : request_key;
		stream = Bytes(key.begin(), key.end()) + stream;
	}
	if (how & 2) {
		initiate(own, stream, in);
		return 0;
	}
	kiw_mpa_frame req;
	Bytes exact;
	if (arrives(stream, false, in, req, exact))
		respond(own, req, exact, how & 4, in);
	return 0;
}
