// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What public names answer to input that isn't right, and how the device is shown.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <memory>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace {

/// How often this process has asked for the host's addresses
int asked = 0;

} // namespace

// The C library's, counted
extern "C" int getifaddrs(ifaddrs **list)
{
	static const auto next = reinterpret_cast<int (*)(ifaddrs **)>(dlsym(RTLD_NEXT, "getifaddrs"));

	asked++;
	return next(list);
}

namespace {

/// Whether KIWARP_USER has a word
bool has_option(std::string_view word)
{
	const char *options = std::getenv("KIWARP_USER");

	return options && std::string_view(options).find(word) != std::string_view::npos;
}

struct Names : testing::Test {
	Names()
	{
		list = ibv_get_device_list(&count);
		for (int i = 0; list && i < count; i++)
			if (std::strcmp(ibv_get_device_name(list[i]), "kiwu0") == 0)
				device = list[i];
		if (device)
			context = ibv_open_device(device);
		if (context)
			other = ibv_open_device(device);
		if (other) {
			pd = ibv_alloc_pd(context);
			cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
			other_pd = ibv_alloc_pd(other);
			other_cq = ibv_create_cq(other, 4, nullptr, nullptr, 0);
			other_channel = ibv_create_comp_channel(other);
		}
	}
	~Names() override
	{
		if (other) {
			ibv_destroy_comp_channel(other_channel);
			ibv_destroy_cq(other_cq);
			ibv_dealloc_pd(other_pd);
			ibv_destroy_cq(cq);
			ibv_dealloc_pd(pd);
			ibv_close_device(other);
			ibv_close_device(context);
		}
		if (list)
			ibv_free_device_list(list);
	}
	Names(const Names &) = delete;
	Names &operator=(const Names &) = delete;

	void SetUp() override { ASSERT_TRUE(pd && cq && other_pd && other_cq && other_channel); }

	ibv_qp_init_attr attributes() const
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = cq;
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
		return attr;
	}

	ibv_device **list = nullptr, *device = nullptr;
	int count = 0;
	ibv_context *context = nullptr, *other = nullptr;
	ibv_pd *pd = nullptr, *other_pd = nullptr;
	ibv_cq *cq = nullptr, *other_cq = nullptr;
	ibv_comp_channel *other_channel = nullptr;
};

/// Both return what the call has left in errno, where it fails.
template <typename Object>
int error_of(const Object *object)
{
	return object ? 0 : errno;
}
int error_of(int result)
{
	return result == -1 ? errno : result;
}

// Providers look so how libibverbs is made.
TEST_F(Names, LeaveWhatHasNoContextToTheNextLibrary)
{
	// The library looks behind it as well.
	struct {
		ibv_qp qp;
		std::uint64_t behind[64];
	} nobodys{};

	EXPECT_EQ(ibv_qp_to_qp_ex(&nobodys.qp), nullptr);
}

TEST_F(Names, OfTheDeviceAsItIsShown)
{
	const bool roce = has_option("show=roce");
	struct stat status {};

	EXPECT_EQ(device->node_type, roce ? IBV_NODE_CA : IBV_NODE_RNIC);
	EXPECT_EQ(device->transport_type, roce ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP);
	EXPECT_EQ(error_of(stat("/dev/infiniband/kiwu0", &status)), roce ? 0 : ENOENT);
	EXPECT_EQ(S_ISCHR(status.st_mode), roce);
	EXPECT_EQ(error_of(access("/dev/infiniband/kiwu0", R_OK | W_OK)), roce ? 0 : ENOENT);
	EXPECT_EQ(error_of(access("/dev/infiniband/kiwu1", R_OK | W_OK)), ENOENT);
	EXPECT_EQ(error_of(stat("/dev/null", &status)), 0);
	EXPECT_TRUE(S_ISCHR(status.st_mode));
	EXPECT_EQ(error_of(stat("/dev/null/x", &status)), ENOTDIR);
	EXPECT_EQ(list[has_option("prefer=Y") ? 0 : count - 1], device);
	ibv_device_attr_ex attr{};
	ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
	EXPECT_EQ(attr.orig_attr.phys_port_cnt, 1);
	EXPECT_EQ(attr.phys_port_cnt_ex, 1);
	EXPECT_EQ(list[count], nullptr);
}

