// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <memory>

#include "../lib/by_number.hpp"
#include "life.hpp"
#include "step.hpp"

namespace faults {

namespace {

constexpr std::size_t length = 4096;
/// Where number::End has what arrives by a Send, and what Writes and Reads reach
constexpr std::size_t received = 4096;
constexpr std::size_t reached = 8192;

void check(int error, const std::string &step)
{
	if (error)
		throw Failed(step, error);
}

class LifeByNumber {
public:
	void run() const;

private:
	static std::unique_ptr<number::End> make(const std::string &device, const char *address);
	static void connect(const number::End &end, const number::End &peer);
	static void post(const number::End &end, const number::End &peer);
	void wait_for(int completions) const;
	void write_and_send() const;
	void read() const;

	const std::unique_ptr<number::End> left_ = make("kiw0", number::ipv4.left);
	const std::unique_ptr<number::End> right_ = make("kiw1", number::ipv4.right);
};

std::unique_ptr<number::End> LifeByNumber::make(const std::string &device, const char *address)
{
	return made(device, [&] { return std::make_unique<number::End>(device, address); });
}

void LifeByNumber::connect(const number::End &end, const number::End &peer)
{
	ibv_qp_attr attr{};

	check(end.rtr(peer.name()), "to RTR");
	check(end.rts(), "to RTS");
	// For a peer that is silent because several of its packets in a row can't be made
	attr.timeout = 21;
	attr.retry_cnt = 7;
	check(end.modify(attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), "time-out");
}

/// Waits for so many completions at each end.
void LifeByNumber::wait_for(int completions) const
{
	int done[2] = {};
	ibv_wc_status status = IBV_WC_SUCCESS;

	vt::wait_until(
		[&] {
			for (const int i : {0, 1})
				for (const ibv_wc &wc : vt::poll_all((i ? right_ : left_)->cq())) {
					done[i]++;
					if (status == IBV_WC_SUCCESS)
						status = wc.status;
				}
			return status != IBV_WC_SUCCESS || (done[0] >= completions && done[1] >= completions);
		},
		"completions");
	if (status != IBV_WC_SUCCESS)
		throw Failed(std::string(broke) + ": " + ibv_wc_status_str(status));
}

void LifeByNumber::post(const number::End &end, const number::End &peer)
{
	check(end.post(IBV_WR_RDMA_WRITE, 1, &peer.memory()), "Write");
	check(end.post(IBV_WR_SEND, 2), "Send");
}

void LifeByNumber::write_and_send() const
{
	left_->memory().fill_pattern(1);
	right_->memory().fill_pattern(2);
	left_->receive(3);
	right_->receive(3);
	// Before the peer is ready: it waits.
	connect(*left_, *right_);
	post(*left_, *right_);
	connect(*right_, *left_);
	post(*right_, *left_);
	wait_for(3);
	for (const std::size_t to : {received, reached})
		if (!vt::same(left_->memory().bytes(0, length), right_->memory().bytes(to, length)) ||
			!vt::same(right_->memory().bytes(0, length), left_->memory().bytes(to, length)))
			vt::fail("other octets have arrived");
}

void LifeByNumber::read() const
{
	for (const number::End *end : {left_.get(), right_.get()}) {
		const number::End &peer = end == left_.get() ? *right_ : *left_;

		for (auto &octet : end->memory().bytes(0, length))
			octet = 0;
		check(end->post(IBV_WR_RDMA_READ, 4, &peer.memory()), "Read");
	}
	wait_for(1);
	if (!vt::same(left_->memory().bytes(0, length), right_->memory().bytes(reached, length)) ||
		!vt::same(right_->memory().bytes(0, length), left_->memory().bytes(reached, length)))
		vt::fail("other octets were read");
}

void LifeByNumber::run() const
{
	write_and_send();
	read();
}

} // namespace

std::string live_by_number()
{
	try {
		LifeByNumber().run();
	} catch (const Failed &e) {
		return e.what();
	}
	return {};
}

} // namespace faults
