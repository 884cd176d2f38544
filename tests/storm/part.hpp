// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What one process of the storm gets, and what it tells: see main.cpp, which starts, kills and counts them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "random.hpp"

namespace storm {

using Clock = std::chrono::steady_clock;

/// In memory that all processes share: killed ones have counted, too.
struct Tally {
	std::atomic<std::uint64_t> connections;
	std::atomic<std::uint64_t> completed; // with success
	std::atomic<std::uint64_t> failed;    // completions with an error
	std::atomic<std::uint64_t> accepted;  // commands
	std::atomic<std::uint64_t> refused;
	std::atomic<std::uint64_t> faults; // accesses to what isn't mapped
};

class Part {
public:
	Part(Random seeded, Clock::time_point end, Tally &counts) : random(seeded), end_(end), tally(counts) {}

	/// Whether there is time left for another round.
	bool running() const { return Clock::now() < end_; }
	/// Counts what a call returned, and returns it.
	int counted(int error) const
	{
		(error ? tally.refused : tally.accepted)++;
		return error;
	}

	Random random;

private:
	Clock::time_point end_;

public:
	Tally &tally;
};

/// Throws, which ends the process as a failure, with what was wrong.
void demand(bool condition, const std::string &what);

// The parts. Each ends by itself soon after the end of its time.
void scribble_rings(Part &part); // rings.cpp
void abuse_mappings(Part &part); // mappings.cpp
void misorder_verbs(Part &part); // verbs.cpp
void misorder_cm(Part &part);	 // cm.cpp
void send_nonsense(Part &part);	 // nonsense.cpp
void keep_busy(Part &part);	 // busy.cpp
void churn_devices(Part &part);	 // churn.cpp: under keep_busy() of others
void churn_module(Part &part);	 // churn.cpp: the same

/// Two hosts more, with devices of their own, for churn_devices(). Throws where they can't be made or don't go.
void make_hosts();
void remove_hosts();
/// What KIWARP_TEST_CLIENT and KIWARP_TEST_SERVER are there
inline constexpr const char *hosts_client = "10.74.0.1@storm-left";
inline constexpr const char *hosts_server = "10.74.0.2@storm-right";

/// Sends verified data, counting rounds in beats, until stop; throws when anything is wrong (bystander.cpp).
void stand_by(Random random, std::atomic<std::uint64_t> &beats, const std::atomic<bool> &stop);

} // namespace storm
