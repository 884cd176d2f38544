// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Programs for InfiniBand ask for the file of a device before they use it: where the device is shown to them
// (show=roce), it is one that they may read and write. All else is libc's.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device.hpp"
#include "names.hpp"
#include "options.hpp"

namespace {

constexpr char folder[] = "/dev/infiniband/";

bool is_device(const char *path)
{
	if (!path || std::strncmp(path, folder, sizeof(folder) - 1) != 0 ||
		std::strcmp(path + sizeof(folder) - 1, kiwu::device.dev_name) != 0)
		return false;
	return kiwu::read_options() && kiwu::options.roce;
}

template <typename Status>
void fill(Status &status)
{
	constexpr unsigned verbs_major = 231, first_minor = 192;

	std::memset(&status, 0, sizeof(status));
	status.st_mode = S_IFCHR | 0666;
	status.st_nlink = 1;
	status.st_rdev = ::makedev(verbs_major, first_minor);
}

} // namespace

KIW_NAME int stat(const char *path, struct stat *status) noexcept
{
	if (!is_device(path))
		return ::fstatat(AT_FDCWD, path, status, 0);
	fill(*status);
	return 0;
}

KIW_NAME int stat64(const char *path, struct stat64 *status) noexcept
{
	if (!is_device(path))
		return ::fstatat64(AT_FDCWD, path, status, 0);
	fill(*status);
	return 0;
}

KIW_NAME int access(const char *path, int mode) noexcept
{
	if (!is_device(path))
		return ::faccessat(AT_FDCWD, path, mode, 0);
	if (!(mode & X_OK))
		return 0;
	errno = EACCES;
	return -1;
}
