// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Verbs, while one allocation after the other fails under them.
#include <cerrno>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include "../lib/connection.hpp"
#include "every_fault.hpp"
#include "footprint.hpp"
#include "injection.hpp"

namespace faults {

namespace {

constexpr std::size_t page = 4096;

class VerbsFaults : public testing::Test {
protected:
	ibv_context *context = vt::server_device();
};

// An object by the call that makes it, which returns null and errno, and the call that destroys it
template <typename T>
Call making(const std::function<T *()> &make, int (*destroy)(T *))
{
	auto object = std::make_shared<T *>(nullptr);

	return {.call = [=] { return (*object = make()) ? 0 : errno; },
		.after = [=] { EXPECT_EQ(destroy(*object), 0); },
		.errors = {ENOMEM}};
}

template <typename T>
Call destroying(const std::function<T *()> &make, int (*destroy)(T *))
{
	auto object = std::make_shared<T *>(nullptr);

	return {.prepare =
			[=] {
				*object = make();
				if (!*object)
					vt::fail("an object can't be made", errno);
			},
		.call =
			[=] {
				return destroy(*object);
			}};
}

} // namespace

TEST_F(VerbsFaults, OpenDevice)
{
	const std::function<ibv_context *()> open = [this] {
		return ibv_open_device(context->device);
	};

	every_fault(Allocates::nothing, making(open, ibv_close_device));
	every_fault(Allocates::nothing, destroying(open, ibv_close_device));
}

TEST_F(VerbsFaults, Query)
{
	every_fault(Allocates::nothing, {.call = [this] {
		ibv_device_attr attr{};
		ibv_port_attr port{};
		ibv_gid gid{};

		return ibv_query_device(context, &attr) || ibv_query_port(context, 1, &port) ||
				       ibv_query_gid(context, 1, 0, &gid)
			       ? errno
			       : 0;
	}});
}

TEST_F(VerbsFaults, Pd)
{
	const std::function<ibv_pd *()> alloc = [this] {
		return ibv_alloc_pd(context);
	};

	every_fault(Allocates::nothing, making(alloc, ibv_dealloc_pd));
	every_fault(Allocates::nothing, destroying(alloc, ibv_dealloc_pd));
}

TEST_F(VerbsFaults, CompletionChannel)
{
	const std::function<ibv_comp_channel *()> create = [this] {
		return ibv_create_comp_channel(context);
	};

	every_fault(Allocates::nothing, making(create, ibv_destroy_comp_channel));
	every_fault(Allocates::nothing, destroying(create, ibv_destroy_comp_channel));
}

// Creating a CQ, as creating a QP, also maps its rings.
TEST_F(VerbsFaults, Cq)
{
	const std::function<ibv_cq *()> create = [this] {
		return ibv_create_cq(context, 256, nullptr, nullptr, 0);
	};

	every_fault(Allocates::something, making(create, ibv_destroy_cq));
	every_fault(Allocates::nothing, destroying(create, ibv_destroy_cq));
}

TEST_F(VerbsFaults, ResizeCq)
{
	const vt::Cq cq = vt::make_cq(context, 256);

	every_fault(Allocates::something, {.call = [&] { return ibv_resize_cq(cq.get(), 512); },
						  .after = [&] { EXPECT_EQ(ibv_resize_cq(cq.get(), 256), 0); },
						  .errors = {ENOMEM}});
}

TEST_F(VerbsFaults, Srq)
{
	const vt::Pd pd = vt::make_pd(context);
	const std::function<ibv_srq *()> create = [&] {
		ibv_srq_init_attr attr{};

		attr.attr.max_wr = 1024;
		attr.attr.max_sge = 2;
		return ibv_create_srq(pd.get(), &attr);
	};

	every_fault(Allocates::something, making(create, ibv_destroy_srq));
	every_fault(Allocates::nothing, destroying(create, ibv_destroy_srq));
}

TEST_F(VerbsFaults, ResizeSrq)
{
	const vt::Pd pd = vt::make_pd(context);
	const vt::Srq srq = vt::make_srq(pd.get(), 64);
	const auto resize = [&](std::uint32_t requests) {
		ibv_srq_attr attr{.max_wr = requests, .max_sge = 0, .srq_limit = 0};

		return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
	};

	every_fault(Allocates::something,
		{.call = [&] { return resize(4096); }, .after = [&] { EXPECT_EQ(resize(64), 0); }, .errors = {ENOMEM}});
}

TEST_F(VerbsFaults, Window)
{
	const vt::Pd pd = vt::make_pd(context);

	for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
		const std::function<ibv_mw *()> alloc = [&] {
			return ibv_alloc_mw(pd.get(), type);
		};

		every_fault(Allocates::something, making(alloc, ibv_dealloc_mw));
		every_fault(Allocates::nothing, destroying(alloc, ibv_dealloc_mw));
	}
}

