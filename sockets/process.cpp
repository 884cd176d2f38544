// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A process begins, forks, runs another program and ends.
#include <cstdarg>
#include <cstdlib>
#include <pthread.h>

#include "descriptors.hpp"
#include "epoll.hpp"
#include "export.hpp"
#include "real.hpp"
#include "rules.hpp"
#include "steward.hpp"
#include "watch.hpp"

namespace kiws {

namespace {

/// What a process has posted may take so long after its end.
constexpr Time farewell = 2 * second;

// A child has its parent's sockets, and none of the parent's lanes: they are left before.
void before_fork()
{
	// All are asked before one is waited for.
	table.for_each([](int, Socket &socket) {
		const Locked locked(socket.stream());

		if (locked)
			(void)socket.leave();
	});
	const Time end = now() + leave_time;
	table.for_each([=](int fd, Socket &socket) {
		leave_lane(fd, end);
		socket.bequeath(fd);
	});
	// From the outermost lock to the innermost
	hold_sets();
	Socket::hold();
	Stream::hold();
	steward.hold();
	hold_watches();
}

void in_parent()
{
	release_watches();
	steward.release();
	Stream::release();
	Socket::release();
	release_sets();
	table.for_each([](int, Socket &socket) { socket.stay(); });
}

void in_child()
{
	own();
	forget_watches();
	steward.forget_all();
	forget_pds();
	Stream::forget_all();
	Socket::release();
	release_sets();
	forget_sets();
	table.for_each([](int, Socket &socket) { socket.inherit(); });
}

[[gnu::constructor]] void begin()
{
	own();
	if (rules().mode == Mode::api)
		return;
	(void)::pthread_atfork(before_fork, in_parent, in_child);
}

[[gnu::destructor]] void end()
{
	if (is_borrowed())
		return;
	table.for_each([](int fd, Socket &) { let_go(fd); });
	steward.wait(now() + farewell);
}

} // namespace

} // namespace kiws

using namespace kiws;

namespace {

/// The arguments of execl() as those of execv(): as many as a call can have
class Arguments {
public:
	Arguments(const char *first, va_list *rest)
	{
		va_list again;
		std::size_t count = 1;

		va_copy(again, *rest);
		for (const char *each = first; each; each = va_arg(again, const char *))
			count++;
		va_end(again);
		all_ = static_cast<char **>(std::calloc(count, sizeof(char *)));
		for (std::size_t i = 0; all_ && i < count; i++)
			all_[i] = const_cast<char *>(i ? va_arg(*rest, const char *) : first);
	}
	~Arguments() { std::free(all_); }
	Arguments(const Arguments &) = delete;
	Arguments &operator=(const Arguments &) = delete;
	char **get() const { return all_; }

private:
	char **all_;
};

} // namespace

KIWS_EXPORT int execve(const char *path, char *const arguments[], char *const variables[]) noexcept
{
	leave_all();
	return real().execve(path, arguments, variables);
}

KIWS_EXPORT int execv(const char *path, char *const arguments[]) noexcept
{
	leave_all();
	return real().execv(path, arguments);
}

KIWS_EXPORT int execvp(const char *file, char *const arguments[]) noexcept
{
	leave_all();
	return real().execvp(file, arguments);
}

KIWS_EXPORT int execvpe(const char *file, char *const arguments[], char *const variables[]) noexcept
{
	leave_all();
	return real().execvpe(file, arguments, variables);
}

KIWS_EXPORT int fexecve(int fd, char *const arguments[], char *const variables[]) noexcept
{
	leave_all();
	return real().fexecve(fd, arguments, variables);
}

KIWS_EXPORT int execl(const char *path, const char *first, ...) noexcept
{
	va_list rest;

	va_start(rest, first);
	const Arguments arguments(first, &rest);
	va_end(rest);
	return arguments.get() ? execv(path, arguments.get()) : -1;
}

KIWS_EXPORT int execlp(const char *file, const char *first, ...) noexcept
{
	va_list rest;

	va_start(rest, first);
	const Arguments arguments(first, &rest);
	va_end(rest);
	return arguments.get() ? execvp(file, arguments.get()) : -1;
}

KIWS_EXPORT int execle(const char *path, const char *first, ...) noexcept
{
	va_list rest;

	va_start(rest, first);
	const Arguments arguments(first, &rest);
	char *const *variables = va_arg(rest, char *const *);
	va_end(rest);
	return arguments.get() ? execve(path, arguments.get(), variables) : -1;
}

KIWS_EXPORT int posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const arguments[], char *const variables[])
{
	leave_all();
	return real().posix_spawn(process, path, actions, attributes, arguments, variables);
}

KIWS_EXPORT int posix_spawnp(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const arguments[], char *const variables[])
{
	leave_all();
	return real().posix_spawnp(process, file, actions, attributes, arguments, variables);
}

KIWS_EXPORT void _exit(int status)
{
	end();
	real()._exit(status);
	__builtin_unreachable();
}

KIWS_EXPORT void _Exit(int status) noexcept
{
	_exit(status);
}
