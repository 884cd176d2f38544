// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A child of fork() and the objects that it inherits, against the fake kernel.
#include <cerrno>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "ah.hpp"
#include "domain.hpp"
#include "mr.hpp"
#include "mw.hpp"
#include "provider_fixture.hpp"
#include "srq.hpp"

namespace {

/// Whether a verb that makes an object failed with EPERM
bool not_made(const void *object)
{
	return !object && errno == EPERM;
}

class Inherited : public Provider {
protected:
	Inherited()
	{
		kernel.features() = KIW_FEATURES;
		srq = new_srq();
		ibv_td_init_attr domain{};
		td = kiw::alloc_td(kernel.context(), &domain);
	}
	~Inherited() override
	{
		kiw::destroy_srq(srq);
		kiw::dealloc_td(td);
	}

	ibv_srq *new_srq()
	{
		ibv_srq_init_attr init_attr{};

		init_attr.attr.max_wr = init_attr.attr.max_sge = 1;
		return kiw::create_srq(kernel.pd(), &init_attr);
	}

	/// Each call that a child can make on what it inherits, and whether it was refused
	std::vector<std::pair<std::string, std::function<bool()>>> calls()
	{
		return {
			{"poll_cq",
				[this] {
					return kiw::poll_cq(cq, 1, &wc) == -EPERM;
				}},
			{"req_notify_cq",
				[this] {
					return kiw::req_notify_cq(cq, 0) == EPERM;
				}},
			{"post_send",
				[this] {
					return post_send() == EPERM;
				}},
			{"post_send, first",
				[this] {
					kiw::Qp::from(qp).connected = false;
					return post_send() == EPERM;
				}},
			{"post_recv",
				[this] {
					return post_recv() == EPERM;
				}},
			{"modify_qp",
				[this] {
					return kiw::modify_qp(qp, &attr, IBV_QP_STATE) == EPERM;
				}},
			{"query_qp",
				[this] {
					return kiw::query_qp(qp, &attr, IBV_QP_STATE, &init) == EPERM;
				}},
			{"destroy_qp",
				[this] {
					return kiw::destroy_qp(qp) == EPERM;
				}},
			{"resize_cq",
				[this] {
					return kiw::resize_cq(cq, 128) == EPERM;
				}},
			{"modify_cq",
				[this] {
					ibv_modify_cq_attr moderation{.attr_mask = IBV_CQ_ATTR_MODERATE};
					return kiw::modify_cq(cq, &moderation) == EPERM;
				}},
			{"destroy_cq",
				[this] {
					return kiw::destroy_cq(cq) == EPERM;
				}},
			{"post_srq_recv",
				[this] {
					return post_srq_recv() == EPERM;
				}},
			{"modify_srq",
				[this] {
					return kiw::modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT) == EPERM;
				}},
			{"query_srq",
				[this] {
					return kiw::query_srq(srq, &srq_attr) == EPERM;
				}},
			{"destroy_srq",
				[this] {
					return kiw::destroy_srq(srq) == EPERM;
				}},
			{"create_srq",
				[this] {
					return not_made(new_srq());
				}},
			{"attach_mcast",
				[this] {
					return kiw::attach_mcast(qp, &gid, 0) == EPERM;
				}},
			{"detach_mcast",
				[this] {
					return kiw::detach_mcast(qp, &gid, 0) == EPERM;
				}},
			{"create_ah",
				[this] {
					return not_made(kiw::create_ah(kernel.pd(), &ah_attr));
				}},
			{"destroy_ah",
				[this] {
					ah.context = kernel.context();
					return kiw::destroy_ah(&ah) == EPERM;
				}},
			{"rereg_mr",
				[this] {
					return kiw::rereg_mr(&mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) ==
					       EPERM;
				}},
			{"import_mr",
				[this] {
					return not_made(kiw::import_mr(kernel.pd(), 1));
				}},
			{"import_pd",
				[this] {
					return not_made(kiw::import_pd(kernel.context(), 1));
				}},
			{"dereg_mr",
				[this] {
					return kiw::dereg_mr(&mr) == EPERM;
				}},
			{"alloc_mw",
				[this] {
					return not_made(kiw::alloc_mw(kernel.pd(), IBV_MW_TYPE_1));
				}},
			{"bind_mw",
				[this] {
					return kiw::bind_mw(qp, &mw, &bind) == EPERM;
				}},
			{"dealloc_mw",
				[this] {
					return kiw::dealloc_mw(&mw) == EPERM;
				}},
			{"dealloc_pd",
				[this] {
					return kiw::dealloc_pd(kernel.pd()) == EPERM;
				}},
			{"create_cq",
				[this] {
					return not_made(kiw::create_cq(kernel.context(), 8, nullptr, 0));
				}},
			{"create_cq_ex",
				[this] {
					return not_made(kiw::create_cq_ex(kernel.context(), &cq_ex_attr));
				}},
			{"create_qp_ex",
				[this] {
					qp_ex_attr.comp_mask = IBV_QP_INIT_ATTR_PD;
					qp_ex_attr.pd = kernel.pd();
					return not_made(kiw::create_qp_ex(kernel.context(), &qp_ex_attr));
				}},
			{"create_qp",
				[this] {
					return not_made(new_qp());
				}},
			{"alloc_pd",
				[this] {
					return not_made(kiw::alloc_pd(kernel.context()));
				}},
			{"alloc_parent_domain",
				[this] {
					ibv_parent_domain_init_attr domain{};

					domain.pd = kernel.pd();
					return not_made(kiw::alloc_parent_domain(kernel.context(), &domain));
				}},
			{"alloc_td",
				[this] {
					ibv_td_init_attr domain{};

					return not_made(kiw::alloc_td(kernel.context(), &domain));
				}},
			{"dealloc_td",
				[this] {
					return kiw::dealloc_td(td) == EPERM;
				}},
			{"reg_mr",
				[this] {
					return not_made(kiw::reg_mr(kernel.pd(), this, 8, 0, 0));
				}},
		};
	}

