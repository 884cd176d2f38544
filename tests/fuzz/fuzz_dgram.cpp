// SPDX-License-Identifier: GPL-2.0
// One UDP datagram: any octets, of which the parser sees the header and the length; and what is built.
#include "fuzz.hpp"
#include "proto/dgram.h"
#include "receiver.hpp"

using library::require;

static kiw_dgram_verdict parse(const Bytes &datagram, kiw_dgram &d)
{
	const Bytes hdr(datagram.begin(), datagram.begin() + std::min<ptrdiff_t>(ptrdiff_t(datagram.size()), 20));

	return kiw_dgram_parse(hdr.data(), uint32_t(datagram.size()), &d);
}

// By the model of segments: what follows the two octets of ours is a ULPDU, but for the CRC.
static void arrives(const Bytes &datagram)
{
	kiw_dgram d = {};
	const kiw_dgram_verdict verdict = parse(datagram, d);

	if (datagram.size() < 24 || datagram.size() > 65507 || datagram[0] != 13) {
		require(verdict == KIW_DGRAM_MALFORMED, "other traffic is taken for ours");
		return;
	}
	if (datagram[1] != 16) {
		require(verdict == KIW_DGRAM_OTHER_VERSION, "another version isn't seen");
		return;
	}
	const Bytes ulpdu(datagram.begin() + 2, datagram.end() - 4);
	const model::Parsed expected = model::segment(ulpdu, {});
	const model::Segment &s = expected.segment;
	const bool send = !expected.error && (s.opcode == 3 || s.opcode == 5) && s.last && !s.message_offset;

	require((verdict == KIW_DGRAM_OK) == send, "a datagram is judged in another way");
	if (send)
		require(d.solicited == (s.opcode == 5) && d.qkey == get(datagram.data() + 4, 4) && d.msn == s.number &&
				d.payload_len == ulpdu.size() - 18,
			"a datagram has another meaning");
}

static void built(Input in)
{
	const bool solicited = in.u8() & 1;
	const uint32_t key = in.u32();
	const uint32_t number = in.u32();
	Bytes b(20);
	kiw_dgram d = {};

	require(kiw_dgram_build(b.data(), solicited, key, number) == b.size(), "a header has another length");
	b.resize(24 + in.u16() % 1000);
	arrives(b);
	require(parse(b, d) == KIW_DGRAM_OK && d.solicited == solicited && d.qkey == key && d.msn == number &&
			d.payload_len == b.size() - 24,
		"what is built has another meaning");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const Bytes b(data, data + size);

	arrives(b);
	built(Input(data, size));
	// Around the longest
	if (size >= 24 && data[23] & 1) {
		Bytes longest = b;

		longest.resize(65500 + data[22] % 16);
		arrives(longest);
	}
	return 0;
}
