// SPDX-License-Identifier: GPL-2.0
// The receive machine by itself: it is fed from memory, and what it hands on is written down.
#include "memory_source.hpp"
#include "support.hpp"

#include "proto/receive.h"
#include "proto/tail.h"

namespace {

// Positions wrap inside of every stream, and markers don't lie where they would from position 0 on.
constexpr std::uint32_t first_position = 0xffffff10;

struct Options {
	bool crc = true;
	bool markers = false;
};

constexpr Options all_options[] = {{false, false}, {false, true}, {true, false}, {true, true}};

std::ostream &operator<<(std::ostream &out, const Options &o)
{
	return out << (o.crc ? "CRC" : "no CRC") << (o.markers ? ", markers" : ", no markers");
}

// A stream, and where in it its parts are
struct Wire {
	Bytes bytes;
	std::vector<std::size_t> ends;	  // of FPDUs
	std::vector<std::size_t> markers; // where they start

	void add(const Bytes &ulpdu, const Options &o)
	{
		const auto n = static_cast<std::uint32_t>(ulpdu.size());
		Bytes plain{static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
		const std::size_t start = bytes.size();
		kiw_marker mk;

		plain = plain + ulpdu;
		plain.resize(plain.size() + kiw_fpdu_pad(n));
		kiw_marker_begin(&mk, static_cast<std::uint32_t>(start), o.markers);
		for (std::size_t at = 0; at < plain.size();) {
			marker(mk);
			const auto run = kiw_marker_run(&mk, static_cast<std::uint32_t>(plain.size() - at));
			bytes = bytes + slice(plain, at, run);
			at += run;
		}
		marker(mk);
		bytes.resize(bytes.size() + KIW_FPDU_CRC_SIZE);
		ends.push_back(bytes.size());
		if (o.crc)
			seal(start, bytes.size());
	}
	// Makes the CRC of the FPDU between two places right
	void seal(std::size_t start, std::size_t end)
	{
		const std::size_t at = end - KIW_FPDU_CRC_SIZE;
		const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), &bytes[start], at - start));

		std::memcpy(&bytes[at], &crc, sizeof(crc));
	}

private:
	void marker(kiw_marker &mk)
	{
		if (!kiw_marker_due(&mk))
			return;
		markers.push_back(bytes.size());
		bytes.resize(bytes.size() + KIW_MARKER_SIZE);
		kiw_marker_put(&mk, &bytes[bytes.size() - KIW_MARKER_SIZE]);
	}
};

// Untagged and tagged segments with and without payload, with each length of PAD, shorter and longer than a marker's
// spacing
std::vector<Bytes> some_ulpdus()
{
	return {
		tagged(KIW_OP_WRITE, 7, 0x1000),
		untagged(KIW_OP_SEND, KIW_QN_SEND, 1, 0, counting(5)),
		tagged(KIW_OP_WRITE, 7, 0x2000, counting(1300, 3), false),
		read_request(1, {1, 2, 3, 4, 5}),
		untagged(KIW_OP_SEND_INV, KIW_QN_SEND, 2, 0, counting(478, 9), true, 77),
		tagged(KIW_OP_READ_RESP, 9, 0x3000, counting(7)),
		terminate(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, 7, 0x2000)),
	};
}

Wire wire_of(const std::vector<Bytes> &ulpdus, const Options &o)
{
	Wire w;

	for (const auto &ulpdu : ulpdus)
		w.add(ulpdu, o);
	return w;
}

class Machine : public kiw_receive {
public:
	explicit Machine(const Options &o, std::uint32_t caps = 0) : kiw_receive{}, src(first_position)
	{
		kiw_receive_init(this, first_position, o.crc, o.markers, caps);
	}

