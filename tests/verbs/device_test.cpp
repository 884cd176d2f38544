// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the device and its port say about themselves.
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "../lib/raw.hpp"
#include "../lib/support.hpp"

namespace vt {
namespace {

TEST(Device, IsAnRnic)
{
	const ibv_device *device = server_device()->device;

	EXPECT_EQ(device->transport_type, IBV_TRANSPORT_IWARP);
	EXPECT_EQ(device->node_type, IBV_NODE_RNIC);
}

TEST(Device, IsListed)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	bool found = false;

	ASSERT_NE(list, nullptr);
	for (int i = 0; i < count; i++)
		found = found ||
			!std::strcmp(ibv_get_device_name(list[i]), ibv_get_device_name(server_device()->device));
	ibv_free_device_list(list);
	EXPECT_TRUE(found);
}

// The table that rdma_cm needs to be there. A key would be one of InfiniBand to libfabric.
TEST(Device, HasATableOfOnePartitionKeyAndNoKey)
{
	ibv_device_attr device{};
	ibv_port_attr port{};
	__be16 key = 1;

	ASSERT_EQ(ibv_query_device(server_device(), &device), 0);
	ASSERT_EQ(ibv_query_port(server_device(), 1, &port), 0);
	EXPECT_EQ(device.max_pkeys, 1);
	EXPECT_EQ(port.pkey_tbl_len, 1);
	EXPECT_EQ(ibv_query_pkey(server_device(), 1, 0, &key), 0);
	EXPECT_EQ(key, 0);
	EXPECT_NE(ibv_query_pkey(server_device(), 1, 1, &key), 0);
}

/// What the device tells a provider whose part of the request is own. Returns 0 or errno.
int ask_for_context(const std::vector<std::uint32_t> &own, kiw_get_context_resp &told)
{
	const int fd = open_uverbs(server_device()->device);
	const int error = get_context(fd, own, told);

	close(fd);
	return error;
}

TEST(Context, AgreesOnFeaturesWithProvidersBeforeAndAfter)
{
	kiw_get_context_resp told{};

	EXPECT_EQ(ask_for_context({}, told), 0);
	EXPECT_EQ(told.features, 0U);
	EXPECT_GT(told.max_inline, 0U);
	EXPECT_EQ(ask_for_context({~0U, 0}, told), 0);
	EXPECT_EQ(told.features, std::uint32_t{KIW_FEATURES});
	EXPECT_EQ(ask_for_context({~0U, 0, 1, 2}, told), 0);
	EXPECT_EQ(told.features, std::uint32_t{KIW_FEATURES});
}

TEST(Context, RefusesReservedFields)
{
	kiw_get_context_resp told{};

	EXPECT_EQ(ask_for_context({0, 1}, told), EINVAL);
}

TEST(Device, CanBeOpenedManyTimes)
{
	std::vector<ibv_context *> contexts;

	for (int i = 0; i < 16; i++) {
		contexts.push_back(ibv_open_device(server_device()->device));
		ASSERT_NE(contexts.back(), nullptr);
	}
	for (ibv_context *context : contexts)
		EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Device, ReportsUsableLimits)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(server_device(), &attr), 0);
	EXPECT_GE(attr.max_qp, 1024);
	EXPECT_GE(attr.max_qp_wr, 4096);
	EXPECT_GE(attr.max_sge, 6);
	EXPECT_GE(attr.max_sge_rd, 1);
	EXPECT_GE(attr.max_cq, 1024);
	EXPECT_GE(attr.max_cqe, 65536);
	EXPECT_GE(attr.max_mr, 1024);
	EXPECT_GE(attr.max_pd, 1024);
	EXPECT_GE(attr.max_mr_size, 1ULL << 32);
	EXPECT_GE(attr.max_qp_rd_atom, 16);
	EXPECT_GE(attr.max_qp_init_rd_atom, 16);
	EXPECT_EQ(attr.phys_port_cnt, 1);
	EXPECT_NE(attr.node_guid, 0);
}

std::string text_of(const std::string &path)
{
	std::ifstream in(path);
	std::string text;

	EXPECT_TRUE(std::getline(in, text)) << path;
	return text;
}

