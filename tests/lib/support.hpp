// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the tests of the verbs share: the device, objects, memory, waiting.
//
// Both ends of a connection live in this process: KIWARP_TEST_CLIENT and KIWARP_TEST_SERVER say
// ADDRESS[@NETNS] for each; by default they are the two hosts of the guests. Set-up that fails throws,
// which fails the test. Every wait ends after KIWARP_TEST_PATIENCE seconds (default 30).
#pragma once

#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <map>
#include <memory>
#include <rdma/rdma_cma.h>
#include <span>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "../../user/kiwarp-user.h"

namespace vt {

// --- the environment ------------------------------------------------------------------------------

/// An end: its address (port 0) and the network namespace that it lives in, empty for this one. As text: ADDRESS,
/// ADDRESS%INTERFACE by number where it is link-local, and @NAMESPACE.
struct Where {
	sockaddr_storage address;
	std::string netns;

	sockaddr *sa(std::uint16_t port);
	/// The number of the interface that a link-local address belongs to is the other end's own.
	void seen_from(const Where &other);
};

Where client_end();
Where server_end();

/// Puts the calling thread into a network namespace for a scope.
class InNamespace {
public:
	explicit InNamespace(const std::string &name);
	~InNamespace();
	InNamespace(const InNamespace &) = delete;
	InNamespace &operator=(const InNamespace &) = delete;

private:
	int home_ = -1;
};

/// Repeats until the condition holds; throws, naming what, when patience is at its end.
void wait_until(const std::function<bool()> &condition, const std::string &what);

/// Waits until a descriptor is readable; throws as wait_until().
void wait_readable(int fd, const std::string &what);
bool readable(int fd);

[[noreturn]] void fail(const std::string &what, int error = 0);

/// A function of the library that stands in for the module where kiwarp-user runs the tests; nullptr: it doesn't.
template <typename Function>
Function *of_library(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}
#define OF_LIBRARY(function) vt::of_library<decltype(function)>(#function)

/// Parameters of the module, or options of the library, by name, that have other values for a scope.
class Parameters {
public:
	explicit Parameters(const std::string &name, const std::string &value);
	explicit Parameters(const std::map<std::string, std::string> &values);
	~Parameters();
	Parameters(const Parameters &) = delete;
	Parameters &operator=(const Parameters &) = delete;

private:
	std::map<std::string, std::string> before_;
};

/// Octets of this process that are pinned for devices, as the kernel counts them (VmPin).
std::size_t pinned();

// --- objects --------------------------------------------------------------------------------------

template <typename T, int (*close)(T *)>
struct Closer {
	void operator()(T *object) const { EXPECT_EQ(close(object), 0); }
};

using Context = std::unique_ptr<ibv_context, Closer<ibv_context, ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Closer<ibv_pd, ibv_dealloc_pd>>;
using Cq = std::unique_ptr<ibv_cq, Closer<ibv_cq, ibv_destroy_cq>>;
using Srq = std::unique_ptr<ibv_srq, Closer<ibv_srq, ibv_destroy_srq>>;
using Mr = std::unique_ptr<ibv_mr, Closer<ibv_mr, ibv_dereg_mr>>;
using Qp = std::unique_ptr<ibv_qp, Closer<ibv_qp, ibv_destroy_qp>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Closer<ibv_comp_channel, ibv_destroy_comp_channel>>;

/// The device of that name; throws if there is none.
Context open_device(const std::string &name);
Pd make_pd(ibv_context *context);
Srq make_srq(ibv_pd *pd, std::uint32_t requests, std::uint32_t sges = 1);
Cq make_cq(ibv_context *context, int entries, ibv_comp_channel *channel = nullptr);

/// The device behind the server's end, open for the life of the process.
ibv_context *server_device();

constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

/// Pages of memory and their registration.
class Region {
public:
	explicit Region(ibv_pd *pd, std::size_t octets, int access = all_access);
	~Region();
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;

	std::uint8_t *data() const { return data_; }
	std::size_t size() const { return size_; }
	ibv_mr *mr() const { return mr_.get(); }
	std::uint32_t rkey() const { return mr_->rkey; }
	std::uint64_t address(std::size_t offset = 0) const;
	ibv_sge sge(std::size_t offset, std::size_t length) const;
	ibv_sge sge() const { return sge(0, size_); }
	std::span<std::uint8_t> bytes(std::size_t offset, std::size_t length) const { return {data_ + offset, length}; }
	std::span<std::uint8_t> bytes() const { return {data_, size_}; }

	void fill(std::uint8_t value) const;
	/// Octets that differ by seed and by place.
	void fill_pattern(std::uint32_t seed) const;
	/// Takes the registration back, and leaves the memory.
	void deregister() { mr_.reset(); }

private:
	std::uint8_t *data_;
	std::size_t size_;
	std::size_t mapped_;
	Mr mr_;
};

bool all_equal(std::span<const std::uint8_t> octets, std::uint8_t value);
bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

// --- completions ----------------------------------------------------------------------------------

/// The next completion; throws if none comes.
ibv_wc poll_one(ibv_cq *cq, const std::string &what = "a completion");
/// What the CQ holds now.
std::vector<ibv_wc> poll_all(ibv_cq *cq);

/// An asynchronous event of the device that the predicate accepts; it is acknowledged, as are all others
/// that came before it.
ibv_async_event wait_async(ibv_context *context, const std::function<bool(const ibv_async_event &)> &wanted);

#define EXPECT_WC(wc, expected_id, expected_status) \
	do { \
		const ibv_wc &wc_ = (wc); \
		EXPECT_EQ(wc_.wr_id, static_cast<std::uint64_t>(expected_id)); \
		EXPECT_EQ(wc_.status, expected_status) << ibv_wc_status_str(wc_.status); \
	} while (0)

} // namespace vt
