// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "options.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "lock.hpp"
#include "stats.hpp"

namespace kiwu {

namespace {

enum class Kind : std::uint8_t { flag, number, look, file };

struct Row {
	std::string_view name;
	Kind kind;
	unsigned least, most;
	unsigned (*get)();
	void (*set)(unsigned value);
};

template <auto member>
constexpr Row row(std::string_view name, Kind kind, unsigned least, unsigned most)
{
	return {name, kind, least, most, []() -> unsigned { return options.*member; },
		[](unsigned value) {
			using Value = decltype((options.*member).load());

			options.*member = static_cast<Value>(value);
		}};
}

constexpr std::array rows = {
	row<&Options::crc>("crc", Kind::flag, 0, 1),
	row<&Options::markers>("markers", Kind::flag, 0, 1),
	row<&Options::mpa_rev>("mpa_rev", Kind::number, 1, 2),
	row<&Options::p2p>("p2p", Kind::flag, 0, 1),
	row<&Options::rtr>("rtr", Kind::number, 1, 7),
	row<&Options::large>("large", Kind::flag, 0, 1),
	row<&Options::receive_wait>("receive_wait", Kind::number, 0, 300),
	row<&Options::connect_timeout>("connect_timeout", Kind::number, 1, 300),
	row<&Options::mpa_timeout>("mpa_timeout", Kind::number, 1, 300),
	row<&Options::keepalive>("keepalive", Kind::number, 0, 32767),
	row<&Options::number>("number", Kind::number, 0, 2),
	row<&Options::check>("check", Kind::flag, 0, 1),
	row<&Options::prefer>("prefer", Kind::flag, 0, 1),
	row<&Options::roce>("show", Kind::look, 0, 1),
	Row{"stats", Kind::file, 0, 0, nullptr, nullptr},
};

const Row *find(std::string_view name)
{
	const auto *found = std::find_if(rows.begin(), rows.end(), [&](const Row &each) { return each.name == name; });

	return found == rows.end() ? nullptr : found;
}

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

bool parse_look(std::string_view text, unsigned &value)
{
	value = text == "roce";
	return value || text == "iwarp";
}

bool parse(std::string_view text, const Row &row, unsigned &value)
{
	switch (row.kind) {
	case Kind::flag:
		return parse_flag(text, value);
	case Kind::number:
		return parse_number(text, row, value);
	case Kind::look:
		return parse_look(text, value);
	default:
		return false;
	}
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

/// Returns 0 or an errno value.
int set(const Row &option, std::string_view text)
{
	unsigned value = 0;

	if (!parse(text, option, value))
		return EINVAL;
	option.set(value);
	return 0;
}

/// One word. Returns whether there is such an option with such a value.
bool take(std::string_view word)
{
	const std::size_t equals = word.find('=');
	const Row *option = equals == std::string_view::npos ? nullptr : find({word.data(), equals});

	if (!option)
		return false;
	const std::string_view text(word.data() + equals + 1, word.size() - equals - 1);
	return option->kind == Kind::file ? keep_file(text) : set(*option, text) == 0;
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

int get_option(std::string_view name, char *text, std::size_t size)
{
	const Row *option = find(name);

	if (!option || option->kind == Kind::file)
		return ENOENT;
	const unsigned value = option->get();
	int length = 0;
	if (option->kind == Kind::flag)
		length = std::snprintf(text, size, "%c", value ? 'Y' : 'N');
	else if (option->kind == Kind::look)
		length = std::snprintf(text, size, "%s", value ? "roce" : "iwarp");
	else
		length = std::snprintf(text, size, "%u", value);
	return static_cast<std::size_t>(length) < size ? 0 : ENOSPC;
}

int set_option(std::string_view name, std::string_view text)
{
	const Row *option = find(name);

	return !option || option->kind == Kind::file ? ENOENT : set(*option, text);
}

} // namespace kiwu
