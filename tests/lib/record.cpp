// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "record.hpp"

#include <algorithm>
#include <cerrno>

namespace record {

namespace {

ud::Options options_of(const TargetOptions &options)
{
	ud::Options all;

	all.completions = options.completions;
	all.extended_cq = true;
	all.create_qp = [options](ibv_context *context, ibv_qp_init_attr_ex *attr) {
		kiwarpdv_qp_init_attr dv{};

		dv.flags = options.flags;
		dv.udp_port = options.udp_port;
		dv.record_timeout = options.timeout;
		return kiwarpdv_create_qp(context, attr, &dv, sizeof(dv));
	};
	return all;
}

ud::Options options_of(std::uint32_t seg_size)
{
	ud::Options all;

	all.memory = 4 << 20;
	all.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	all.create_qp = [seg_size](ibv_context *context, ibv_qp_init_attr_ex *attr) {
		kiwarpdv_qp_init_attr dv{};

		dv.seg_size = seg_size;
		return seg_size ? kiwarpdv_create_qp(context, attr, &dv, sizeof(dv)) : ibv_create_qp_ex(context, attr);
	};
	return all;
}

void put(ud::Bytes &bytes, std::uint64_t value, int octets)
{
	for (int shift = octets * 8 - 8; shift >= 0; shift -= 8)
		bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

} // namespace

Target::Target(const TargetOptions &options) : End("kiw1", options_of(options)) {}

Arrival Target::arrived() const
{
	ibv_poll_cq_attr attr{};
	Arrival arrival{};

	if (const int error = kiwarpdv_start_poll(recv_cq_ex(), &attr, 30'000'000))
		vt::fail("no message", error);
	arrival.status = recv_cq_ex()->status;
	arrival.opcode = ibv_wc_read_opcode(recv_cq_ex());
	EXPECT_EQ(recv_cq_ex()->wr_id, 0);
	EXPECT_TRUE(kiwarpdv_is_record(recv_cq_ex()));
	EXPECT_EQ(kiwarpdv_read_record(recv_cq_ex(), &arrival.record, sizeof(arrival.record)), 0);
	EXPECT_EQ(ibv_wc_read_byte_len(recv_cq_ex()), arrival.record.valid);
	EXPECT_EQ(ibv_wc_read_src_qp(recv_cq_ex()), arrival.record.src_qp);
	EXPECT_EQ(ibv_wc_read_qp_num(recv_cq_ex()), number());
	ibv_end_poll(recv_cq_ex());
	return arrival;
}

bool Target::quiet() const
{
	ibv_poll_cq_attr attr{};

	if (ibv_start_poll(recv_cq_ex(), &attr))
		return true;
	ibv_end_poll(recv_cq_ex());
	return false;
}

Writer::Writer(std::uint32_t seg_size) : End("kiw0", options_of(seg_size)) {}

int Writer::post(const ud::To &to, std::uint64_t remote, std::uint32_t rkey, std::size_t offset, std::size_t length,
	std::uint64_t id) const
{
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp());
	const ibv_sge sge = memory().sge(offset, length);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rkey, remote);
	ibv_wr_set_ud_addr(ex, to.ah, to.number, to.key);
	if (length)
		ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	return ibv_wr_complete(ex);
}

void Writer::write(
	const ud::To &to, std::uint64_t remote, std::uint32_t rkey, std::size_t offset, std::size_t length) const
{
	if (const int error = post(to, remote, rkey, offset, length))
		vt::fail("ibv_wr_complete", error);
	const ibv_wc wc = sent();
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
}

ud::Bytes segment(const Forged &message, std::uint32_t offset, std::uint8_t value)
{
	const std::uint32_t payload = std::min(message.seg_size, message.length - offset);
	const bool last = offset + payload == message.length;
	ud::Bytes bytes{0x0d, 0x10, static_cast<std::uint8_t>(last ? 0xc1 : 0x81), 0x40};

	put(bytes, message.rkey, 4);
	put(bytes, message.remote + offset, 8);
	put(bytes, message.key, 4);
	put(bytes, message.id, 4);
	put(bytes, message.length, 4);
	put(bytes, offset, 4);
	put(bytes, message.seg_size, 4);
	bytes.insert(bytes.end(), payload, value);
	return ud::closed(bytes);
}

namespace {

using ForEach = int (*)(const kiwarpdv_record *, kiwarpdv_range_fn, void *);

Ranges ranges(const kiwarpdv_record &record, ForEach for_each)
{
	struct Told {
		std::uint64_t from;
		Ranges ranges;
	} told{record.addr, {}};
	const auto add = [](void *argument, std::uint64_t addr, std::uint32_t length) {
		auto &to = *static_cast<Told *>(argument);
		to.ranges.emplace_back(addr - to.from, length);
		return 0;
	};

	EXPECT_EQ(for_each(&record, add, &told), 0);
	return told.ranges;
}

} // namespace

Ranges holes(const kiwarpdv_record &record)
{
	return ranges(record, kiwarpdv_for_each_hole);
}

Ranges valid(const kiwarpdv_record &record)
{
	return ranges(record, kiwarpdv_for_each_valid);
}

} // namespace record
