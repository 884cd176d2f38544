// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A well-behaved process: what it sends by Send, Write and Read arrives as it was, and only there, whatever the others
// do.
#include <array>
#include <thread>

#include "../lib/connection.hpp"
#include "part.hpp"

namespace storm {

namespace {

constexpr std::size_t largest = 200000;
constexpr std::size_t margin = 4096;
constexpr std::uint8_t untouched = 0xa5;

/// One message of some size, from one side to some place at the other.
class Beat {
public:
	Beat(vt::Side &from, vt::Side &to, const vt::Region &source, const vt::Region &sink)
		: from_(from),
		  to_(to),
		  source_(source),
		  sink_(sink)
	{
	}

	void play(Random &random)
	{
		length_ = random.below(random.one_in(4) ? largest : 5000);
		place_ = margin + random.below(4096);
		source_.fill_pattern(random.word());
		sink_.fill(untouched);
		switch (random.below(3)) {
		case 0:
			send();
			break;
		case 1:
			write();
			break;
		default:
			read();
			break;
		}
		demand(vt::same(source_.bytes(0, length_), sink_.bytes(place_, length_)), "bystander: wrong octets");
		demand(vt::all_equal(sink_.bytes(0, place_), untouched) &&
				vt::all_equal(
					sink_.bytes(place_ + length_, sink_.size() - place_ - length_), untouched),
			"bystander: octets beside the message were changed");
	}

private:
	static void finish(const ibv_wc &wc)
	{
		demand(wc.status == IBV_WC_SUCCESS, std::string("bystander: ") + ibv_wc_status_str(wc.status));
	}
	void send()
	{
		demand(to_.receive({sink_.sge(place_, length_)}) == 0, "bystander: post_recv");
		demand(from_.send({source_.sge(0, length_)}) == 0, "bystander: post_send");
		finish(from_.sent());
		const ibv_wc wc = to_.received();
		finish(wc);
		demand(wc.byte_len == length_, "bystander: wrong length");
	}
	void write()
	{
		const vt::Work work = {.remote = sink_.address(place_), .rkey = sink_.rkey()};

		demand(from_.write({source_.sge(0, length_)}, work) == 0, "bystander: post_send of a Write");
		finish(from_.sent());
		// What was sent before the empty message has arrived with it.
		send_empty();
	}
	void send_empty()
	{
		demand(to_.receive() == 0, "bystander: post_recv");
		demand(from_.send() == 0, "bystander: post_send");
		finish(from_.sent());
		finish(to_.received());
	}
	/// The sink's side asks for it.
	void read()
	{
		const vt::Work work = {.remote = source_.address(), .rkey = source_.rkey()};

		demand(to_.read({sink_.sge(place_, length_)}, work) == 0, "bystander: post_send of a Read");
		finish(to_.sent());
	}

	vt::Side &from_;
	vt::Side &to_;
	const vt::Region &source_;
	const vt::Region &sink_;
	std::size_t length_ = 0;
	std::size_t place_ = 0;
};

} // namespace

void stand_by(Random random, std::atomic<std::uint64_t> &beats, const std::atomic<bool> &stop)
{
	{
		vt::Pair pair;
		const vt::Region at_a(pair.a().pd(), largest + 4 * margin);
		const vt::Region at_b(pair.b().pd(), largest + 4 * margin);

		pair.sync();
		for (bool forth = true; !stop; beats++) {
			// The responder may not speak first; afterwards both may.
			if (forth)
				Beat(pair.a(), pair.b(), at_a, at_b).play(random);
			else
				Beat(pair.b(), pair.a(), at_b, at_a).play(random);
			forth = random.one_in(2);
			std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
		}
		demand(pair.a().state() == IBV_QPS_RTS && pair.b().state() == IBV_QPS_RTS,
			"bystander: its QPs left RTS");
	}
	demand(vt::pinned() == 0, "bystander: memory is still pinned");
}

} // namespace storm
