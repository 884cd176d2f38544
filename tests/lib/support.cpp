// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "support.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace vt {

namespace {

using Clock = std::chrono::steady_clock;

std::chrono::seconds patience()
{
	const char *text = std::getenv("KIWARP_TEST_PATIENCE");

	return std::chrono::seconds(text ? std::strtol(text, nullptr, 10) : 30);
}

Where parse_where(const char *variable, const char *otherwise)
{
	const char *value = std::getenv(variable);
	const std::string text = value ? value : otherwise;
	const std::size_t at = text.find('@');
	const std::string whole = text.substr(0, at);
	const std::size_t scope = whole.find('%');
	const std::string address = whole.substr(0, scope);
	Where where{};

	auto *v4 = reinterpret_cast<sockaddr_in *>(&where.address);
	auto *v6 = reinterpret_cast<sockaddr_in6 *>(&where.address);
	if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	else
		fail(std::string(variable) + " has no address: " + text);
	if (scope != std::string::npos)
		v6->sin6_scope_id = static_cast<std::uint32_t>(std::stoul(whole.substr(scope + 1)));
	if (at != std::string::npos)
		where.netns = text.substr(at + 1);
	return where;
}

} // namespace

void fail(const std::string &what, int error)
{
	throw std::runtime_error(error ? what + ": " + std::strerror(error) : what);
}

sockaddr *Where::sa(std::uint16_t port)
{
	// The same place in both families.
	reinterpret_cast<sockaddr_in *>(&address)->sin_port = htons(port);
	return reinterpret_cast<sockaddr *>(&address);
}

Where client_end()
{
	return parse_where("KIWARP_TEST_CLIENT", "10.77.0.1@left");
}
Where server_end()
{
	return parse_where("KIWARP_TEST_SERVER", "10.77.0.2@right");
}

void Where::seen_from(const Where &other)
{
	const auto *from = reinterpret_cast<const sockaddr_in6 *>(&other.address);

	if (from->sin6_family == AF_INET6)
		reinterpret_cast<sockaddr_in6 *>(&address)->sin6_scope_id = from->sin6_scope_id;
}

static std::optional<std::string> exchange_option(const std::string &name, const std::string &value)
{
	std::array<char, 64> before{};

	if (OF_LIBRARY(kiwarp_user_get_option)(name.c_str(), before.data(), before.size()) ||
		OF_LIBRARY(kiwarp_user_set_option)(name.c_str(), value.c_str()))
		return std::nullopt;
	return before.data();
}

/// Gives a parameter of the module a value, and tells which it had; nothing if that isn't possible.
static std::optional<std::string> exchange_parameter(const std::string &name, const std::string &value)
{
	if (OF_LIBRARY(kiwarp_user_set_option))
		return exchange_option(name, value);
	std::fstream file("/sys/module/kiwarp/parameters/" + name);
	std::string before;

	file >> before;
	file.seekp(0);
	file << value << std::flush;
	return file ? std::optional(before) : std::nullopt;
}

Parameters::Parameters(const std::string &name, const std::string &value)
	: Parameters(std::map<std::string, std::string>{{name, value}})
{
}

Parameters::Parameters(const std::map<std::string, std::string> &values)
{
	for (const auto &[name, value] : values) {
		const auto before = exchange_parameter(name, value);
		if (!before)
			fail("parameter " + name);
		before_[name] = *before;
	}
}

Parameters::~Parameters()
{
	for (const auto &[name, value] : before_)
		EXPECT_TRUE(exchange_parameter(name, value)) << name;
}

std::size_t pinned()
{
	std::ifstream status("/proc/self/status");
	std::string word;

	while (status >> word) {
		if (word != "VmPin:")
			continue;
		std::size_t kilobytes = 0;
		status >> kilobytes;
		return kilobytes * 1024;
	}
	fail("the kernel doesn't tell what is pinned");
}

InNamespace::InNamespace(const std::string &name)
{
	if (name.empty())
		return;
	home_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	const int there = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
	if (home_ < 0 || there < 0 || setns(there, CLONE_NEWNET))
		fail("network namespace " + name, errno);
	close(there);
}

InNamespace::~InNamespace()
{
	if (home_ < 0)
		return;
	if (setns(home_, CLONE_NEWNET))
		std::abort();
	close(home_);
}

