// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Running a program with a library of ours in front of those that it is linked with. What can't be is told on standard
// error, and ends the launcher with a status as the shell's: 126, or 127 where there is no such program.
#pragma once

#include <climits>

namespace kiw {

class Launch {
public:
	/// name is that of the launcher, and of the folder of LIBDIR that has the libraries.
	explicit Launch(const char *name) : name_(name) {}

	[[gnu::format(printf, 3, 4)]] [[noreturn]] void give_up(int status, const char *format, ...) const;

	/// Finds a program as execvp() does, and refuses those for which the loader takes no library.
	void find_program(const char *name);
	/// Puts a library in front of others (LD_PRELOAD). It lies beside the launcher, or where it is installed.
	void preload(const char *library) const;
	/// Puts the folder of such a library in front of others (LD_LIBRARY_PATH).
	void prefer_folder_of(const char *library) const;
	/// Runs the program that was found.
	[[noreturn]] void run(char **command) const;

private:
	void check_rights() const;
	void check_format() const;
	void find_file(char *path, const char *name) const;
	void put_in_front(const char *variable, const char *path) const;

	const char *const name_;
	char program_[PATH_MAX] = {};
};

} // namespace kiw
