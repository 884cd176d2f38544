// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Parent domains and thread domains, which the provider has alone, against the fake kernel.
#include <cerrno>
#include <memory>

#include "domain.hpp"
#include "mr.hpp"
#include "provider_fixture.hpp"

namespace {

class Domains : public Provider {
protected:
	Domains()
	{
		pd = kiw::alloc_pd(kernel.context());
		pd->handle = 77;
	}
	~Domains() override { EXPECT_EQ(kiw::dealloc_pd(pd), 0); }

	ibv_pd *parent(ibv_pd *of, ibv_td *td = nullptr, std::uint32_t mask = 0)
	{
		ibv_parent_domain_init_attr attr{};

		attr.pd = of;
		attr.td = td;
		attr.comp_mask = mask;
		errno = 0;
		return kiw::alloc_parent_domain(kernel.context(), &attr);
	}
	ibv_td *thread_domain(std::uint32_t mask = 0)
	{
		ibv_td_init_attr attr = {mask};

		errno = 0;
		return kiw::alloc_td(kernel.context(), &attr);
	}

	ibv_pd *pd;
};

TEST_F(Domains, ParentIsTheProtectionDomainToTheKernel)
{
	const int commands = kernel.commands;
	ibv_pd *const made = parent(pd, nullptr, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);

	ASSERT_NE(made, nullptr);
	EXPECT_EQ(made->handle, 77);
	EXPECT_EQ(made->context, kernel.context());
	EXPECT_EQ(kiw::dealloc_pd(made), 0);
	EXPECT_EQ(kernel.commands, commands);
}

TEST_F(Domains, UsedOnesAreBusy)
{
	ibv_td *const td = thread_domain();
	ASSERT_NE(td, nullptr);
	ibv_pd *const first = parent(pd, td);
	ibv_pd *const second = parent(pd, td);
	const int commands = kernel.commands;

	EXPECT_EQ(kiw::dealloc_pd(pd), EBUSY);
	EXPECT_EQ(kiw::dealloc_td(td), EBUSY);
	EXPECT_EQ(kiw::dealloc_pd(first), 0);
	EXPECT_EQ(kiw::dealloc_pd(pd), EBUSY);
	EXPECT_EQ(kiw::dealloc_td(td), EBUSY);
	EXPECT_EQ(kiw::dealloc_pd(second), 0);
	EXPECT_EQ(kiw::dealloc_td(td), 0);
	EXPECT_EQ(kernel.commands, commands);
}

TEST_F(Domains, WhatCannotBeIsRefused)
{
	EXPECT_EQ(parent(nullptr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(parent(pd, nullptr, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(parent(pd, nullptr, 1U << 31), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	ibv_pd *const made = parent(pd);
	EXPECT_EQ(parent(made), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(kiw::dealloc_pd(made), 0);
	EXPECT_EQ(thread_domain(1), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Domains, CompletionQueueCanBeOfAParent)
{
	ibv_td *const td = thread_domain();
	ibv_pd *const made = parent(pd, td);
	ibv_cq_init_attr_ex attr{};

	attr.cqe = 16;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	attr.parent_domain = made;
	ibv_cq_ex *const of_it = kiw::create_cq_ex(kernel.context(), &attr);
	ASSERT_NE(of_it, nullptr);
	ibv_poll_cq_attr nothing{};
	EXPECT_EQ(ibv_start_poll(of_it, &nothing), ENOENT);
	EXPECT_EQ(kiw::dealloc_pd(made), EBUSY);
	EXPECT_EQ(kiw::destroy_cq(ibv_cq_ex_to_cq(of_it)), 0);
	EXPECT_EQ(kiw::dealloc_pd(made), 0);
	EXPECT_EQ(kiw::dealloc_td(td), 0);
}

TEST_F(Domains, CompletionQueueCanBeOfNoOther)
{
	auto other = std::make_unique<FakeKernel>();
	ibv_pd *const pd_of_other = kiw::alloc_pd(other->context());
	ibv_parent_domain_init_attr of_other{};
	of_other.pd = pd_of_other;
	ibv_pd *const parent_of_other = kiw::alloc_parent_domain(other->context(), &of_other);
	ibv_cq_init_attr_ex attr{};

	attr.cqe = 16;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	for (ibv_pd *const wrong : {static_cast<ibv_pd *>(nullptr), pd, parent_of_other}) {
		attr.parent_domain = wrong;
		errno = 0;
		EXPECT_EQ(kiw::create_cq_ex(kernel.context(), &attr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_EQ(kiw::dealloc_pd(parent_of_other), 0);
	EXPECT_EQ(kiw::dealloc_pd(pd_of_other), 0);
	other.reset();
	FakeKernel::instance = &kernel;
}

} // namespace