void wait_until(const std::function<bool()> &condition, const std::string &what)
{
	const auto end = Clock::now() + patience();

	while (!condition()) {
		if (Clock::now() > end)
			fail("no end of waiting for " + what);
		sched_yield();
	}
}

void wait_readable(int fd, const std::string &what)
{
	const auto end = Clock::now() + patience();

	for (;;) {
		const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
		pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
		const int ready = left > 0 ? poll(&poll_fd, 1, static_cast<int>(left)) : 0;

		if (ready > 0)
			return;
		if (ready == 0)
			fail("no end of waiting for " + what);
		if (errno != EINTR)
			fail("poll", errno);
	}
}

bool readable(int fd)
{
	pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};

	return poll(&poll_fd, 1, 0) > 0;
}

// --- objects --------------------------------------------------------------------------------------

Context open_device(const std::string &wanted)
{
	// The device without a module has the addresses of both hosts.
	const char *only = std::getenv("KIWARP_TEST_DEVICE");
	const std::string name = only ? only : wanted;
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	ibv_context *context = nullptr;

	for (int i = 0; i < count; i++)
		if (name == ibv_get_device_name(list[i]))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context)
		fail("device " + name, errno);
	return Context(context);
}

Pd make_pd(ibv_context *context)
{
	Pd pd(ibv_alloc_pd(context));

	if (!pd)
		fail("ibv_alloc_pd", errno);
	return pd;
}

Cq make_cq(ibv_context *context, int entries, ibv_comp_channel *channel)
{
	Cq cq(ibv_create_cq(context, entries, nullptr, channel, 0));

	if (!cq)
		fail("ibv_create_cq", errno);
	return cq;
}

Srq make_srq(ibv_pd *pd, std::uint32_t requests, std::uint32_t sges)
{
	ibv_srq_init_attr attr{};

	attr.attr.max_wr = requests;
	attr.attr.max_sge = sges;
	Srq srq(ibv_create_srq(pd, &attr));
	if (!srq)
		fail("ibv_create_srq", errno);
	return srq;
}

Region::Region(ibv_pd *pd, std::size_t octets, int access) : size_(octets), mapped_((octets + 4095) / 4096 * 4096)
{
	void *memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap", errno);
	data_ = static_cast<std::uint8_t *>(memory);
	mr_.reset(ibv_reg_mr(pd, data_, size_, access));
	if (!mr_)
		fail("ibv_reg_mr", errno);
}

Region::~Region()
{
	mr_.reset();
	munmap(data_, mapped_);
}

std::uint64_t Region::address(std::size_t offset) const
{
	return reinterpret_cast<std::uintptr_t>(data_) + offset;
}

ibv_sge Region::sge(std::size_t offset, std::size_t length) const
{
	return {.addr = address(offset), .length = static_cast<std::uint32_t>(length), .lkey = mr_->lkey};
}

void Region::fill(std::uint8_t value) const
{
	std::memset(data_, value, size_);
}

void Region::fill_pattern(std::uint32_t seed) const
{
	std::uint32_t state = seed * 2654435761U + 1;

	for (std::size_t i = 0; i < size_; i++) {
		state = state * 1664525U + 1013904223U;
		data_[i] = static_cast<std::uint8_t>(state >> 24);
	}
}

bool all_equal(std::span<const std::uint8_t> octets, std::uint8_t value)
{
	return std::all_of(octets.begin(), octets.end(), [=](std::uint8_t octet) { return octet == value; });
}

bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b)
{
	return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// --- completions ----------------------------------------------------------------------------------

ibv_wc poll_one(ibv_cq *cq, const std::string &what)
{
	ibv_wc wc{};

	wait_until(
		[&] {
			const int found = ibv_poll_cq(cq, 1, &wc);
			if (found < 0)
				fail("ibv_poll_cq", -found);
			return found == 1;
		},
		what);
	return wc;
}

std::vector<ibv_wc> poll_all(ibv_cq *cq)
{
	std::vector<ibv_wc> all;
	ibv_wc wc{};

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		all.push_back(wc);
	return all;
}

ibv_async_event wait_async(ibv_context *context, const std::function<bool(const ibv_async_event &)> &wanted)
{
	for (;;) {
		ibv_async_event event{};

		wait_readable(context->async_fd, "an asynchronous event");
		if (ibv_get_async_event(context, &event))
			fail("ibv_get_async_event", errno);
		ibv_ack_async_event(&event);
		if (wanted(event))
			return event;
	}
}

} // namespace vt
