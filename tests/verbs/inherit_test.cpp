// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A child of fork() and the objects that it inherits, against the fake kernel.
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
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
		pd = kiw::alloc_pd(kernel.context());
		ibv_parent_domain_init_attr parent_of{};
		parent_of.pd = pd;
		parent_of.td = td;
		parent = kiw::alloc_parent_domain(kernel.context(), &parent_of);
		mr = reinterpret_cast<kiw::pabi::MemoryRegion *>(kiw::reg_mr(pd, this, 8, 0, 0));
		mw = kiw::alloc_mw(pd, IBV_MW_TYPE_1);
		ah = kiw::create_ah(pd, &ah_attr);
		channel = ibv_create_comp_channel(kernel.context());
	}
	~Inherited() override
	{
		ibv_destroy_comp_channel(channel);
		kiw::destroy_ah(ah);
		kiw::dealloc_mw(mw);
		kiw::dereg_mr(mr);
		kiw::dealloc_pd(parent);
		kiw::dealloc_pd(pd);
		kiw::destroy_srq(srq);
		kiw::dealloc_td(td);
	}

	ibv_srq *new_srq()
	{
		ibv_srq_init_attr init_attr{};

		init_attr.attr.max_wr = init_attr.attr.max_sge = 1;
		return kiw::create_srq(kernel.pd(), &init_attr);
	}

	/// Each call that would change or use what is the parent's, and whether it was refused
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
			{"attach_mcast",
				[this] {
					return kiw::attach_mcast(qp, &gid, 0) == EPERM;
				}},
			{"detach_mcast",
				[this] {
					return kiw::detach_mcast(qp, &gid, 0) == EPERM;
				}},
			{"destroy_ah",
				[this] {
					return kiw::destroy_ah(ah) == EPERM;
				}},
			{"rereg_mr",
				[this] {
					return kiw::rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) ==
					       EPERM;
				}},
			{"dereg_mr",
				[this] {
					return kiw::dereg_mr(mr) == EPERM;
				}},
			{"bind_mw",
				[this] {
					return kiw::bind_mw(qp, mw, &bind) == EPERM;
				}},
			{"dealloc_mw",
				[this] {
					return kiw::dealloc_mw(mw) == EPERM;
				}},
			{"dealloc_td",
				[this] {
					return kiw::dealloc_td(td) == EPERM;
				}},
			{"create_qp, with the parent's CQ and SRQ",
				[this] {
					return not_made(new_qp());
				}},
			{"create_qp_ex, likewise",
				[this] {
					ibv_qp_init_attr_ex ex{};

					ex.qp_type = IBV_QPT_RC;
					ex.send_cq = ex.recv_cq = cq;
					ex.comp_mask = IBV_QP_INIT_ATTR_PD;
					ex.pd = kernel.pd();
					return not_made(kiw::create_qp_ex(kernel.context(), &ex));
				}},
		};
	}

	/// The same until the context and the domains are the child's own
	std::vector<std::pair<std::string, std::function<bool()>>> early_calls()
	{
		return {
			{"dealloc_pd",
				[this] {
					return kiw::dealloc_pd(kernel.pd()) == EPERM;
				}},
			{"dealloc_pd, of a parent domain",
				[this] {
					return kiw::dealloc_pd(parent) == EPERM;
				}},
			{"import_mr",
				[this] {
					return not_made(kiw::import_mr(kernel.pd(), 1));
				}},
			{"import_pd",
				[this] {
					return not_made(kiw::import_pd(kernel.context(), 1));
				}},
		};
	}

	/// Runs in a child: how many calls weren't refused, or reached the kernel.
	int faults_of(const std::vector<std::pair<std::string, std::function<bool()>>> &all)
	{
		const int commands = kernel.commands, doorbells = kernel.doorbells, opened = kernel.opened;
		int faults = 0;

		for (const auto &[name, refused] : all)
			if (!refused() || kernel.commands != commands || kernel.doorbells != doorbells ||
				kernel.opened != opened)
				faults++, dprintf(STDERR_FILENO, "%s in a child\n", name.c_str());
		return faults;
	}
	int faults() { return faults_of(calls()) + faults_of(early_calls()); }

	/// Makes one of each, of what a program may make on an inherited context and on inherited domains, uses them,
	/// and destroys them. Returns which of it failed, or nullptr.
	const char *make_all(ibv_pd *in, ibv_comp_channel *by = nullptr)
	{
		ibv_cq *const own_cq = kiw::create_cq(kernel.context(), 8, by, 0);
		if (!own_cq || kiw::poll_cq(own_cq, 1, &wc) != 0)
			return "create_cq";
		ibv_srq_init_attr srq_init{};
		srq_init.attr.max_wr = srq_init.attr.max_sge = 1;
		ibv_srq *const own_srq = kiw::create_srq(in, &srq_init);
		if (!own_srq)
			return "create_srq";
		ibv_qp_init_attr qp_init{};
		qp_init.qp_type = IBV_QPT_RC;
		qp_init.send_cq = qp_init.recv_cq = own_cq;
		qp_init.srq = own_srq;
		qp_init.cap = {depth, 0, 4, 0, 100};
		ibv_qp *const own_qp = kiw::create_qp(in, &qp_init);
		if (!own_qp)
			return "create_qp";
		qp_init.srq = srq;
		if (!not_made(kiw::create_qp(in, &qp_init)))
			return "create_qp with the parent's SRQ";
		qp_init.srq = own_srq;
		qp_init.recv_cq = cq;
		if (!not_made(kiw::create_qp(in, &qp_init)))
			return "create_qp with the parent's CQ";
		kiw::Qp::from(own_qp).connected = true;
		ibv_send_wr wr = send_wr(), *bad = nullptr;
		if (kiw::post_send(own_qp, &wr, &bad) || kernel.qp(own_qp).sq.produced() != 1)
			return "post_send";
		ibv_mr *const own_mr = kiw::reg_mr(in, this, 8, 0, 0);
		ibv_mw *const own_mw = kiw::alloc_mw(in, IBV_MW_TYPE_1);
		ibv_ah *const own_ah = kiw::create_ah(in, &ah_attr);
		ibv_td_init_attr td_init{};
		ibv_td *const own_td = kiw::alloc_td(kernel.context(), &td_init);
		ibv_pd *const own_pd = kiw::alloc_pd(kernel.context());
		ibv_parent_domain_init_attr parent_init{};
		parent_init.pd = pd;
		ibv_pd *const own_parent = kiw::alloc_parent_domain(kernel.context(), &parent_init);
		if (!own_mr || !own_mw || !own_ah || !own_td || !own_pd || !own_parent)
			return "one of the others";
		if (kiw::destroy_qp(own_qp) || kiw::destroy_srq(own_srq) || kiw::destroy_cq(own_cq) ||
			kiw::dereg_mr(reinterpret_cast<kiw::pabi::MemoryRegion *>(own_mr)) || kiw::dealloc_mw(own_mw) ||
			kiw::destroy_ah(own_ah) || kiw::dealloc_td(own_td) || kiw::dealloc_pd(own_parent) ||
			kiw::dealloc_pd(own_pd))
			return "a destruction";
		return nullptr;
	}

	/// For a child: 0 when all went well
	static int verdict(const char *failed)
	{
		if (failed)
			dprintf(STDERR_FILENO, "in a child: %s (%s)\n", failed, strerrorname_np(errno));
		return failed ? 1 : 0;
	}

	static int in_child(const std::function<int()> &work)
	{
		const pid_t child = fork();

		if (child == 0)
			_exit(work());
		return status_of(child);
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

	ibv_mw_bind bind{};
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};
	ibv_wc wc{};
	ibv_gid gid{};
	ibv_ah_attr ah_attr{};
	ibv_srq *srq;
	ibv_td *td;
	ibv_pd *pd;
	ibv_pd *parent;
	kiw::pabi::MemoryRegion *mr;
	ibv_mw *mw;
	ibv_ah *ah;
	ibv_comp_channel *channel;
	ibv_srq_attr srq_attr{};
};

