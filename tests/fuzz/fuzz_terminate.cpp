// SPDX-License-Identifier: GPL-2.0
// The Terminate message: any octets read, and built about any segment of which any part is at hand.
#include "fuzz.hpp"
#include "receiver.hpp"

using library::require;

static constexpr kiw_err errors[] = {
	KIW_ERR_LOCAL_CATASTROPHE,
	KIW_ERR_RDMAP_STAG,
	KIW_ERR_RDMAP_BOUNDS,
	KIW_ERR_RDMAP_ACCESS,
	KIW_ERR_RDMAP_PD,
	KIW_ERR_RDMAP_WRAP,
	KIW_ERR_RDMAP_INVAL,
	KIW_ERR_RDMAP_VERSION,
	KIW_ERR_RDMAP_OPCODE,
	KIW_ERR_RDMAP_CATASTROPHE,
	KIW_ERR_RDMAP_GLOBAL,
	KIW_ERR_RDMAP_CANT_INVAL,
	KIW_ERR_RDMAP_UNSPECIFIED,
	KIW_ERR_DDP_CATASTROPHE,
	KIW_ERR_DDP_STAG,
	KIW_ERR_DDP_BOUNDS,
	KIW_ERR_DDP_PD,
	KIW_ERR_DDP_WRAP,
	KIW_ERR_DDP_TVERSION,
	KIW_ERR_DDP_QN,
	KIW_ERR_DDP_NOBUF,
	KIW_ERR_DDP_MSN,
	KIW_ERR_DDP_MO,
	KIW_ERR_DDP_TOOLONG,
	KIW_ERR_DDP_UVERSION,
	KIW_ERR_LLP_LOST,
	KIW_ERR_LLP_CRC,
	KIW_ERR_LLP_MARKER,
	KIW_ERR_LLP_FRAME,
	KIW_ERR_LLP_LOCAL,
	KIW_ERR_LLP_IRD,
	KIW_ERR_LLP_RTR,
};

static void arrives(const Bytes &ulpdu)
{
	require(library::terminate(ulpdu) == model::terminate(ulpdu), "a Terminate has another meaning");
}

static void build(kiw_err err, const Bytes &offender, size_t length)
{
	Bytes b(KIW_TERM_MAX_LEN);

	b.resize(kiw_term_build(b.data(), err, offender.empty() ? nullptr : offender.data(), uint32_t(offender.size()),
		uint32_t(length)));
	require(b == model::terminate_about(library::error(err), offender, length), "a Terminate has other octets");
	require(b.size() >= KIW_TERM_MIN_LEN, "a Terminate is too short");
	const auto read = model::terminate(b);
	require(read && read->raw == library::error(err), "a Terminate says another error");
	const model::Parsed as_segment = model::segment(b, {});
	require(!as_segment.error && as_segment.segment.last && as_segment.segment.opcode == 7,
		"a Terminate isn't a good segment");
	require(kiw_term_possible(err) == (err != KIW_ERR_LLP_LOST && err != KIW_ERR_LLP_FRAME),
		"a Terminate is possible where it isn't, or the other way round");
	// What comes behind the last part doesn't matter.
	arrives(b);
	b.resize(b.size() + 8, 0xee);
	arrives(b);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in(data, size);
	const uint8_t how = in.u8();

	if (how & 1) {
		const kiw_err err = errors[in.u8() % std::size(errors)];
		const uint16_t length = in.u16();
		build(err, in.some(80), length);
		return 0;
	}
	Bytes ulpdu = in.rest();
	// Three words that are hard to guess
	if (how & 2)
		ulpdu = untagged_segment(7, 2, 1, 0, ulpdu);
	arrives(ulpdu);
	return 0;
}
