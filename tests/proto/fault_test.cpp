// SPDX-License-Identifier: GPL-2.0
#include "proto/fault.h"
#include "support.hpp"

namespace {

TEST(Fault, of_what_a_peer_wants_to_read)
{
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_OK), KIW_OK);
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_STAG), KIW_ERR_RDMAP_STAG);
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_PD), KIW_ERR_RDMAP_PD);
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_ACCESS), KIW_ERR_RDMAP_ACCESS);
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_BOUNDS), KIW_ERR_RDMAP_BOUNDS);
	EXPECT_EQ(kiw_region_rdmap_error(KIW_REGION_WRAP), KIW_ERR_RDMAP_WRAP);
	EXPECT_EQ(kiw_region_rdmap_error(static_cast<kiw_region_fault>(7)), KIW_ERR_RDMAP_UNSPECIFIED);
}

TEST(Fault, of_what_a_peer_wants_to_write)
{
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_OK), KIW_OK);
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_STAG), KIW_ERR_DDP_STAG);
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_PD), KIW_ERR_DDP_PD);
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_ACCESS), KIW_ERR_RDMAP_ACCESS);
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_BOUNDS), KIW_ERR_DDP_BOUNDS);
	EXPECT_EQ(kiw_region_ddp_error(KIW_REGION_WRAP), KIW_ERR_DDP_WRAP);
	EXPECT_EQ(kiw_region_ddp_error(static_cast<kiw_region_fault>(7)), KIW_ERR_DDP_CATASTROPHE);
}

} // namespace
