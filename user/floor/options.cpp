// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "options.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "lock.hpp"
#include "stats.hpp"

namespace kiwu {

namespace {

enum class Kind : std::uint8_t { flag, number, file };

struct Row {
	std::string_view name;
	Kind kind;
	unsigned least, most;
	void (*set)(unsigned value);
};

constexpr std::array rows = {
	Row{"crc", Kind::flag, 0, 1,
		[](unsigned value) {
			options.crc = value;
		}},
	Row{"markers", Kind::flag, 0, 1,
		[](unsigned value) {
			options.markers = value;
		}},
	Row{"mpa_rev", Kind::number, 1, 2,
		[](unsigned value) {
			options.mpa_rev = static_cast<std::uint8_t>(value);
		}},
	Row{"p2p", Kind::flag, 0, 1,
		[](unsigned value) {
			options.p2p = value;
		}},
	Row{"rtr", Kind::number, 1, 7,
		[](unsigned value) {
			options.rtr = static_cast<std::uint8_t>(value);
		}},
	Row{"large", Kind::flag, 0, 1,
		[](unsigned value) {
			options.large = value;
		}},
	Row{"receive_wait", Kind::number, 0, 300,
		[](unsigned value) {
			options.receive_wait = static_cast<std::uint16_t>(value);
		}},
	Row{"connect_timeout", Kind::number, 1, 300,
		[](unsigned value) {
			options.connect_timeout = static_cast<std::uint16_t>(value);
		}},
	Row{"mpa_timeout", Kind::number, 1, 300,
		[](unsigned value) {
			options.mpa_timeout = static_cast<std::uint16_t>(value);
		}},
	Row{"keepalive", Kind::number, 0, 32767,
		[](unsigned value) {
			options.keepalive = static_cast<std::uint16_t>(value);
		}},
	Row{"number", Kind::number, 0, 2,
		[](unsigned value) {
			options.number = static_cast<std::uint8_t>(value);
		}},
	Row{"check", Kind::flag, 0, 1,
		[](unsigned value) {
			options.check = value;
		}},
	Row{"stats", Kind::file, 0, 0, nullptr},
};

bool parse_flag(std::string_view text, unsigned &value)
{
	value = text == "Y" || text == "y" || text == "1";
	return value || text == "N" || text == "n" || text == "0";
}

bool parse_number(std::string_view text, const Row &row, unsigned &value)
{
	value = 0;
	for (const char c : text) {
		if (c < '0' || c > '9' || value > row.most)
			return false;
		value = 10 * value + static_cast<unsigned>(c - '0');
	}
	return !text.empty() && value >= row.least && value <= row.most;
}

/// As long as the process
bool keep_file(std::string_view path)
{
	char *copy = ::strndup(path.data(), path.size());

	if (!copy || !takes_stats(copy)) {
		std::free(copy);
		return false;
	}
	options.stats = copy;
	return true;
}

/// One word. Returns whether there is such an option with such a value.
bool take(std::string_view word)
{
	const std::size_t equals = word.find('=');

	if (equals == std::string_view::npos)
		return false;
	for (const Row &row : rows) {
		const std::string_view name(word.data(), equals);
		const std::string_view text(word.data() + equals + 1, word.size() - equals - 1);
		unsigned value = 0;

		if (row.name != name)
			continue;
		if (row.kind == Kind::file)
			return keep_file(text);
		if (!(row.kind == Kind::flag ? parse_flag(text, value) : parse_number(text, row, value)))
			return false;
		row.set(value);
		return true;
	}
	return false;
}

bool read()
{
	const char *variable = ::secure_getenv("KIWARP_USER");

	if (!variable)
		return true;
	std::string_view rest = variable;
	while (!rest.empty()) {
		const std::size_t end = std::min(rest.find(' '), rest.size());
		const std::string_view word(rest.data(), end);

		if (!word.empty() && !take(word)) {
			(void)std::fprintf(stderr,
				"kiwarp: KIWARP_USER: '%.*s' is no option with a value that it takes\n",
				static_cast<int>(word.size()), word.data());
			return false;
		}
		rest.remove_prefix(std::min(end + 1, rest.size()));
	}
	return true;
}

} // namespace

bool read_options()
{
	static constinit kiw::Lock lock;
	static bool done = false, good = false;
	kiw::Guard guard(lock);

	if (!done)
		good = read();
	done = true;
	return good;
}

} // namespace kiwu