TEST(Device, FirmwareVersionIsTheModules)
{
	const std::string module = text_of("/sys/module/kiwarp/version");
	const std::string name = ibv_get_device_name(server_device()->device);
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(server_device(), &attr), 0);
	// Verbs have three numbers of it, sysfs all.
	EXPECT_EQ(attr.fw_ver, module.substr(0, module.find_first_not_of("0123456789.")));
	EXPECT_EQ(text_of("/sys/class/infiniband/" + name + "/fw_ver"), module);
}

// node_exporter of Debian 12 gives up on all devices of a machine where one has no such files.
TEST(Device, SaysWhatItIsInSysfs)
{
	const std::string folder = std::string("/sys/class/infiniband/") + ibv_get_device_name(server_device()->device);

	EXPECT_EQ(text_of(folder + "/hca_type"), "kiwarp");
	EXPECT_EQ(text_of(folder + "/board_id"), "726977.1");
}

TEST(Device, IsOfAVendorThatIsNobody)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(server_device(), &attr), 0);
	// An OUI under local administration, and of single devices, not of groups
	EXPECT_EQ(attr.vendor_id >> 16 & 3, 2);
	EXPECT_EQ(attr.vendor_id >> 24, 0);
	EXPECT_NE(attr.vendor_part_id, 0);
}

TEST(Device, ExtendedQueryAgreesWithThePlainOne)
{
	ibv_device_attr plain{};
	ibv_device_attr_ex extended{};

	ASSERT_EQ(ibv_query_device(server_device(), &plain), 0);
	ASSERT_EQ(ibv_query_device_ex(server_device(), nullptr, &extended), 0);
	EXPECT_EQ(extended.orig_attr.max_qp, plain.max_qp);
	EXPECT_EQ(extended.orig_attr.max_mr_size, plain.max_mr_size);
	EXPECT_STREQ(extended.orig_attr.fw_ver, plain.fw_ver);
}

TEST(Device, PlainQueryWritesNothingBehindTheSmallStructure)
{
	struct {
		ibv_device_attr attr;
		std::array<std::uint8_t, 512> behind;
	} buffer{};

	buffer.behind.fill(0xa5);
	ASSERT_EQ(ibv_query_device(server_device(), &buffer.attr), 0);
	EXPECT_TRUE(all_equal(buffer.behind, 0xa5));
}

TEST(Device, PortIsActive)
{
	ibv_port_attr attr{};

	ASSERT_EQ(ibv_query_port(server_device(), 1, &attr), 0);
	EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
	EXPECT_EQ(attr.phys_state, 5); // link up
	EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_GE(attr.active_mtu, IBV_MTU_256);
	EXPECT_LE(attr.active_mtu, attr.max_mtu);
	EXPECT_GE(attr.max_msg_sz, 1U << 30);
	EXPECT_GE(attr.gid_tbl_len, 1);
	EXPECT_NE(attr.active_speed, 0);
	EXPECT_NE(attr.active_width, 0);
	EXPECT_TRUE(attr.flags & IBV_QPF_GRH_REQUIRED);
}

TEST(Device, OtherPortsDoNotExist)
{
	ibv_port_attr attr{};

	EXPECT_EQ(ibv_query_port(server_device(), 0, &attr), EINVAL);
	EXPECT_EQ(ibv_query_port(server_device(), 2, &attr), EINVAL);
	EXPECT_EQ(ibv_query_port(server_device(), 255, &attr), EINVAL);
}

// rdma_cm looks for it. The other slots are tested with SpareDevice.
TEST(Device, LastGidIsTheHardwareAddress)
{
	ibv_port_attr attr{};
	ibv_gid gid{};

	ASSERT_EQ(ibv_query_port(server_device(), 1, &attr), 0);
	ASSERT_EQ(ibv_query_gid(server_device(), 1, attr.gid_tbl_len - 1, &gid), 0);
	EXPECT_NE(gid.global.subnet_prefix, 0);
	EXPECT_EQ(gid.global.interface_id, 0);
	EXPECT_NE(ibv_query_gid(server_device(), 1, attr.gid_tbl_len, &gid), 0);
	EXPECT_NE(ibv_query_gid(server_device(), 2, 0, &gid), 0);
}

} // namespace
} // namespace vt