TEST_F(VerbsFaults, Import)
{
	const vt::Context opened = vt::open_device(ibv_get_device_name(context->device));
	const vt::Pd pd = vt::make_pd(opened.get());
	const vt::Region region(pd.get(), page);
	const std::function<ibv_context *()> import = [&] {
		return ibv_import_device(::dup(opened->cmd_fd));
	};
	const vt::Context imported(import());
	const std::function<ibv_pd *()> import_pd = [&] {
		return ibv_import_pd(imported.get(), pd->handle);
	};
	const auto drop_pd = [](ibv_pd *object) {
		ibv_unimport_pd(object);
		return 0;
	};

	ASSERT_TRUE(imported);
	every_fault(Allocates::nothing, making(import, ibv_close_device));
	every_fault(Allocates::nothing, making<ibv_pd>(import_pd, drop_pd));
	ibv_pd *const found = import_pd();
	ASSERT_TRUE(found);
	const std::function<ibv_mr *()> import_mr = [&] {
		return ibv_import_mr(found, region.mr()->handle);
	};
	every_fault(Allocates::nothing, making<ibv_mr>(import_mr, [](ibv_mr *object) {
		ibv_unimport_mr(object);
		return 0;
	}));
	ibv_unimport_pd(found);
}

TEST_F(VerbsFaults, Mr)
{
	const vt::Pd pd = vt::make_pd(context);
	// More pages than fit the first of the lists that are made of them; those are there before.
	constexpr std::size_t size = 600 * page;
	void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	const std::function<ibv_mr *()> reg = [&] {
		return ibv_reg_mr(pd.get(), memory, size, vt::all_access);
	};

	ASSERT_NE(memory, MAP_FAILED);
	every_fault(Allocates::something, making(reg, ibv_dereg_mr));
	every_fault(Allocates::nothing, destroying(reg, ibv_dereg_mr));
	munmap(memory, size);
}

TEST_F(VerbsFaults, ReregMr)
{
	const vt::Pd pd = vt::make_pd(context);
	const vt::Region region(pd.get(), page);

	every_fault(Allocates::something, {.call =
							  [&] {
								  return ibv_rereg_mr(region.mr(),
										 IBV_REREG_MR_CHANGE_ACCESS, nullptr,
										 nullptr, 0, vt::all_access)
										 ? errno
										 : 0;
							  },
						  .errors = {ENOMEM}});
}

TEST_F(VerbsFaults, MrOfPagesThatRegistrationMakes)
{
	const vt::Pd pd = vt::make_pd(context);
	constexpr std::size_t size = 4 * page;
	void *memory = nullptr;
	ibv_mr *mr = nullptr;

	every_fault(Allocates::something,
		{.prepare =
				[&] {
					memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
				},
			.call = [&] { return (mr = ibv_reg_mr(pd.get(), memory, size, vt::all_access)) ? 0 : errno; },
			.after = [&] { EXPECT_EQ(ibv_dereg_mr(mr), 0); },
			.clean = [&] { munmap(memory, size); },
			.errors = {ENOMEM, EFAULT}});
}

class QpFaults : public VerbsFaults {
protected:
	ibv_qp *create() const
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = cq.get();
		attr.recv_cq = cq.get();
		attr.qp_type = IBV_QPT_RC;
		// So many requests that the kernel's notes on them are more than a page, and may be had in pieces
		attr.cap = {.max_send_wr = 1024,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 16};
		return ibv_create_qp(pd.get(), &attr);
	}

	const vt::Pd pd = vt::make_pd(context);
	const vt::Cq cq = vt::make_cq(context, 256);
	const std::function<ibv_qp *()> make = [this] {
		return create();
	};
};

TEST_F(QpFaults, Create)
{
	every_fault(Allocates::something, making(make, ibv_destroy_qp));
}

TEST_F(QpFaults, Destroy)
{
	every_fault(Allocates::nothing, destroying(make, ibv_destroy_qp));
}

TEST_F(QpFaults, UseWithoutConnection)
{
	ibv_qp *qp = nullptr;
	const auto modify = [&](ibv_qp_state state) {
		ibv_qp_attr attr{};

		attr.qp_state = state;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
		attr.port_num = 1;
		return ibv_modify_qp(qp, &attr,
			state == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT
					      : IBV_QP_STATE);
	};

	every_fault(Allocates::nothing, {.prepare = [&] { ASSERT_TRUE(qp = create()); },
						.call =
							[&] {
								ibv_qp_attr attr{};
								ibv_qp_init_attr init{};
								ibv_recv_wr wr{};
								ibv_recv_wr *bad = nullptr;
								int error = modify(IBV_QPS_INIT);

								if (!error)
									error = ibv_query_qp(
										qp, &attr, IBV_QP_STATE, &init);
								if (!error)
									error = ibv_post_recv(qp, &wr, &bad);
								if (!error)
									error = modify(IBV_QPS_ERR);
								// With a doorbell, because it is to be flushed
								if (!error)
									error = ibv_post_recv(qp, &wr, &bad);
								if (!error)
									error = modify(IBV_QPS_RESET);
								return error;
							},
						.clean =
							[&] {
								EXPECT_EQ(ibv_destroy_qp(qp), 0);
								vt::poll_all(cq.get());
							}});
}