TEST_F(Names, GidsOfAddresses)
{
	ibv_gid first{}, gid{}, loopback{};
	ibv_port_attr port{};
	bool repeated = false, has_loopback = false;

	ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
	ASSERT_EQ(ibv_query_gid(context, 1, 0, &first), 0);
	loopback.raw[10] = loopback.raw[11] = 0xff;
	loopback.raw[12] = 127;
	loopback.raw[15] = 1;
	for (int i = 1; i < port.gid_tbl_len - 1; i++) {
		ASSERT_EQ(ibv_query_gid(context, 1, i, &gid), 0);
		repeated = repeated || std::memcmp(&gid, &first, sizeof(gid)) == 0;
		has_loopback = has_loopback || std::memcmp(&gid, &loopback, sizeof(gid)) == 0;
	}
	// Slot 0 is usable as it is.
	EXPECT_NE(first.global.interface_id, 0);
	EXPECT_TRUE(repeated);
	EXPECT_TRUE(has_loopback);
	ASSERT_EQ(ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid), 0);
	EXPECT_EQ(gid.global.interface_id, 0);
	EXPECT_EQ(error_of(ibv_query_gid(context, 1, port.gid_tbl_len, &gid)), EINVAL);
	EXPECT_EQ(error_of(ibv_query_gid(context, 2, 0, &gid)), EINVAL);
	EXPECT_EQ(error_of(ibv_query_gid(context, 1, -1, &gid)), EINVAL);
}

TEST_F(Names, TableOfGidsThatFits)
{
	std::array<ibv_gid_entry, 64> table{};
	ibv_gid_entry entry{};

	const ssize_t n = ibv_query_gid_table(context, table.data(), table.size(), 0);
	ASSERT_GT(n, 0);
	for (std::size_t i = 0; i < std::size_t(n); i++) {
		ASSERT_EQ(ibv_query_gid_ex(context, 1, table[i].gid_index, &entry, 0), 0);
		EXPECT_EQ(std::memcmp(&entry, &table[i], sizeof(entry)), 0);
	}
	EXPECT_EQ(ibv_query_gid_table(context, table.data(), std::size_t(n), 0), n);
	EXPECT_EQ(ibv_query_gid_table(context, table.data(), std::size_t(n - 1), 0), -EINVAL);
	EXPECT_EQ(ibv_query_gid_table(context, table.data(), 0, 0), -EINVAL);
}

// perftest reads the table four times before it connects.
TEST_F(Names, TheHostIsNotAskedForEachGid)
{
	ibv_gid gid{};
	ibv_port_attr port{};

	ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
	asked = 0;
	for (int i = 0; i < port.gid_tbl_len; i++)
		ASSERT_EQ(ibv_query_gid(context, 1, i, &gid), 0);
	EXPECT_GT(asked, 0);
	EXPECT_LT(asked, port.gid_tbl_len / 4);
}

TEST_F(Names, NumberOfTheNode)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(context, &attr), 0);
	EXPECT_NE(attr.node_guid, 0U);
	EXPECT_EQ(attr.node_guid, ibv_get_device_guid(device));
	EXPECT_EQ(attr.sys_image_guid, attr.node_guid);
}

