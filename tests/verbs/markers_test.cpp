// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Markers in one direction, in both, with all that decides about the length of FPDUs.
#include <string>
#include <tuple>

#include "../lib/connection.hpp"

namespace vt {
namespace {

/// Does the client, does the server ask for markers; is there a CRC; may FPDUs be longer than a TCP segment
using Terms = std::tuple<bool, bool, bool, bool>;

std::string value(bool on)
{
	return on ? "1" : "0";
}

Options options(bool markers, const Terms &terms)
{
	Options wanted;

	wanted.parameters = {
		{"markers", value(markers)}, {"crc", value(std::get<2>(terms))}, {"large", value(std::get<3>(terms))}};
	return wanted;
}

class Markers : public testing::TestWithParam<Terms> {
protected:
	static constexpr std::size_t space = 300000;

	Pair pair{options(std::get<0>(GetParam()), GetParam()), options(std::get<1>(GetParam()), GetParam())};
	Region at_a{pair.a().pd(), space};
	Region at_b{pair.b().pd(), space};
};

// Each length moves the next FPDU to another place on the grid of markers.
TEST_P(Markers, DataArriveAsTheyWere)
{
	for (std::size_t i = 0; i < 250; i++) {
		const std::size_t length = i < 200 ? i * 7 : i * 1001;
		SCOPED_TRACE(length);
		at_a.fill_pattern(3 * i);
		at_b.fill_pattern(3 * i + 1);
		ASSERT_EQ(pair.b().receive({at_b.sge(0, length)}), 0);
		ASSERT_EQ(pair.a().send({at_a.sge(0, length)}), 0);
		EXPECT_EQ(pair.b().received().byte_len, length);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		ASSERT_TRUE(same(at_a.bytes(0, length), at_b.bytes(0, length)));

		at_b.fill_pattern(3 * i + 2);
		ASSERT_EQ(pair.a().read({at_a.sge(1, length)}, {.remote = at_b.address(2), .rkey = at_b.rkey()}), 0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		ASSERT_TRUE(same(at_a.bytes(1, length), at_b.bytes(2, length)));
	}
}

TEST_P(Markers, TerminateArrives)
{
	ASSERT_EQ(pair.a().read({at_a.sge(0, 1000)}, {.id = 5, .remote = at_b.address(), .rkey = at_b.rkey() ^ 1}), 0);
	EXPECT_WC(pair.a().sent(), 5, IBV_WC_REM_ACCESS_ERR);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
}

std::string name_of(const testing::TestParamInfo<Terms> &info)
{
	const auto &[client, server, crc, large] = info.param;

	return std::string(client ? "ClientAsks" : "") + (server ? "ServerAsks" : "") + (crc ? "Crc" : "") +
	       (large ? "Large" : "Segments");
}

// Where nobody asks, all other tests are.
INSTANTIATE_TEST_SUITE_P(ClientAsks, Markers,
	testing::Combine(testing::Values(true), testing::Bool(), testing::Bool(), testing::Bool()), name_of);
INSTANTIATE_TEST_SUITE_P(OnlyTheServerAsks, Markers,
	testing::Combine(testing::Values(false), testing::Values(true), testing::Bool(), testing::Bool()), name_of);

} // namespace
} // namespace vt
