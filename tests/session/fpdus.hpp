// SPDX-License-Identifier: GPL-2.0
// FPDUs without CRC and markers, made and read by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "proto/ddp.h"
#include "proto/fpdu.h"

namespace session {

using Bytes = std::vector<std::uint8_t>;

inline Bytes operator+(Bytes a, const Bytes &b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

/// The FPDU of a segment: length, header, payload, PAD and a CRC field of 0
inline Bytes fpdu(const Bytes &segment)
{
	Bytes out{static_cast<std::uint8_t>(segment.size() >> 8), static_cast<std::uint8_t>(segment.size())};

	out = out + segment;
	out.resize(kiw_fpdu_len(static_cast<std::uint32_t>(segment.size())));
	return out;
}

inline Bytes tagged(std::uint8_t op, bool last, std::uint32_t stag, std::uint64_t to, const Bytes &payload)
{
	Bytes header(KIW_TAGGED_LEN);

	kiw_build_tagged(header.data(), op, last, stag, to);
	return fpdu(header + payload);
}

struct Untagged {
	std::uint8_t op = KIW_OP_SEND;
	bool last = true;
	std::uint32_t stag = 0, qn = KIW_QN_SEND, msn = 1, mo = 0;
};

inline Bytes untagged(const Untagged &u, const Bytes &payload)
{
	Bytes header(KIW_UNTAGGED_LEN);

	kiw_build_untagged(header.data(), u.op, u.last, u.stag, u.qn, u.msn, u.mo);
	return fpdu(header + payload);
}

inline Bytes read_request(const kiw_rreq &read, std::uint32_t msn = 1, std::uint32_t mo = 0)
{
	Bytes header(KIW_RREQ_LEN);

	kiw_build_rreq(header.data(), msn, &read);
	header[KIW_UNTAGGED_LEN - 1] = static_cast<std::uint8_t>(mo);
	return fpdu(header);
}

inline Bytes atomic_request(const kiw_atomic &atomic, std::uint32_t msn = 1, std::uint32_t mo = 0)
{
	Bytes header(KIW_ATOMIC_REQ_LEN);

	kiw_build_atomic(header.data(), msn, &atomic);
	header[KIW_UNTAGGED_LEN - 1] = static_cast<std::uint8_t>(mo);
	return fpdu(header);
}

inline Bytes atomic_response(std::uint32_t req_id, std::uint64_t value, std::uint32_t msn = 1, std::uint32_t mo = 0)
{
	const kiw_atomic_resp resp{.req_id = req_id, .value = value};
	Bytes header(KIW_ATOMIC_RESP_LEN);

	kiw_build_atomic_resp(header.data(), msn, &resp);
	header[KIW_UNTAGGED_LEN - 1] = static_cast<std::uint8_t>(mo);
	return fpdu(header);
}

inline Bytes immediate(const Bytes &data, std::uint32_t msn = 1, bool solicited = false)
{
	Bytes header(KIW_IMM_LEN);

	kiw_build_imm(header.data(), solicited, msn, data.data());
	return fpdu(header);
}

/// A segment that was sent, with its payload
struct Sent {
	kiw_seg seg;
	Bytes payload;
};

/// All segments of some FPDUs
inline std::vector<Sent> segments(std::span<const std::uint8_t> bytes)
{
	std::vector<Sent> all;

	for (std::size_t at = 0; at + 2 <= bytes.size();) {
		const std::uint32_t length = bytes[at] << 8 | bytes[at + 1];
		Sent sent{};

		kiw_seg_parse(bytes.data() + at + 2, length, length, KIW_CAP_IMM | KIW_CAP_ATOMIC, &sent.seg);
		sent.payload.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at + 2 + sent.seg.hdr_len),
			bytes.begin() + static_cast<std::ptrdiff_t>(at + 2 + length));
		all.push_back(std::move(sent));
		at += kiw_fpdu_len(length);
	}
	return all;
}

} // namespace session