TEST_F(Inherited, ObjectsAreRefusedWhateverIsAsked)
{
	EXPECT_EQ(in_child([this] { return faults(); }), 0);
}

TEST_F(Inherited, ObjectsAreRefusedToGrandchildrenToo)
{
	EXPECT_EQ(in_child([this] { return in_child([this] { return faults(); }) != 0; }), 0);
}

TEST_F(Inherited, ChildMakesItsOwn)
{
	const std::uint32_t handle = pd->handle;

	for (ibv_pd *in : {pd, parent, kernel.pd()})
		EXPECT_EQ(in_child([this, in]() -> int {
			const int old_file = kernel.fd();

			if (verdict(make_all(in)) || verdict(make_all(in)))
				return 1;
			// In one file, at the descriptor of the old one; what is the parent's still is.
			return kernel.opened != 1 || kernel.fd() != old_file || faults_of(calls());
		}),
			0);
	EXPECT_EQ(pd->handle, handle);
	EXPECT_EQ(kernel.opened, 0);
	EXPECT_EQ(kiw::destroy_qp(new_qp()), 0);
}

TEST_F(Inherited, GrandchildMakesItsOwn)
{
	EXPECT_EQ(in_child([this]() -> int {
		// Once with a child that made its own, and once with one that didn't
		return in_child([this]() -> int { return verdict(make_all(pd)); }) || verdict(make_all(pd)) ||
		       in_child([this]() -> int { return verdict(make_all(parent)); });
	}),
		0);
}

