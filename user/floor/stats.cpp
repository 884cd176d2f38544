// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "stats.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <errno.h>
#include <fcntl.h>

#include "count.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

struct Row {
	const char *name;
	const std::atomic<std::uint64_t> *value;
};

constexpr std::array rows = {
	Row{"connects", &counters[KIW_STAT_CONNECTS]},
	Row{"connect_fails", &counters[KIW_STAT_CONNECT_FAILS]},
	Row{"mpa_rejects", &counters[KIW_STAT_MPA_REJECTS]},
	Row{"mpa_malformed", &counters[KIW_STAT_MPA_MALFORMED]},
	Row{"mpa_timeouts", &counters[KIW_STAT_MPA_TIMEOUTS]},
	Row{"crc_errors", &counters[KIW_STAT_CRC_ERRORS]},
	Row{"stream_errors", &counters[KIW_STAT_STREAM_ERRORS]},
	Row{"terminates_sent", &counters[KIW_STAT_TERM_SENT]},
	Row{"terminates_received", &counters[KIW_STAT_TERM_RECEIVED]},
	Row{"connections_lost", &counters[KIW_STAT_LLP_LOST]},
	Row{"cq_overflows", &counters[KIW_STAT_CQ_OVERFLOWS]},
	Row{"ring_errors", &counters[KIW_STAT_RING_ERRORS]},
	Row{"ud_malformed", &counters[KIW_STAT_UD_MALFORMED]},
	Row{"ud_versions", &counters[KIW_STAT_UD_VERSIONS]},
	Row{"ud_crc_errors", &counters[KIW_STAT_UD_CRC_ERRORS]},
	Row{"ud_not_ready", &counters[KIW_STAT_UD_NOT_READY]},
	Row{"ud_qkey_errors", &counters[KIW_STAT_UD_QKEY_ERRORS]},
	Row{"ud_strays", &counters[KIW_STAT_UD_STRAYS]},
	Row{"ud_no_receives", &counters[KIW_STAT_UD_NO_RECEIVES]},
	Row{"ud_too_long", &counters[KIW_STAT_UD_TOO_LONG]},
	Row{"ud_bad_receives", &counters[KIW_STAT_UD_BAD_RECEIVES]},
	Row{"ud_record_refused", &counters[KIW_STAT_UD_RECORD_REFUSED]},
	Row{"ud_record_full", &counters[KIW_STAT_UD_RECORD_FULL]},
	Row{"ud_record_late", &counters[KIW_STAT_UD_RECORD_LATE]},
	Row{"ud_record_timeouts", &counters[KIW_STAT_UD_RECORD_TIMEOUTS]},
	Row{"sent_fpdus", &sent_fpdus},
	Row{"sent_bytes", &sent_bytes},
	Row{"lent_bytes", &lent_bytes},
};
static_assert(rows.size() >= KIW_STAT_NUM);

int open_file(const char *path)
{
	return static_cast<int>(
		sys::call(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
}

} // namespace

void forget_counters()
{
	for (auto &counter : counters)
		counter.store(0, std::memory_order_relaxed);
	for (auto *counter : {&sent_fpdus, &sent_bytes, &lent_bytes})
		counter->store(0, std::memory_order_relaxed);
}

bool read_counter(std::string_view name, std::uint64_t &value)
{
	for (const Row &row : rows)
		if (name == row.name) {
			value = row.value->load(std::memory_order_relaxed);
			return true;
		}
	return false;
}

bool takes_stats(const char *path)
{
	const int fd = open_file(path);

	if (fd >= 0)
		sys::close(fd);
	return fd >= 0;
}

/// In one call: the lines of several processes don't mix.
void write_stats(const char *path)
{
	constexpr std::size_t longest = 128;
	static std::array<char, longest * rows.size()> text;
	std::size_t used = 0;
	const int fd = open_file(path);

	if (fd < 0)
		return;
	for (const Row &row : rows)
		used += static_cast<std::size_t>(std::snprintf(text.data() + used, longest, "%.64s[%d] %s %llu\n",
			program_invocation_short_name, static_cast<int>(::getpid()), row.name,
			static_cast<unsigned long long>(row.value->load(std::memory_order_relaxed))));
	sys::write(fd, text.data(), used);
	sys::close(fd);
}

} // namespace kiwu
