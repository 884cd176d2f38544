// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Two ends of a connection that send, write and read all at once, and know what has to arrive.
#pragma once

#include <memory>
#include <string>

#include "connection.hpp"

namespace faults {

/// A round is: both prepare, both post, both are polled until they are done, both check.
class End {
public:
	/// Every message has so many octets.
	End(std::unique_ptr<vt::Side> side, std::size_t octets);

	vt::Side &side() const { return *side_; }

	/// New octets to send, by seed, and a receive for those of the peer. Return: 0 or errno.
	int prepare(std::uint32_t seed);
	/// A Send, a Write and a Read. Return: 0 or errno.
	int post(const End &peer);
	/// Takes what has completed, and writes over the buffers of what was sent, whether it was or failed: they are
	/// the program's again. Return: whether all went well.
	bool poll();
	bool done() const { return completed_ == completions; }
	/// Throws if there are other octets than those of the peer. Where the round broke off, only a part of them
	/// needs to be there, and what was there before may be instead.
	void check(const End &peer, bool broken = false) const;

private:
	// What is sent, written, given to be read, and read lies in parts of its own.
	enum Part { sent, written, readable, read_back, num_parts };
	static constexpr int completions = 4; // Send, Write, Read, and a receive

	void overwrite(std::size_t part) const;
	void check_part(Part mine, const End &peer, Part theirs, bool broken, const char *what) const;

	std::unique_ptr<vt::Side> side_;
	std::size_t octets_;
	vt::Region out_;
	vt::Region in_;
	std::vector<std::uint8_t> posted_; // what out_ held then
	int completed_ = 0;
	bool failed_ = false;
};

} // namespace faults
