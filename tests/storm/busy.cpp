// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Traffic on devices that go: a connection at a time, until it fails.
#include <string_view>
#include <thread>

#include "sides.hpp"

namespace storm {

namespace {

void one_connection(Part &part)
{
	vt::Listener listener;
	RawPair pair(find_devices(), listener, part);

	while (part.running() && !(pair.a.in_error() && pair.b.in_error()))
		for (int i = 0; i < 32; i++)
			(void)part.counted(pair.exchange(part.random, part.tally));
	pair.a.drain(part.tally);
	pair.b.drain(part.tally);
}

} // namespace

void keep_busy(Part &part)
{
	while (part.running()) {
		try {
			one_connection(part);
		} catch (const std::exception &error) {
			// A device that isn't there just now is no fault; what never ends is.
			if (std::string_view(error.what()).starts_with("no end"))
				throw;
			part.tally.refused++;
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
		}
	}
}

} // namespace storm