TEST_F(Inherited, WhatAChildMadeIsRefusedToItsChildren)
{
	EXPECT_EQ(in_child([this]() -> int {
		cq = kiw::create_cq(kernel.context(), 8, nullptr, 0);
		ibv_mr *const own = kiw::reg_mr(pd, this, 8, 0, 0);

		return !cq || !own || in_child([this, own]() -> int {
			return kiw::poll_cq(cq, 1, &wc) != -EPERM || kiw::destroy_cq(cq) != EPERM ||
			       kiw::dereg_mr(reinterpret_cast<kiw::pabi::MemoryRegion *>(own)) != EPERM ||
			       kiw::dealloc_pd(pd) != EPERM;
		}) || kiw::destroy_cq(cq);
	}),
		0);
}

TEST_F(Inherited, DomainIsReplacedForTheChildAlone)
{
	const std::uint32_t handle = pd->handle;

	EXPECT_EQ(in_child([this]() -> int {
		ibv_mr *const own = kiw::reg_mr(parent, this, 8, 0, 0);

		// It is deallocated as one of the child's.
		return !own || parent->handle != pd->handle ||
		       kiw::dereg_mr(reinterpret_cast<kiw::pabi::MemoryRegion *>(own)) ||
		       kiw::dealloc_pd(pd) != EBUSY || kiw::dealloc_pd(parent) || kiw::dealloc_pd(pd);
	}),
		0);
	EXPECT_EQ(pd->handle, handle);
	EXPECT_EQ(parent->handle, handle);
}

TEST_F(Inherited, ImportedDomainIsNot)
{
	ibv_pd *const imported = kiw::import_pd(kernel.context(), 5);

	EXPECT_EQ(in_child([&]() -> int {
		return !not_made(kiw::reg_mr(imported, this, 8, 0, 0)) || imported->handle != 5;
	}),
		0);
	kiw::unimport_pd(imported);
}

TEST_F(Inherited, ChannelBecomesTheChilds)
{
	ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	for (const bool inherited : {true, false})
		EXPECT_EQ(in_child([&]() -> int {
			// What libibverbs makes before the provider knows is one of the parent's file, too.
			ibv_comp_channel *const used = inherited ? channel : ibv_create_comp_channel(kernel.context());
			const int fd = used->fd, flags = fcntl(fd, F_GETFL);

			return verdict(make_all(pd, used)) || used->fd != fd || kernel.file_of(fd) != 1 ||
			       fcntl(fd, F_GETFL) != flags || !(fcntl(fd, F_GETFD) & FD_CLOEXEC) ||
			       verdict(make_all(pd, used)) || kernel.opened != 1;
		}),
			0);
	EXPECT_EQ(kernel.file_of(channel->fd), 0);
	// Here, one that isn't a channel is none.
	EXPECT_EQ(fcntl(channel->fd, F_SETFL, 0), 0);
	ibv_comp_channel wrong = *channel;
	wrong.fd = kernel.context()->async_fd;
	EXPECT_EQ(kiw::create_cq(kernel.context(), 8, &wrong, 0), nullptr);
	EXPECT_EQ(errno, EBADF);
}

TEST_F(Inherited, DeviceThatCannotBeOpenedSaysWhy)
{
	kernel.refuse_open = EACCES;
	EXPECT_EQ(in_child([this]() -> int {
		const int commands = kernel.commands;

		for (int i = 0; i < 2; i++) {
			errno = 0;
			if (kiw::create_cq(kernel.context(), 8, nullptr, 0) || errno != EACCES)
				return 1;
			errno = 0;
			if (kiw::reg_mr(pd, this, 8, 0, 0) || errno != EACCES)
				return 1;
		}
		if (kernel.commands != commands || faults())
			return 1;
		kernel.refuse_open = 0;
		return verdict(make_all(pd));
	}),
		0);
}

TEST_F(Inherited, DescriptorsOfOthersStay)
{
	EXPECT_EQ(in_child([this]() -> int {
		// As a daemon that closes all that it inherited; and opens a file then.
		const int fd = kernel.fd();
		if (close(fd) || memfd_create("something else", 0) < 0)
			return 1;
		const int null = open("/dev/null", O_RDWR);
		if (dup2(null, fd) != fd)
			return 1;
		errno = 0;
		if (kiw::alloc_pd(kernel.context()) || errno != EBADF)
			return 1;
		return write(fd, "", 1) != 1 || fcntl(fd, F_GETFD) < 0;
	}),
		0);
}

TEST_F(Inherited, ThreadsOfAChildShareOneFile)
{
	EXPECT_EQ(in_child([this]() -> int {
		std::vector<std::thread> threads;
		std::atomic<int> bad = 0;

		// The fake kernel's lists aren't for several threads: only the domain is asked for.
		for (int i = 0; i < 4; i++)
			threads.emplace_back([&] {
				if (kiw::adopt(i % 2 ? pd : parent))
					bad++;
			});
		for (std::thread &thread : threads)
			thread.join();
		return bad != 0 || kernel.opened != 1 || parent->handle != pd->handle || verdict(make_all(parent));
	}),
		0);
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