	void feed(std::span<const std::uint8_t> piece)
	{
		src.add(piece);
		while (verdict == KIW_OK && !stopped && kiw_source_left(&src)) {
			const auto seq_before = src.seq, want_before = want;
			const bool enough = kiw_source_left(&src) >= want;
			const auto calls_before = calls;
			const kiw_step step = kiw_receive_step(this, &src);

			done += step == KIW_DONE;
			EXPECT_TRUE(done == ulpdus.size() || step == KIW_BAD);

			if (!enough) {
				EXPECT_EQ(step, KIW_MORE);
				EXPECT_EQ(src.seq, seq_before);
				EXPECT_EQ(calls, calls_before);
				EXPECT_EQ(want, want_before);
			}
			EXPECT_EQ(between, src.seq == start);
			if (step == KIW_BAD)
				verdict = err;
			if (step != KIW_DONE)
				break;
		}
	}
	std::size_t position() const { return src.seq - first_position; }

	// What the sink saw
	std::vector<Bytes> ulpdus;	   // those that ended, headers and payload
	Bytes payload;			   // of the segment under way
	std::vector<std::uint32_t> places; // how it came
	unsigned begun = 0;
	unsigned done = 0; // FPDUs
	unsigned calls = 0;
	kiw_err verdict = KIW_OK;

	// What it is to do
	bool stop_at_begin = false;
	bool hold = false;
	kiw_err at_begin = KIW_OK, at_place = KIW_OK, at_end = KIW_OK;

	kiw_err sink_begin()
	{
		calls++;
		begun++;
		payload.clear();
		places.clear();
		stopped = stop_at_begin;
		held = hold;
		return at_begin;
	}
	kiw_err sink_place(MemorySource &from, std::uint32_t done, std::uint32_t n)
	{
		calls++;
		EXPECT_EQ(done, payload.size());
		EXPECT_GE(n, 1U);
		EXPECT_LE(n, seg.payload_len - done);
		const auto taken = from.take(n);
		payload.insert(payload.end(), taken.begin(), taken.end());
		places.push_back(n);
		const auto rest = seg.payload_len - done - n;
		EXPECT_TRUE(rest == 0 || rest >= KIW_TAIL_MAX || kiw_marker_due(&mk)) << done << " " << n;
		return at_place;
	}
	kiw_err sink_end()
	{
		calls++;
		EXPECT_EQ(payload.size(), seg.payload_len);
		const auto *hdr = kiw_receive_ulpdu(this);
		ulpdus.push_back(Bytes(hdr, hdr + kiw_receive_ulpdu_have(this)) + payload);
		EXPECT_EQ(ulpdus.back().size(), kiw_receive_ulpdu_len(this));
		return at_end;
	}

private:
	MemorySource src;
};

} // namespace

kiw_err kiw_sink_begin(kiw_receive *rx)
{
	return static_cast<Machine *>(rx)->sink_begin();
}

kiw_err kiw_sink_place(kiw_receive *rx, kiw_source *src, std::uint32_t done, std::uint32_t n)
{
	return static_cast<Machine *>(rx)->sink_place(*static_cast<MemorySource *>(src), done, n);
}

kiw_err kiw_sink_end(kiw_receive *rx)
{
	return static_cast<Machine *>(rx)->sink_end();
}

