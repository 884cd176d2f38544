// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a process sees of its devices, and what programs that know InfiniBand alone do with that: how NCCL, UCX and
// Mooncake choose a device and a GID, and how NCCL connects. KIWARP_TEST_TRANSPORT says what the process has to see,
// InfiniBand or iWARP.
#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "../lib/gid.hpp"
#include "../lib/support.hpp"

namespace shown {
namespace {

bool as_infiniband()
{
	const char *transport = std::getenv("KIWARP_TEST_TRANSPORT"); // NOLINT(concurrency-mt-unsafe)

	return transport && std::string(transport) == "InfiniBand";
}

void expect_shown(const ibv_device &device)
{
	EXPECT_EQ(device.node_type, as_infiniband() ? IBV_NODE_CA : IBV_NODE_RNIC) << device.name;
	EXPECT_EQ(device.transport_type, as_infiniband() ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP) << device.name;
}

TEST(Devices, AreShownAlikeInEveryList)
{
	for (int round = 0; round < 2; round++) {
		int count = 0;
		ibv_device **list = ibv_get_device_list(&count);

		ASSERT_TRUE(list);
		EXPECT_GE(count, 2);
		for (int i = 0; i < count; i++)
			expect_shown(*list[i]);
		ibv_free_device_list(list);
	}
	const vt::Context context = vt::open_device("kiw0");
	expect_shown(*context->device);
}

ibv_port_attr port_of(ibv_context *context)
{
	ibv_port_attr attr{};

	if (const int error = ibv_query_port(context, 1, &attr))
		vt::fail("ibv_query_port", error);
	return attr;
}

// Nothing but the type is another.
TEST(Ports, AreEthernetEitherWay)
{
	const vt::Context context = vt::open_device("kiw0");
	const ibv_port_attr attr = port_of(context.get());
	__be16 key = 0xffff;

	EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
	EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT_EQ(attr.lid, 0);
	EXPECT_EQ(attr.pkey_tbl_len, 1);
	ASSERT_EQ(ibv_query_pkey(context.get(), 1, 0, &key), 0);
	EXPECT_EQ(key, 0);
}

bool is_zero(const ibv_gid &gid)
{
	return !gid.global.subnet_prefix && !gid.global.interface_id;
}

ibv_gid gid_of(ibv_context *context, int slot)
{
	ibv_gid gid{};

	if (ibv_query_gid(context, 1, slot, &gid))
		vt::fail("ibv_query_gid", errno);
	return gid;
}

/// As NCCL and UCX read it, and libibverbs before it has a call for that
std::string type_in_sysfs(const std::string &device, int slot)
{
	std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/gid_attrs/types/" + std::to_string(slot));
	std::string type;

	std::getline(file, type);
	return type;
}

// NCCL and UCX read sysfs. ibv_query_gid_ex() gets RDMA core's own word for such a GID.
TEST(Gids, AreOfOneTypeEitherWay)
{
	const vt::Context context = vt::open_device("kiw0");
	const ibv_port_attr attr = port_of(context.get());

	for (int slot = 0; slot < attr.gid_tbl_len; slot++) {
		const ibv_gid gid = gid_of(context.get(), slot);
		ibv_gid_entry entry{};

		const int error = ibv_query_gid_ex(context.get(), 1, static_cast<std::uint32_t>(slot), &entry, 0);
		EXPECT_EQ(error, is_zero(gid) ? ENODATA : 0) << slot;
		EXPECT_EQ(type_in_sysfs("kiw0", slot), is_zero(gid) ? "" : "IB/RoCE v1") << slot;
		if (error)
			continue;
		EXPECT_EQ(std::memcmp(entry.gid.raw, gid.raw, sizeof(gid)), 0);
		EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_IB)) << slot;
	}
}

// --- how programs choose ---

bool is_ipv4(const ibv_gid &gid)
{
	return !gid.global.subnet_prefix && ntohl(reinterpret_cast<const std::uint32_t *>(gid.raw)[2]) == 0xffff;
}

/// NCCL starts with slot 0 and goes to another one whose address is of IPv4, if that one's isn't, or whose RoCE is
/// version 2. Before release 2.21 it takes slot 0.
int nccl_slot(ibv_context *context, const std::string &device, int slots)
{
	int chosen = 0;

	for (int slot = 1; slot < slots; slot++) {
		const ibv_gid best = gid_of(context, chosen), other = gid_of(context, slot);

		if (!is_ipv4(other))
			continue;
		if (!is_ipv4(best) ||
			(type_in_sysfs(device, slot) == "RoCE v2" && type_in_sysfs(device, chosen) != "RoCE v2"))
			chosen = slot;
	}
	return chosen;
}

/// Mooncake takes a slot of RoCE version 2 with an IPv4 address, else the first that has an interface.
std::optional<int> mooncake_slot(ibv_context *context, int slots)
{
	std::optional<int> first;

	for (int slot = 0; slot < slots; slot++) {
		ibv_gid_entry entry{};

		if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(slot), &entry, 0))
			continue;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(entry.gid))
			return slot;
		if (!first && entry.ndev_ifindex)
			first = slot;
	}
	return first;
}