// --- datagrams --------------------------------------------------------------------------------------

class DatagramFaults : public VerbsFaults {
protected:
	DatagramFaults()
	{
		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.sgid_index = 1;
		if (ibv_query_gid(context, 1, 1, &attr.grh.dgid))
			vt::fail("ibv_query_gid", errno);
		group.raw[0] = 0xff;
		group.raw[1] = 0x02;
		group.raw[15] = 0x77;
	}
	ibv_qp *create() const
	{
		ibv_qp_init_attr init{};

		init.send_cq = cq.get();
		init.recv_cq = cq.get();
		init.qp_type = IBV_QPT_UD;
		init.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2};
		return ibv_create_qp(pd.get(), &init);
	}
	static void start(ibv_qp *qp)
	{
		ibv_qp_attr to{};

		to.qp_state = IBV_QPS_INIT;
		to.port_num = 1;
		to.qkey = 1;
		EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
		to.qp_state = IBV_QPS_RTR;
		EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
		to.qp_state = IBV_QPS_RTS;
		EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	}

	const vt::Pd pd = vt::make_pd(context);
	const vt::Cq cq = vt::make_cq(context, 256);
	const std::function<ibv_qp *()> make = [this] {
		return create();
	};
	const std::function<ibv_ah *()> make_ah = [this] {
		return ibv_create_ah(pd.get(), &attr);
	};
	ibv_ah_attr attr{};
	ibv_gid group{};
};

TEST_F(DatagramFaults, QueuePair)
{
	every_fault(Allocates::something, making(make, ibv_destroy_qp));
	every_fault(Allocates::nothing, destroying(make, ibv_destroy_qp));
}

TEST_F(DatagramFaults, AddressHandle)
{
	every_fault(Allocates::nothing, making(make_ah, ibv_destroy_ah));
	every_fault(Allocates::nothing, destroying(make_ah, ibv_destroy_ah));
}