	/// Runs in a child: how many calls weren't refused, or reached the kernel.
	int faults()
	{
		const int commands = kernel.commands, doorbells = kernel.doorbells;
		int faults = 0;

		for (const auto &[name, refused] : calls())
			if (!refused() || kernel.commands != commands || kernel.doorbells != doorbells)
				faults++, (void)!write(2, (name + " in a child\n").data(), name.size() + 12);
		return faults;
	}

	int post_send()
	{
		ibv_send_wr wr = send_wr(), *bad = nullptr;
		const int error = kiw::post_send(qp, &wr, &bad);

		return bad == &wr ? error : 0;
	}

	int post_recv()
	{
		ibv_recv_wr wr{}, *bad = nullptr;
		const int error = kiw::post_recv(qp, &wr, &bad);

		return bad == &wr ? error : 0;
	}

	int post_srq_recv()
	{
		ibv_recv_wr wr{}, *bad = nullptr;
		const int error = kiw::post_srq_recv(srq, &wr, &bad);

		return bad == &wr ? error : 0;
	}

	static int status_of(pid_t child)
	{
		int status = -1;

		waitpid(child, &status, 0);
		return status;
	}

	kiw::pabi::MemoryRegion mr{.mr = {.context = kernel.context()}, .type = 0, .access = 0};
	ibv_mw mw{.context = kernel.context(), .pd = nullptr, .rkey = 0, .handle = 0, .type = IBV_MW_TYPE_1};
	ibv_mw_bind bind{};
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	ibv_qp_init_attr_ex qp_ex_attr{};
	ibv_cq_init_attr_ex cq_ex_attr{};
	ibv_wc wc{};
	ibv_gid gid{};
	ibv_ah_attr ah_attr{};
	ibv_ah ah{};
	ibv_srq *srq;
	ibv_td *td;
	ibv_srq_attr srq_attr{};
};

TEST_F(Inherited, ObjectsAreRefusedWhateverIsAsked)
{
	const pid_t child = fork();
	if (child == 0)
		_exit(faults());
	EXPECT_EQ(status_of(child), 0);
}

TEST_F(Inherited, ObjectsAreRefusedToGrandchildrenToo)
{
	const pid_t child = fork();
	if (child == 0) {
		const pid_t grandchild = fork();

		_exit(grandchild == 0 ? faults() : status_of(grandchild) != 0);
	}
	EXPECT_EQ(status_of(child), 0);
}

TEST_F(Inherited, ObjectsStayTheParents)
{
	EXPECT_EQ(post(send_wr(1)), 0);
	for (const auto &spawn : std::vector<std::function<int()>>{[] {
									   const pid_t child = fork();
									   if (child == 0)
										   _exit(0);
									   return status_of(child);
								   },
		     [] { return system("true"); }, // NOLINT(cert-env33-c)
		     [] {
			     const pid_t child = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)
			     if (child == 0)
				     _exit(0);
			     return status_of(child);
		     }}) {
		EXPECT_EQ(spawn(), 0);
		EXPECT_EQ(post(send_wr(2)), 0);
		EXPECT_EQ(post_receive(3), 0);
		EXPECT_EQ(poll(&wc), 0);
		EXPECT_EQ(kiw::req_notify_cq(cq, 0), 0);
		EXPECT_EQ(kiw::modify_qp(qp, &attr, 0), 0);
	}
	EXPECT_EQ(sq().produced(), 4);
}

TEST_F(Inherited, ContextDoesNotHinderOneOfTheChildsOwn)
{
	const pid_t child = fork();
	if (child == 0) {
		FakeKernel own;
		ibv_cq *const own_cq = kiw::create_cq(own.context(), 8, nullptr, 0);
		const bool good = own_cq && kiw::poll_cq(own_cq, 1, &wc) == 0 && kiw::destroy_cq(own_cq) == 0;

		_exit(good && kiw::poll_cq(cq, 1, &wc) == -EPERM ? 0 : 1);
	}
	EXPECT_EQ(status_of(child), 0);
}

} // namespace
