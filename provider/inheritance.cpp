// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "inheritance.hpp"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.hpp"

namespace kiw {

namespace {

/// Whether both are open files of one device.
bool same_device(int one, int other)
{
	struct stat first {};
	struct stat second {};

	return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
	       (first.st_mode & S_IFMT) == (second.st_mode & S_IFMT) && first.st_rdev == second.st_rdev;
}

/// Makes a descriptor name another open file, keeping its flags. Returns 0 or an errno value.
int replace(int descriptor, int by)
{
	const int status = ::fcntl(descriptor, F_GETFL);
	const int flags = ::fcntl(descriptor, F_GETFD);

	if (status < 0 || flags < 0 || ::fcntl(by, F_SETFL, status) ||
		::dup3(by, descriptor, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		return errno;
	return 0;
}

/// Moves the files of a fresh context to another one.
int take_files(Context &own, const Context &fresh)
{
	// The child may have closed and reused the descriptor.
	if (!same_device(own.ibv.cmd_fd, fresh.ibv.cmd_fd))
		return EBADF;
	if (const int error = replace(own.ibv.async_fd, fresh.ibv.async_fd))
		return error;
	return replace(own.ibv.cmd_fd, fresh.ibv.cmd_fd);
}

int reopen(Context &own)
{
	ibv_context *fresh = ibv_open_device(own.ibv.device);

	if (!fresh)
		return errno;
	int error = take_files(own, Context::from(fresh));
	if (!error) {
		own.ibv.num_comp_vectors = fresh->num_comp_vectors;
		own.features = Context::from(fresh).features;
		// Threads of the parent may have held their locks. The parent's mappings are absent here.
		::pthread_mutex_init(&own.ibv.mutex, nullptr);
		::new (&own.mappings) Mappings;
		own.adopted = true;
		error = own.origin.open();
	}
	ibv_close_device(fresh);
	return error;
}

} // namespace

int adopt(Context &context)
{
	if (!context.origin.inherited())
		return 0;
	Guard guard(Origin::heirs());

	return context.origin.inherited() ? reopen(context) : 0;
}

int adopt(ibv_comp_channel *channel)
{
	ibv_comp_channel *fresh = ibv_create_comp_channel(channel->context);

	if (!fresh)
		return errno;
	const int error = replace(channel->fd, fresh->fd);
	ibv_destroy_comp_channel(fresh);
	return error;
}

} // namespace kiw