TEST_F(DatagramFaults, Membership)
{
	ibv_qp *qp = create();

	ASSERT_TRUE(qp);
	every_fault(Allocates::something, {.call = [&] { return ibv_attach_mcast(qp, &group, 0); },
						  .after = [&] { EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0); },
						  .errors = {ENOMEM}});
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// They wait until there is memory.
TEST_F(DatagramFaults, Send)
{
	constexpr std::size_t size = 30000;
	const vt::Region memory(pd.get(), 2 * size);
	ibv_qp *qp = create();
	ibv_ah *ah = make_ah();
	unsigned int n = 0;
	bool failed = false;

	ASSERT_TRUE(qp && ah);
	start(qp);
	do {
		ibv_sge from = memory.sge(0, size);
		ibv_sge to = memory.sge(size, size);
		ibv_send_wr wr{};
		ibv_send_wr *bad = nullptr;
		ibv_recv_wr rwr{};
		ibv_recv_wr *bad_recv = nullptr;
		int error = 0;

		ASSERT_LT(++n, 2000U);
		from.length -= 40;
		wr.sg_list = &from;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.ud = {ah, qp->qp_num, 1};
		rwr.sg_list = &to;
		rwr.num_sge = 1;
		ASSERT_EQ(ibv_post_recv(qp, &rwr, &bad_recv), 0);
		memory.fill_pattern(n);
		failed = with_nth_failing(n, [&] { error = ibv_post_send(qp, &wr, &bad); });
		ASSERT_EQ(error, 0) << "fault " << n;
		for (int i = 0; i < 2; i++)
			ASSERT_EQ(vt::poll_one(cq.get()).status, IBV_WC_SUCCESS) << "fault " << n;
		ASSERT_TRUE(vt::same(memory.bytes(0, size - 40), memory.bytes(size + 40, size - 40))) << "fault " << n;
	} while (failed);
	std::cout << "  allocations that failed: " << n - 1 << '\n';
	EXPECT_GT(n, 1U);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// --- doorbells --------------------------------------------------------------------------------------

// Work requests don't fail for want of memory: they are done when there is some.
class DoorbellFaults : public testing::Test {
protected:
	void every_fault_of(ibv_wr_opcode opcode);
	/// Posts by the n-th call with its n-th allocation failing, and has what came of it checked, until none fails.
	void every_fault_of(
		const std::function<int(std::uint64_t)> &post, const std::function<void(std::uint64_t)> &check);

	vt::Pair pair;
	static constexpr std::size_t size = 256 * 1024;
	const vt::Region local{pair.a().pd(), size};
	const vt::Region remote{pair.b().pd(), size};
};

void DoorbellFaults::every_fault_of(
	const std::function<int(std::uint64_t)> &post, const std::function<void(std::uint64_t)> &check)
{
	unsigned int n = 0;
	bool failed = false;

	do {
		const testing::ScopedTrace trace(__FILE__, __LINE__, "fault " + std::to_string(++n));
		int error = 0;

		ASSERT_LT(n, 2000U);
		failed = with_nth_failing(n, [&] { error = post(n); });
		ASSERT_EQ(error, 0);
		ASSERT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		check(n);
	} while (failed && !HasFailure());
	std::cout << "  allocations that failed: " << n - 1 << '\n';
}

void DoorbellFaults::every_fault_of(ibv_wr_opcode opcode)
{
	const bool read = opcode == IBV_WR_RDMA_READ;
	const vt::Region &from = read ? remote : local;
	const vt::Region &to = read ? local : remote;
	std::uint64_t last = 0;

	every_fault_of(
		[&](std::uint64_t n) {
			from.fill_pattern(static_cast<std::uint32_t>(n));
			to.fill(0);
			const int error = opcode == IBV_WR_SEND ? pair.b().receive({remote.sge()}, n) : 0;
			return error ? error
				     : pair.a().post(opcode, {local.sge()},
					       {.id = n, .remote = remote.address(), .rkey = remote.rkey()});
		},
		[&](std::uint64_t n) {
			if (opcode == IBV_WR_SEND) {
				ASSERT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
			}
			pair.sync();
			ASSERT_TRUE(vt::same(local.bytes(), remote.bytes()));
			last = n;
		});
	EXPECT_GT(last, 1U);
}

TEST_F(DoorbellFaults, Send)
{
	every_fault_of(IBV_WR_SEND);
}
TEST_F(DoorbellFaults, Write)
{
	every_fault_of(IBV_WR_RDMA_WRITE);
}
TEST_F(DoorbellFaults, Read)
{
	every_fault_of(IBV_WR_RDMA_READ);
}

TEST_F(DoorbellFaults, Atomic)
{
	const vt::Region target(pair.b().pd(), page, vt::all_access | IBV_ACCESS_REMOTE_ATOMIC);
	auto *const word = reinterpret_cast<std::uint64_t *>(target.data());
	const auto *const before = reinterpret_cast<const std::uint64_t *>(local.data());

	every_fault_of(
		[&](std::uint64_t n) {
			*word = 10 * n;
			return pair.a().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.sge(0, sizeof(*word))},
				{.id = n, .remote = target.address(), .rkey = target.rkey(), .compare_add = 1});
		},
		[&](std::uint64_t n) {
			EXPECT_EQ(*before, 10 * n);
			EXPECT_EQ(*word, 10 * n + 1);
		});
}

TEST_F(DoorbellFaults, Window)
{
	const vt::Region region(pair.b().pd(), page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ibv_mw *const mw = ibv_alloc_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const auto post = [&](ibv_send_wr &wr) {
		ibv_send_wr *bad = nullptr;
		int error = 0;

		wr.send_flags = IBV_SEND_SIGNALED;
		error = ibv_post_send(pair.b().qp(), &wr, &bad);
		EXPECT_EQ(pair.b().sent().status, IBV_WC_SUCCESS);
		return error;
	};

	ASSERT_TRUE(mw);
	// The responder may not speak first.
	pair.sync();
	every_fault_of(
		[&](std::uint64_t n) {
			ibv_send_wr bind{}, invalidate{};

			local.fill_pattern(static_cast<std::uint32_t>(n));
			invalidate.opcode = IBV_WR_LOCAL_INV;
			invalidate.invalidate_rkey = mw->rkey;
			int error = n > 1 ? post(invalidate) : 0;
			mw->rkey = ibv_inc_rkey(mw->rkey);
			bind.opcode = IBV_WR_BIND_MW;
			bind.bind_mw = {
				mw, mw->rkey, {region.mr(), region.address(), region.size(), IBV_ACCESS_REMOTE_WRITE}};
			if (!error)
				error = post(bind);
			return error ? error
				     : pair.a().write({local.sge(0, page)},
					       {.id = n, .remote = region.address(), .rkey = mw->rkey});
		},
		[&](std::uint64_t) {
			pair.sync();
			EXPECT_TRUE(vt::same(local.bytes(0, page), region.bytes()));
		});
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

} // namespace faults
