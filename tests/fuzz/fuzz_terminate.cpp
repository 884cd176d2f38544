// SPDX-License-Identifier: GPL-2.0
// The Terminate message: any octets read, and built about any segment of which any part is at hand.
#include "../proto/errors.hpp"
#include "fuzz.hpp"
#include "receiver.hpp"

using library::require;

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
		const kiw_err err = every_error[in.u8() % std::size(every_error)];
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