TEST(Choices, AllComeToTheFirstAddress)
{
	for (const auto &[device, address] : {std::pair{"kiw0", vt::ipv4.left}, std::pair{"kiw1", vt::ipv4.right}}) {
		const vt::Context context = vt::open_device(device);
		const ibv_port_attr attr = port_of(context.get());
		const vt::Gid wanted = vt::find_gid(context.get(), address);

		// NCCL and gloo ask for no transport, but for these.
		EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
		EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
		EXPECT_EQ(nccl_slot(context.get(), device, attr.gid_tbl_len), 0);
		// UCX takes no slot whose second half is zero, as a hardware address's is.
		EXPECT_NE(gid_of(context.get(), 0).global.interface_id, 0);
		// Before Linux 6.6 no slot has an interface.
		EXPECT_EQ(mooncake_slot(context.get(), attr.gid_tbl_len).value_or(0), 0);
		const ibv_gid first = gid_of(context.get(), 0);
		EXPECT_EQ(std::memcmp(first.raw, wanted.gid.raw, sizeof(first)), 0);
	}
}

// UCX asks of each slot whether an address handle to it can be made.
TEST(Choices, EveryAddressCanBeNamedFromItsSlot)
{
	const vt::Context context = vt::open_device("kiw0");
	const vt::Pd pd = vt::make_pd(context.get());
	const int last = port_of(context.get()).gid_tbl_len - 1;

	for (int slot = 0; slot <= last; slot++) {
		ibv_ah_attr attr{};

		attr.port_num = 1;
		attr.dlid = 0xc000;
		attr.is_global = 1;
		attr.grh.dgid = gid_of(context.get(), slot);
		attr.grh.sgid_index = static_cast<std::uint8_t>(slot);
		attr.grh.hop_limit = 255;
		attr.grh.flow_label = 1;
		ibv_ah *ah = ibv_create_ah(pd.get(), &attr);
		// The last is the hardware address, which is none.
		EXPECT_EQ(ah != nullptr, slot != last && !is_zero(attr.grh.dgid)) << slot;
		if (ah)
			ibv_destroy_ah(ah);
	}
}

// --- how NCCL connects and sends: by slot 0, with PSNs of 0, Writes that announce themselves by immediate data ---

class NcclEnd {
public:
	explicit NcclEnd(const std::string &device)
		: context_(vt::open_device(device)),
		  pd_(vt::make_pd(context_.get())),
		  cq_(vt::make_cq(context_.get(), 512)),
		  memory_(pd_.get(), 1 << 20, vt::all_access)
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = cq_.get();
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {512, 256, 1, 1, 0};
		qp_.reset(ibv_create_qp(pd_.get(), &attr));
		if (!qp_)
			vt::fail("ibv_create_qp", errno);
		ibv_qp_attr init{};
		init.qp_state = IBV_QPS_INIT;
		init.port_num = 1;
		init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		modify(init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	}
	void connect(const NcclEnd &peer)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = port_of(context_.get()).active_mtu;
		attr.dest_qp_num = peer.qp_->qp_num;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 12;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		attr.ah_attr.grh.dgid = gid_of(peer.context_.get(), 0);
		attr.ah_attr.grh.hop_limit = 255;
		modify(attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 20;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		modify(attr,
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	}
	void receive() const
	{
		ibv_recv_wr wr{}, *bad = nullptr;

		wr.wr_id = 2;
		if (const int error = ibv_post_recv(qp_.get(), &wr, &bad))
			vt::fail("ibv_post_recv", error);
	}
	void write(const NcclEnd &to, std::uint32_t length, std::uint32_t said) const
	{
		ibv_sge sge = memory_.sge(0, length);
		ibv_send_wr last{}, wr{}, *bad = nullptr;

		last.wr_id = 1;
		last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		last.send_flags = IBV_SEND_SIGNALED;
		last.imm_data = htonl(said);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma = {to.memory_.address(), to.memory_.rkey()};
		wr.next = &last;
		if (const int error = ibv_post_send(qp_.get(), &wr, &bad))
			vt::fail("ibv_post_send", error);
	}
	ibv_wc completion() const { return vt::poll_one(cq_.get()); }
	const vt::Region &memory() const { return memory_; }

private:
	void modify(ibv_qp_attr attr, int mask) const
	{
		if (const int error = ibv_modify_qp(qp_.get(), &attr, mask | IBV_QP_STATE))
			vt::fail("ibv_modify_qp", error);
	}

	vt::Context context_;
	vt::Pd pd_;
	vt::Cq cq_;
	vt::Region memory_;
	vt::Qp qp_;
};

TEST(Nccl, Connects)
{
	NcclEnd left("kiw0"), right("kiw1");

	left.connect(right);
	right.connect(left);
	for (const auto &[from, to] : {std::pair{&left, &right}, std::pair{&right, &left}})
		for (const std::uint32_t length : {8U, 4096U, 1U << 20}) {
			from->memory().fill_pattern(length);
			to->memory().fill(0);
			to->receive();
			from->write(*to, length, length);
			EXPECT_WC(from->completion(), 1, IBV_WC_SUCCESS);
			const ibv_wc wc = to->completion();
			EXPECT_WC(wc, 2, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			EXPECT_EQ(ntohl(wc.imm_data), length);
			EXPECT_TRUE(vt::same(from->memory().bytes(0, length), to->memory().bytes(0, length)));
		}
}

} // namespace
} // namespace shown
