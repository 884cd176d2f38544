// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "launch.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace kiw {

namespace {

constexpr int cannot_run = 126, not_found = 127;

/// The folder that this program lies in. Returns false with errno.
bool own_folder(char *folder)
{
	const ssize_t length = ::readlink("/proc/self/exe", folder, PATH_MAX - 1);

	if (length <= 0)
		return false;
	folder[length] = '\0';
	*std::strrchr(folder, '/') = '\0';
	return true;
}

bool is_program(const char *path)
{
	struct stat status {};

	return ::access(path, X_OK) == 0 && ::stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/// Finds a program as execvp() does. Returns false if there is none.
bool find(const char *name, char *path)
{
	const char *folders = std::getenv("PATH");

	if (std::strchr(name, '/')) {
		(void)std::snprintf(path, PATH_MAX, "%s", name);
		return is_program(path);
	}
	for (const char *at = folders ? folders : "/bin:/usr/bin";; at++) {
		const std::size_t length = std::strcspn(at, ":");

		// An empty one is the working directory.
		(void)std::snprintf(
			path, PATH_MAX, "%.*s/%s", length ? static_cast<int>(length) : 1, length ? at : ".", name);
		if (is_program(path))
			return true;
		at += length;
		if (!*at)
			return false;
	}
}

} // namespace

// NOLINTNEXTLINE(cert-dcl50-cpp): as printf()
void Launch::give_up(int status, const char *format, ...) const
{
	va_list arguments;

	va_start(arguments, format);
	(void)std::fprintf(stderr, "%s: ", name_);
	(void)std::vfprintf(stderr, format, arguments);
	(void)std::fputc('\n', stderr);
	va_end(arguments);
	std::exit(status);
}

/// The loader takes no library for a program with more rights than its user's.
void Launch::check_rights() const
{
	struct stat status {};

	if (::stat(program_, &status))
		give_up(cannot_run, "%s: %s", program_, std::strerror(errno));
	if ((status.st_mode & S_ISUID && status.st_uid != ::getuid()) ||
		(status.st_mode & S_ISGID && status.st_gid != ::getgid()))
		give_up(cannot_run, "%s is setuid or setgid: the loader takes no libraries for it", program_);
	if (::getxattr(program_, "security.capability", nullptr, 0) > 0)
		give_up(cannot_run, "%s has capabilities: the loader takes no libraries for it", program_);
}

/// A program of another architecture, or without a loader, can't be given the library.
void Launch::check_format() const
{
	ElfW(Ehdr) header{};
	ElfW(Ehdr) own{};
	const int fd = ::open(program_, O_RDONLY | O_CLOEXEC);
	const int self = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd < 0) // one that may be run but not be read
		return;
	const ssize_t got = ::pread(fd, &header, sizeof(header), 0);
	if (got < 4 || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
		::close(fd);
		::close(self);
		return; // a script: its interpreter gets the library
	}
	if (got < static_cast<ssize_t>(sizeof(header)) || ::pread(self, &own, sizeof(own), 0) != sizeof(own) ||
		header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header.e_machine != own.e_machine)
		give_up(cannot_run, "%s is for another architecture", program_);
	bool loaded = false;
	for (int i = 0; i < header.e_phnum; i++) {
		ElfW(Phdr) part{};

		if (::pread(fd, &part, sizeof(part),
			    static_cast<off_t>(header.e_phoff) + i * static_cast<off_t>(header.e_phentsize)) ==
				sizeof(part) &&
			part.p_type == PT_INTERP)
			loaded = true;
	}
	::close(fd);
	::close(self);
	if (!loaded)
		give_up(cannot_run, "%s is linked statically: it uses no libraries", program_);
}

/// Puts a path in front of those of an environment variable.
void Launch::put_in_front(const char *variable, const char *path) const
{
	const char *before = std::getenv(variable);
	const std::size_t length = std::strlen(path) + (before ? std::strlen(before) : 0) + 2;
	char *all = static_cast<char *>(std::malloc(length));

	// The loader separates by both, and knows no way around it.
	if (std::strpbrk(path, " :"))
		give_up(cannot_run, "the loader takes no library of a folder with a blank or a colon in its name: %s",
			path);
	if (!all)
		give_up(cannot_run, "%s", std::strerror(ENOMEM));
	(void)std::snprintf(all, length, before && *before ? "%s:%s" : "%s", path, before);
	if (::setenv(variable, all, 1))
		give_up(cannot_run, "%s", std::strerror(errno));
	std::free(all);
}

/// Finds a file beside this program, or where it is installed.
void Launch::find_file(char *path, const char *name) const
{
	char folder[PATH_MAX];

	if (!own_folder(folder))
		give_up(cannot_run, "/proc/self/exe: %s", std::strerror(errno));
	(void)std::snprintf(path, std::size_t(2) * PATH_MAX, "%s/%s", folder, name);
	if (::access(path, R_OK) == 0)
		return;
	(void)std::snprintf(path, std::size_t(2) * PATH_MAX, "%s/%s/%s", KIWARP_LIBDIR, name_, name);
	if (::access(path, R_OK))
		give_up(cannot_run, "there is no %s in %s, and no %s", name, folder, path);
}

void Launch::find_program(const char *name)
{
	if (!find(name, program_))
		give_up(not_found, "%s: not found", name);
	check_rights();
	check_format();
}

void Launch::preload(const char *library) const
{
	char path[2 * PATH_MAX];

	find_file(path, library);
	put_in_front("LD_PRELOAD", path);
}

void Launch::prefer_folder_of(const char *library) const
{
	char path[2 * PATH_MAX];

	find_file(path, library);
	*std::strrchr(path, '/') = '\0';
	put_in_front("LD_LIBRARY_PATH", path);
}

void Launch::run(char **command) const
{
	// By the shell, where it is a script that names no interpreter; its path has a slash.
	::execvp(program_, command);
	give_up(cannot_run, "%s: %s", program_, std::strerror(errno));
}

} // namespace kiw
