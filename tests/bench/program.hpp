// SPDX-License-Identifier: GPL-2.0
// What the command lines of the measuring programs share.
#ifndef BENCH_PROGRAM_HPP
#define BENCH_PROGRAM_HPP

#include "socket.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace bench {

/// One side of a measurement: NAME MODE ROLE ADDRESS PORT, and what a program adds to app().
class Program {
public:
	Program(const std::string &what, const std::string &name, const std::vector<std::string> &modes)
		: app_(what, name)
	{
		app_.add_option("MODE", mode_)->required()->check(CLI::IsMember(modes));
		app_.add_option("ROLE", role_)->required()->check(CLI::IsMember({"server", "client"}));
		app_.add_option("ADDRESS", host_)->required()->check(CLI::ValidIPV4);
		app_.add_option("PORT", port_)->required()->check(CLI::Range(1, 65535));
	}
	CLI::App &app() { return app_; }
	[[nodiscard]] bool is(const char *mode) const { return mode_ == mode; }
	[[nodiscard]] bool server() const { return role_ == "server"; }
	/// Where the server listens
	[[nodiscard]] sockaddr_in address() const { return address_of(host_, port_); }

	/// Parses the command line and calls @p body; returns the program's status.
	template <typename Body>
	int run(int argc, char **argv, Body body)
	{
		CLI11_PARSE(app_, argc, argv);
		body();
		return 0;
	}

private:
	CLI::App app_;
	std::string mode_, role_, host_;
	std::uint16_t port_ = 0;
};

/// Says what ended a program; returns its status.
inline int failed(const std::exception &e)
{
	std::cerr << program_invocation_short_name << ": " << e.what() << '\n';
	return 1;
}

} // namespace bench

#endif
