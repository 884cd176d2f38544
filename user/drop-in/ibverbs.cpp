// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Names that take no object, in place of libibverbs: those that names/table calls
// harmless. They say what rdma-core's say.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "names.hpp"

namespace {

template <std::size_t Count>
const char *word(const std::array<const char *, Count> &words, int index)
{
	return index >= 0 && static_cast<std::size_t>(index) < Count ? words[static_cast<std::size_t>(index)]
								     : "unknown";
}

constexpr std::array statuses = {"success", "local length error", "local QP operation error",
	"local EE context operation error", "local protection error", "Work Request Flushed Error",
	"memory management operation error", "bad response error", "local access error", "remote invalid request error",
	"remote access error", "remote operation error", "transport retry counter exceeded",
	"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error",
	"invalid EE context number", "invalid EE context state", "fatal error", "response timeout error",
	"general error", "TM error", "TM software rendezvous"};
static_assert(statuses.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

constexpr std::array events = {"CQ error", "local work queue catastrophic error",
	"invalid request local work queue error", "local access violation work queue error",
	"communication established", "send queue drained", "path migrated", "path migration request error",
	"local catastrophic error", "port active", "port error", "LID change", "P_Key change", "SM change",
	"SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change",
	"WQ fatal", "Device link speed change"};
// The last one is younger than the headers of rdma-core 44.
static_assert(events.size() == IBV_EVENT_WQ_FATAL + 2);

constexpr std::array nodes = {"unknown", "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router",
	"iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};

constexpr std::array port_states = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};

struct Rate {
	ibv_rate rate;
	int multiple; // of 2.5 Gbit/s; 0: of none that has a name
	int mbps;
};

constexpr std::array rates = {Rate{IBV_RATE_2_5_GBPS, 1, 2500}, Rate{IBV_RATE_5_GBPS, 2, 5000},
	Rate{IBV_RATE_10_GBPS, 4, 10000}, Rate{IBV_RATE_20_GBPS, 8, 20000}, Rate{IBV_RATE_30_GBPS, 12, 30000},
	Rate{IBV_RATE_40_GBPS, 16, 40000}, Rate{IBV_RATE_60_GBPS, 24, 60000}, Rate{IBV_RATE_80_GBPS, 32, 80000},
	Rate{IBV_RATE_120_GBPS, 48, 120000}, Rate{IBV_RATE_14_GBPS, 0, 14062}, Rate{IBV_RATE_56_GBPS, 0, 56250},
	Rate{IBV_RATE_112_GBPS, 0, 112500}, Rate{IBV_RATE_168_GBPS, 0, 168750}, Rate{IBV_RATE_25_GBPS, 0, 25781},
	Rate{IBV_RATE_100_GBPS, 0, 103125}, Rate{IBV_RATE_200_GBPS, 0, 206250}, Rate{IBV_RATE_300_GBPS, 0, 309375},
	Rate{IBV_RATE_28_GBPS, 11, 28125}, Rate{IBV_RATE_50_GBPS, 20, 53125}, Rate{IBV_RATE_400_GBPS, 160, 425000},
	Rate{IBV_RATE_600_GBPS, 240, 637500}, Rate{IBV_RATE_800_GBPS, 320, 850000},
	Rate{IBV_RATE_1200_GBPS, 480, 1275000}};

} // namespace

KIW_NAME const char *ibv_wc_status_str(ibv_wc_status status)
{
	return word(statuses, status);
}

KIW_NAME const char *ibv_event_type_str(ibv_event_type event)
{
	return word(events, event);
}

KIW_NAME const char *ibv_node_type_str(ibv_node_type type)
{
	return word(nodes, type);
}

KIW_NAME const char *ibv_port_state_str(ibv_port_state state)
{
	return word(port_states, state);
}

KIW_NAME int ibv_rate_to_mult(ibv_rate rate)
{
	for (const Rate &row : rates)
		if (row.rate == rate && row.multiple)
			return row.multiple;
	return -1;
}

KIW_NAME ibv_rate mult_to_ibv_rate(int mult)
{
	for (const Rate &row : rates)
		if (row.multiple && row.multiple == mult)
			return row.rate;
	return IBV_RATE_MAX;
}

KIW_NAME int ibv_rate_to_mbps(ibv_rate rate)
{
	for (const Rate &row : rates)
		if (row.rate == rate)
			return row.mbps;
	return -1;
}

KIW_NAME ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (const Rate &row : rates)
		if (row.mbps == mbps)
			return row.rate;
	return IBV_RATE_MAX;
}

// Nothing is pinned, so that there is nothing to keep from children.
KIW_NAME int ibv_fork_init()
{
	return 0;
}

KIW_NAME ibv_fork_status ibv_is_fork_initialized()
{
	return IBV_FORK_UNNEEDED;
}

KIW_NAME int ibv_dontfork_range(void *, size_t)
{
	return 0;
}

KIW_NAME int ibv_dofork_range(void *, size_t)
{
	return 0;
}

KIW_NAME ibv_context *ibv_import_device(int)
{
	errno = EOPNOTSUPP;
	return nullptr;
}

KIW_NAME const char *ibv_get_sysfs_path()
{
	const char *path = ::secure_getenv("SYSFS_PATH");

	return path ? path : "/sys";
}

KIW_NAME int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
	char path[4096];

	if (!size || static_cast<std::size_t>(std::snprintf(path, sizeof(path), "%s/%s", folder, file)) >= sizeof(path))
		return -1;
	const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t length = ::read(fd, text, size);
	::close(fd);
	if (length <= 0)
		return -1;
	if (text[length - 1] == '\n')
		text[--length] = '\0';
	else if (static_cast<std::size_t>(length) < size)
		text[length] = '\0';
	else
		return -1;
	return static_cast<int>(length);
}
