// SPDX-License-Identifier: GPL-2.0
// Helpers shared by the protocol tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "proto/crc.h"
#include "proto/ddp.h"
#include "proto/fpdu.h"
#include "proto/mpa.h"
#include "proto/qpstate.h"
#include "proto/range.h"
#include "proto/term.h"
#include "vectors.h"

// Every buffer the library reads or fills is one of these, sized to the octet,
// so that the address sanitizer sees each access outside.
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t all_caps = KIW_CAP_IMM | KIW_CAP_ATOMIC;

template <std::size_t N>
Bytes bytes(const unsigned char (&v)[N])
{
	return Bytes(v, v + N);
}

inline Bytes bytes(std::string_view text)
{
	return Bytes(text.begin(), text.end());
}

inline Bytes operator+(const Bytes &a, const Bytes &b)
{
	Bytes both;

	both.reserve(a.size() + b.size());
	both.insert(both.end(), a.begin(), a.end());
	both.insert(both.end(), b.begin(), b.end());
	return both;
}

inline Bytes first(const Bytes &b, std::size_t n)
{
	return Bytes(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n));
}

inline Bytes slice(const Bytes &b, std::size_t from, std::size_t n)
{
	const auto start = b.begin() + static_cast<std::ptrdiff_t>(from);
	return Bytes(start, start + static_cast<std::ptrdiff_t>(n));
}

// 00 01 02 .. ff 00 ..
inline Bytes counting(std::size_t n, std::uint8_t from = 0)
{
	Bytes b(n);
	for (auto &octet : b)
		octet = from++;
	return b;
}

inline Bytes tagged(kiw_op op, std::uint32_t stag, std::uint64_t to, const Bytes &payload = {}, bool last = true)
{
	Bytes hdr(KIW_TAGGED_LEN);
	EXPECT_EQ(kiw_build_tagged(hdr.data(), op, last, stag, to), hdr.size());
	return hdr + payload;
}

inline Bytes untagged(kiw_op op, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo = 0, const Bytes &payload = {},
	bool last = true, std::uint32_t inv_stag = 0)
{
	Bytes hdr(KIW_UNTAGGED_LEN);
	EXPECT_EQ(kiw_build_untagged(hdr.data(), op, last, inv_stag, qn, msn, mo), hdr.size());
	return hdr + payload;
}

inline Bytes read_request(std::uint32_t msn, const kiw_rreq &rr)
{
	Bytes b(KIW_RREQ_LEN);
	EXPECT_EQ(kiw_build_rreq(b.data(), msn, &rr), b.size());
	return b;
}

inline Bytes terminate(kiw_err err, const Bytes &offender = {}, std::size_t have = SIZE_MAX)
{
	Bytes b(KIW_TERM_MAX_LEN, 0xee);
	const Bytes seen = first(offender, std::min(have, offender.size()));
	const auto n = kiw_term_build(b.data(), err, offender.empty() ? nullptr : seen.data(),
		static_cast<std::uint32_t>(seen.size()), static_cast<std::uint32_t>(offender.size()));
	b.resize(n);
	return b;
}

inline Bytes fpdu(const Bytes &ulpdu)
{
	const auto n = static_cast<std::uint32_t>(ulpdu.size());
	Bytes b{static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
	b = b + ulpdu;
	b.resize(b.size() + kiw_fpdu_pad(n));
	const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b.data(), b.size()));
	Bytes trailer(sizeof(crc));
	std::memcpy(trailer.data(), &crc, sizeof(crc));
	return b + trailer;
}

inline Bytes ulpdu_of(const Bytes &fpdu)
{
	return slice(fpdu, KIW_FPDU_LEN_SIZE, std::size_t{fpdu[0]} << 8 | fpdu[1]);
}

struct Parsed {
	kiw_step step;
	kiw_seg seg;
};

inline Parsed parse(const Bytes &ulpdu, std::size_t have = SIZE_MAX, std::uint32_t caps = all_caps)
{
	Parsed p{};
	const Bytes seen = first(ulpdu, std::min(have, ulpdu.size()));
	p.step = kiw_seg_parse(seen.data(), static_cast<std::uint32_t>(seen.size()),
		static_cast<std::uint32_t>(ulpdu.size()), caps, &p.seg);
	return p;
}

// KIW_OK if the segment is good
inline kiw_err verdict(const Bytes &ulpdu, std::uint32_t caps = all_caps)
{
	const Parsed p = parse(ulpdu, SIZE_MAX, caps);
	EXPECT_NE(p.step, KIW_MORE);
	return p.step == KIW_BAD ? p.seg.err : KIW_OK;
}