namespace {

std::span<const std::uint8_t> part(const Bytes &b, std::size_t from, std::size_t to)
{
	return std::span(b).subspan(from, to - from);
}

TEST(Receive, hands_on_what_was_sent)
{
	const auto sent = some_ulpdus();

	for (const Options &o : all_options) {
		const Wire w = wire_of(sent, o);
		Machine m(o);

		EXPECT_EQ(w.markers.size() > 3, o.markers);
		m.feed(w.bytes);
		EXPECT_EQ(m.verdict, KIW_OK) << o;
		EXPECT_EQ(m.ulpdus, sent) << o;
		EXPECT_EQ(m.position(), w.bytes.size()) << o;
	}
}

TEST(Receive, can_be_cut_at_every_byte)
{
	const auto sent = some_ulpdus();

	for (const Options &o : all_options) {
		const Wire w = wire_of(sent, o);
		for (std::size_t cut = 0; cut <= w.bytes.size(); cut++) {
			Machine m(o);

			m.feed(part(w.bytes, 0, cut));
			const auto whole = std::upper_bound(w.ends.begin(), w.ends.end(), cut) - w.ends.begin();
			EXPECT_EQ(m.ulpdus.size(), static_cast<std::size_t>(whole)) << o << " " << cut;
			const bool behind_one = cut == 0 || std::binary_search(w.ends.begin(), w.ends.end(), cut);
			EXPECT_EQ(m.between, behind_one) << o << " " << cut;
			m.feed(part(w.bytes, cut, w.bytes.size()));
			ASSERT_EQ(m.verdict, KIW_OK) << o << " " << cut;
			ASSERT_EQ(m.ulpdus, sent) << o << " " << cut;
		}
	}
}

TEST(Receive, takes_pieces_of_every_size)
{
	const auto sent = some_ulpdus();

	for (const Options &o : all_options) {
		const Wire w = wire_of(sent, o);
		for (std::size_t size = 1; size <= 40; size++) {
			Machine m(o);

			for (std::size_t at = 0; at < w.bytes.size(); at += size)
				m.feed(part(w.bytes, at, std::min(at + size, w.bytes.size())));
			ASSERT_EQ(m.verdict, KIW_OK) << o << " " << size;
			ASSERT_EQ(m.ulpdus, sent) << o << " " << size;
		}
	}
}

// What is wanted is exactly what is missing: a byte less changes nothing, as feed() looks after.
TEST(Receive, wants_the_whole_fpdu_before_it_judges_a_crc)
{
	for (const bool markers : {false, true}) {
		const Options o{true, markers};
		const Wire w = wire_of({tagged(KIW_OP_WRITE, 7, 0, counting(2000))}, o);
		const std::size_t head = (markers ? KIW_MARKER_SIZE : 0) + KIW_FPDU_LEN_SIZE;
		Machine m(o);

		for (std::size_t at = 0; at < w.bytes.size(); at++) {
			EXPECT_EQ(m.want, at < head ? 1U : w.bytes.size() - head) << at;
			EXPECT_EQ(m.calls, 0U);
			m.feed(part(w.bytes, at, at + 1));
		}
		EXPECT_EQ(m.ulpdus.size(), 1U);
		EXPECT_EQ(m.want, 1U);
	}
}

TEST(Receive, hands_on_at_once_where_there_is_no_crc)
{
	const Options o{false, false};
	const Wire w = wire_of({tagged(KIW_OP_WRITE, 7, 0, counting(100))}, o);
	const std::size_t header = KIW_FPDU_LEN_SIZE + KIW_TAGGED_LEN;
	Machine m(o);

	m.feed(part(w.bytes, 0, header - 1));
	EXPECT_EQ(m.begun, 0U);
	m.feed(part(w.bytes, header - 1, header));
	EXPECT_EQ(m.begun, 1U);
	EXPECT_EQ(m.payload.size(), 0U);
	m.feed(part(w.bytes, header, header + 30));
	EXPECT_EQ(m.payload, counting(30));
}

TEST(Receive, places_the_last_bytes_together)
{
	const Options o{false, false};
	constexpr std::uint32_t n = 100;
	const Wire w = wire_of({tagged(KIW_OP_WRITE, 7, 0, counting(n))}, o);
	const std::size_t header = KIW_FPDU_LEN_SIZE + KIW_TAGGED_LEN;

	for (std::uint32_t cut = 0; cut <= n; cut++) {
		Machine m(o);

		m.feed(part(w.bytes, 0, header + cut));
		const std::uint32_t before = n - KIW_TAIL_MAX;
		EXPECT_EQ(m.payload.size(), cut == n ? n : std::min(cut, before)) << cut;
		EXPECT_EQ(m.want, cut > before && cut < n ? std::uint32_t{KIW_TAIL_MAX} : 1U) << cut;
		m.feed(part(w.bytes, header + cut, w.bytes.size()));
		EXPECT_EQ(m.ulpdus.size(), 1U);
		EXPECT_GE(m.places.back(), std::uint32_t{KIW_TAIL_MAX});
	}
}

// Only a marker comes between the last bytes: wherever it is, each side of it is placed as a whole.
TEST(Receive, places_the_last_bytes_on_each_side_of_a_marker)
{
	const Options o{false, true};

	for (std::uint32_t n = 480; n < 510; n++) {
		const Bytes sent = tagged(KIW_OP_WRITE, 7, 0, counting(n));
		const Wire w = wire_of({sent}, o);
		Machine m(o);

		for (std::size_t at = 0; at < w.bytes.size(); at++)
			m.feed(part(w.bytes, at, at + 1));
		ASSERT_EQ(m.ulpdus, std::vector<Bytes>{sent}) << n;
	}
}

TEST(Receive, refuses_every_bit_that_flips_under_a_crc)
{
	const std::vector<Bytes> sent{tagged(KIW_OP_WRITE, 7, 0), tagged(KIW_OP_WRITE, 7, 0, counting(490))};

	for (const bool markers : {false, true}) {
		const Options o{true, markers};
		const Wire good = wire_of(sent, o);
		// Behind ULPDU_Length, which says where the CRC is
		const std::size_t from = good.ends[0] + KIW_FPDU_LEN_SIZE;

		for (std::size_t at = from; at < good.bytes.size(); at++) {
			Wire w = good;
			Machine m(o);

			w.bytes[at] ^= static_cast<std::uint8_t>(1 << at % 8);
			m.feed(w.bytes);
			ASSERT_EQ(m.verdict, KIW_ERR_LLP_CRC) << o << " " << at;
			ASSERT_EQ(m.begun, 1U) << o << " " << at;
			ASSERT_EQ(m.ulpdus.size(), 1U) << o << " " << at;
		}
	}
}

// Without a CRC a wrong marker ends the stream where it is; what lies before has been handed on.
TEST(Receive, stops_at_a_wrong_marker)
{
	const Options o{false, true};
	const std::vector<Bytes> sent{tagged(KIW_OP_WRITE, 7, 0, counting(1300))};
	const Wire good = wire_of(sent, o);

	ASSERT_EQ(good.markers.size(), 3U);
	for (std::size_t i = 0; i < good.markers.size(); i++) {
		Wire w = good;
		Machine m(o);

		w.bytes[w.markers[i] + 3] ^= 4;
		m.feed(w.bytes);
		EXPECT_EQ(m.verdict, KIW_ERR_LLP_MARKER);
		EXPECT_EQ(m.position(), w.markers[i] + KIW_MARKER_SIZE);
		EXPECT_EQ(m.begun, i ? 1U : 0U);
		const std::size_t front = (i + 1) * KIW_MARKER_SIZE + KIW_FPDU_LEN_SIZE + KIW_TAGGED_LEN;
		EXPECT_EQ(m.payload.size(), i ? m.position() - front : 0U);
		EXPECT_TRUE(m.ulpdus.empty());
	}
}

// The same in the length, the header, the payload and the trailer of an FPDU
TEST(Receive, stops_at_a_wrong_marker_wherever_it_is)
{
	const Options o{false, true};

	for (std::size_t n = 440; n < 520; n++) {
		const Wire good =
			wire_of({tagged(KIW_OP_WRITE, 7, 0, counting(n)), read_request(1, {1, 2, 3, 4, 5})}, o);
		Wire w = good;
		Machine m(o);

		w.bytes[w.markers[1] + 3] ^= 4;
		m.feed(w.bytes);
		EXPECT_EQ(m.verdict, KIW_ERR_LLP_MARKER) << n;
		EXPECT_EQ(m.position(), w.markers[1] + KIW_MARKER_SIZE) << n;
	}
}

TEST(Receive, tells_what_waits_for_the_sink)
{
	const Wire w = wire_of(some_ulpdus(), {false, false});
	Machine m({false, false});

	EXPECT_FALSE(kiw_receive_waits(&m));
	m.hold = true;
	m.feed(w.bytes);
	EXPECT_TRUE(kiw_receive_waits(&m));
	m.stopped = true;
	EXPECT_FALSE(kiw_receive_waits(&m));
	m.held = false;
	EXPECT_FALSE(kiw_receive_waits(&m));
}

TEST(Receive, has_no_length_before_it_is_there)
{
	Machine m({false, false});

	m.feed(Bytes{1});
	EXPECT_EQ(kiw_receive_ulpdu_len(&m), 0U);
	m.feed(Bytes{2});
	EXPECT_EQ(kiw_receive_ulpdu_len(&m), 0x102U);
}

// Octets of a marker that have no meaning are ignored.
TEST(Receive, ignores_what_is_reserved_in_a_marker)
{
	for (const bool crc : {false, true}) {
		const Options o{crc, true};
		const std::vector<Bytes> sent{tagged(KIW_OP_WRITE, 7, 0, counting(1300))};
		Wire w = wire_of(sent, o);
		Machine m(o);

		for (const auto at : w.markers) {
			w.bytes[at] ^= 0xff;
			w.bytes[at + 3] ^= 3;
		}
		if (crc)
			w.seal(0, w.bytes.size());
		m.feed(w.bytes);
		EXPECT_EQ(m.ulpdus, sent);
	}
}

// With a CRC nothing of the FPDU is handed on, and a wrong CRC comes first.
TEST(Receive, judges_markers_behind_the_crc)
{
	const Options o{true, true};
	const std::vector<Bytes> sent{tagged(KIW_OP_WRITE, 7, 0, counting(1300))};
	const Wire good = wire_of(sent, o);

	for (const auto at : good.markers) {
		Wire w = good;
		Machine m(o), n(o);

		w.bytes[at + 3] ^= 4;
		n.feed(w.bytes);
		EXPECT_EQ(n.verdict, KIW_ERR_LLP_CRC);
		w.seal(0, w.bytes.size());
		m.feed(w.bytes);
		EXPECT_EQ(m.verdict, KIW_ERR_LLP_MARKER);
		EXPECT_EQ(m.calls, 0U);
	}
}

TEST(Receive, offers_a_held_segment_again)
{
	for (const Options &o : all_options) {
		const auto ulpdus = some_ulpdus();
		const Wire w = wire_of(ulpdus, o);
		Machine m(o);

		m.feed(part(w.bytes, 0, w.ends[0]));
		m.hold = true;
		m.feed(part(w.bytes, w.ends[0], w.bytes.size()));
		EXPECT_TRUE(m.held) << o;
		EXPECT_FALSE(m.between) << o;
		EXPECT_EQ(m.ulpdus.size(), 1U) << o;
		EXPECT_EQ(m.begun, 2U) << o;
		m.feed({});
		EXPECT_EQ(m.begun, 3U) << o;
		m.hold = false;
		while (m.ulpdus.size() < ulpdus.size() && m.begun < 100)
			m.feed({});
		EXPECT_FALSE(m.held) << o;
		EXPECT_EQ(m.verdict, KIW_OK) << o;
		EXPECT_EQ(m.ulpdus, ulpdus) << o;
	}
}

TEST(Receive, hands_on_nothing_once_it_is_stopped)
{
	for (const Options &o : all_options) {
		const Wire w = wire_of(some_ulpdus(), o);
		Machine m(o);

		m.feed(part(w.bytes, 0, w.ends[1]));
		EXPECT_EQ(m.ulpdus.size(), 2U) << o;
		const auto calls = m.calls;
		m.stop_at_begin = true;
		m.feed(part(w.bytes, w.ends[1], w.bytes.size()));
		EXPECT_EQ(m.verdict, KIW_OK) << o;
		EXPECT_TRUE(m.stopped) << o;
		EXPECT_FALSE(m.between) << o;
		EXPECT_EQ(m.calls, calls + 1) << o;
	}
}

TEST(Receive, ends_with_the_verdict_of_its_sink)
{
	for (const Options &o : all_options) {
		const Wire w = wire_of({untagged(KIW_OP_SEND, KIW_QN_SEND, 1, 0, counting(600))}, o);
		Machine begin(o), place(o), end(o);

		begin.at_begin = KIW_ERR_DDP_NOBUF;
		begin.feed(w.bytes);
		EXPECT_EQ(begin.verdict, KIW_ERR_DDP_NOBUF);
		EXPECT_EQ(begin.calls, 1U);
		place.at_place = KIW_ERR_DDP_BOUNDS;
		place.feed(w.bytes);
		EXPECT_EQ(place.verdict, KIW_ERR_DDP_BOUNDS);
		EXPECT_EQ(place.calls, 2U);
		end.at_end = KIW_ERR_RDMAP_CANT_INVAL;
		end.feed(w.bytes);
		EXPECT_EQ(end.verdict, KIW_ERR_RDMAP_CANT_INVAL);
		EXPECT_EQ(end.ulpdus.size(), 1U);
	}
}

// A verdict on headers comes with those octets that a Terminate returns.
TEST(Receive, keeps_the_headers_that_were_wrong)
{
	for (const Options &o : all_options) {
		Bytes ulpdu = untagged(KIW_OP_SEND, 3, 1, 0, counting(30));
		const Wire w = wire_of({ulpdu}, o);
		Machine m(o);

		EXPECT_EQ(kiw_receive_ulpdu_len(&m), 0U);
		EXPECT_EQ(kiw_receive_ulpdu_have(&m), 0U);
		m.feed(w.bytes);
		EXPECT_EQ(m.verdict, KIW_ERR_DDP_QN);
		EXPECT_EQ(kiw_receive_ulpdu_len(&m), ulpdu.size());
		ASSERT_EQ(kiw_receive_ulpdu_have(&m), std::uint32_t{KIW_UNTAGGED_LEN});
		EXPECT_EQ(std::memcmp(kiw_receive_ulpdu(&m), ulpdu.data(), KIW_UNTAGGED_LEN), 0);
	}
}

TEST(Receive, knows_what_was_agreed_on_beyond_rfc_5040)
{
	Bytes imm(KIW_IMM_LEN);
	kiw_build_imm(imm.data(), false, 1, counting(KIW_IMM_SIZE).data());
	const Wire w = wire_of({imm}, {});
	Machine without({}), with({}, KIW_CAP_IMM);

	without.feed(w.bytes);
	EXPECT_EQ(without.verdict, KIW_ERR_RDMAP_OPCODE);
	with.feed(w.bytes);
	EXPECT_EQ(with.ulpdus, std::vector<Bytes>{imm});
}

// ULPDU_Length may say more than this side would send.
TEST(Receive, takes_the_longest_ulpdu)
{
	for (const Options &o : all_options) {
		const Bytes ulpdu = tagged(KIW_OP_WRITE, 7, 0, counting(0xffff - KIW_TAGGED_LEN));
		const Wire w = wire_of({ulpdu}, o);
		Machine m(o);

		m.feed(part(w.bytes, 0, w.bytes.size() / 2));
		m.feed(part(w.bytes, w.bytes.size() / 2, w.bytes.size()));
		EXPECT_EQ(m.ulpdus.size(), 1U) << o;
		EXPECT_EQ(m.ulpdus.back(), ulpdu) << o;
	}
}

} // namespace
