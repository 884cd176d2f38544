// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// rsockets make identifiers by librdmacm's own functions and look inside of them. So there are none: rsocket() fails,
// and with that nobody has a descriptor for the others.
#include <cerrno>
#include <poll.h>
#include <rdma/rsocket.h>

#include "names.hpp"
#include "next.hpp"

using kiwu::fail;

KIW_NAME int rsocket(int, int, int)
{
	return fail(ENODEV);
}

KIW_NAME int rbind(int, const sockaddr *, socklen_t)
{
	return fail(ENODEV);
}

KIW_NAME int rlisten(int, int)
{
	return fail(ENODEV);
}

KIW_NAME int raccept(int, sockaddr *, socklen_t *)
{
	return fail(ENODEV);
}

KIW_NAME int rconnect(int, const sockaddr *, socklen_t)
{
	return fail(ENODEV);
}

KIW_NAME int rshutdown(int, int)
{
	return fail(ENODEV);
}

KIW_NAME int rclose(int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rrecv(int, void *, size_t, int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rrecvfrom(int, void *, size_t, int, sockaddr *, socklen_t *)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rrecvmsg(int, msghdr *, int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rsend(int, const void *, size_t, int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rsendto(int, const void *, size_t, int, const sockaddr *, socklen_t)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rsendmsg(int, const msghdr *, int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rread(int, void *, size_t)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rreadv(int, const iovec *, int)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rwrite(int, const void *, size_t)
{
	return fail(ENODEV);
}

KIW_NAME ssize_t rwritev(int, const iovec *, int)
{
	return fail(ENODEV);
}

KIW_NAME int rpoll(pollfd *, nfds_t, int)
{
	return fail(ENODEV);
}

KIW_NAME int rselect(int, fd_set *, fd_set *, fd_set *, timeval *)
{
	return fail(ENODEV);
}

KIW_NAME int rgetpeername(int, sockaddr *, socklen_t *)
{
	return fail(ENODEV);
}

KIW_NAME int rgetsockname(int, sockaddr *, socklen_t *)
{
	return fail(ENODEV);
}

KIW_NAME int rsetsockopt(int, int, int, const void *, socklen_t)
{
	return fail(ENODEV);
}

KIW_NAME int rgetsockopt(int, int, int, void *, socklen_t *)
{
	return fail(ENODEV);
}

KIW_NAME int rfcntl(int, int, ...)
{
	return fail(ENODEV);
}

KIW_NAME off_t riomap(int, void *, size_t, int, int, off_t)
{
	return fail(ENODEV);
}

KIW_NAME int riounmap(int, void *, size_t)
{
	return fail(ENODEV);
}

KIW_NAME size_t riowrite(int, const void *, size_t, off_t, int)
{
	errno = ENODEV;
	return static_cast<size_t>(-1);
}

// Headers of older rdma-cores lack these.

KIW_NAME int kiw_repoll_create(int) asm("repoll_create");
KIW_NAME int kiw_repoll_create(int)
{
	return fail(ENODEV);
}

KIW_NAME int kiw_repoll_ctl(int, int, int, void *) asm("repoll_ctl");
KIW_NAME int kiw_repoll_ctl(int, int, int, void *)
{
	return fail(ENODEV);
}

KIW_NAME int kiw_repoll_wait(int, void *, int, int) asm("repoll_wait");
KIW_NAME int kiw_repoll_wait(int, void *, int, int)
{
	return fail(ENODEV);
}