TEST_F(Names, ObjectsOfTwoDevices)
{
	ibv_qp_init_attr attr = attributes();
	ibv_srq_init_attr srq_attr{.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
	std::uint8_t bytes[64];

	attr.send_cq = other_cq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	attr = attributes();
	attr.recv_cq = other_cq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	attr = attributes();
	ibv_srq *srq = ibv_create_srq(other_pd, &srq_attr);
	ASSERT_TRUE(srq);
	attr.srq = srq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	ibv_destroy_srq(srq);
	EXPECT_EQ(error_of(ibv_create_cq(context, 4, nullptr, other_channel, 0)), EINVAL);
	ibv_cq_init_attr_ex cq_attr{};
	cq_attr.cqe = 4;
	cq_attr.channel = other_channel;
	EXPECT_EQ(error_of(ibv_create_cq_ex(context, &cq_attr)), EINVAL);
	ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	ASSERT_TRUE(mr);
	EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other_pd, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	ibv_parent_domain_init_attr parent{};
	parent.pd = other_pd;
	EXPECT_EQ(error_of(ibv_alloc_parent_domain(context, &parent)), EINVAL);
}

/// Objects of a device that isn't ours: what they are of is asked before anything of them is used.
TEST_F(Names, ObjectsOfAnotherDevice)
{
	auto strange = std::make_unique<verbs_context>();
	ibv_device nobody{};
	ibv_qp_init_attr attr = attributes();
	ibv_pd strange_pd{};
	ibv_cq strange_cq{};
	ibv_srq strange_srq{};
	ibv_comp_channel strange_channel{};

	strange->context.device = &nobody;
	strange_pd.context = strange_cq.context = strange_srq.context = strange_channel.context = &strange->context;
	strange_srq.pd = &strange_pd;
	attr.send_cq = &strange_cq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	attr = attributes();
	attr.recv_cq = &strange_cq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	attr = attributes();
	attr.srq = &strange_srq;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	EXPECT_EQ(error_of(ibv_create_cq(context, 4, nullptr, &strange_channel, 0)), EINVAL);
	ibv_parent_domain_init_attr parent{};
	parent.pd = &strange_pd;
	EXPECT_EQ(error_of(ibv_alloc_parent_domain(context, &parent)), EINVAL);
}

TEST_F(Names, NothingWhereSomethingIsNeeded)
{
	ibv_qp_init_attr attr = attributes();
	rdma_cm_id *id = nullptr;
	rdma_addrinfo *found = nullptr;
	rdma_event_channel *channel = rdma_create_event_channel();

	attr.send_cq = nullptr;
	EXPECT_EQ(error_of(ibv_create_qp(pd, &attr)), EINVAL);
	EXPECT_EQ(error_of(ibv_reg_mr(pd, nullptr, 4096, 0)), EFAULT);
	ASSERT_TRUE(channel);
	ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
	EXPECT_EQ(error_of(rdma_resolve_addr(id, nullptr, nullptr, 1000)), EINVAL);
	EXPECT_EQ(error_of(rdma_bind_addr(id, nullptr)), EINVAL);
	EXPECT_EQ(error_of(rdma_resolve_route(id, 1000)), EINVAL);
	EXPECT_EQ(error_of(rdma_connect(id, nullptr)), EINVAL);
	EXPECT_EQ(error_of(rdma_accept(id, nullptr)), EINVAL);
	EXPECT_EQ(error_of(rdma_disconnect(id)), EINVAL);
	EXPECT_EQ(error_of(rdma_reject(id, nullptr, 7)), EINVAL);
	EXPECT_EQ(error_of(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1)), EFAULT);
	EXPECT_EQ(error_of(rdma_get_cm_event(channel, nullptr)), EINVAL);
	EXPECT_EQ(error_of(rdma_ack_cm_event(nullptr)), EINVAL);
	EXPECT_EQ(error_of(rdma_getaddrinfo(nullptr, nullptr, nullptr, &found)), EINVAL);
	rdma_freeaddrinfo(nullptr);
	rdma_free_devices(nullptr);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST_F(Names, WhatThereIsNot)
{
	EXPECT_EQ(error_of(ibv_import_pd(context, 0)), EOPNOTSUPP);
	EXPECT_EQ(error_of(ibv_import_mr(pd, 0)), EOPNOTSUPP);
	EXPECT_EQ(error_of(ibv_import_dm(context, 0)), EOPNOTSUPP);
	EXPECT_EQ(error_of(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0)), EOPNOTSUPP);
	EXPECT_EQ(error_of(rsocket(AF_INET, SOCK_STREAM, 0)), ENODEV);
	EXPECT_EQ(error_of(static_cast<int>(rsend(0, "", 1, 0))), ENODEV);
}

} // namespace
