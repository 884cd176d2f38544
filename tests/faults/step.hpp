// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The steps of a life that goes on as far as it can while memory is short.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace faults {

/// A step that failed: no reason to complain, but to go to the end.
class Failed : public std::runtime_error {
public:
	Failed(const std::string &step, int error) : runtime_error(step + ": " + std::strerror(error)) {}
	explicit Failed(const std::string &what) : runtime_error(what) {}
};

/// How the outcome of a life begins whose connection ended by itself
inline constexpr std::string_view broke = "the connection broke";

/// What make() returns; if it throws, the step has failed.
template <typename Make>
auto made(const std::string &step, Make make)
{
	try {
		return make();
	} catch (const std::exception &e) {
		throw Failed(step + ": " + e.what());
	}
}

} // namespace faults
