// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// FPDUs on their way to TCP, see struct kiw_batch: iovecs, of memory of our own or of the process's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/uio.h>

#include "session_port.h"

namespace kiwu {

/// Pieces of a batch; IOV_MAX is 1024.
inline constexpr std::uint32_t batch_pieces = 512;
/// Copied bytes after which TCP gets a batch; the last FPDU may exceed it.
inline constexpr std::uint32_t batch_copied = 128 << 10;
/// The same for all bytes, those of the process's memory included
inline constexpr std::uint32_t batch_length = 512 << 10;

/// Gives a batch memory to build FPDUs in. Returns false if there is none.
bool take_memory(kiw_batch &batch);
/// Takes it back, unless the batch holds something.
void leave_memory(kiw_batch &batch);
/// What TCP hasn't taken of a batch. Returns how many parts it has.
std::uint32_t rest_of(const kiw_batch &batch, iovec *parts);
/// Hands TCP what is left of a batch, with MSG_MORE or MSG_EOR if they are wanted. Returns 0 when it has all, -EAGAIN
/// when it has no room for the rest, or its error.
int push(kiw_batch &batch, int fd, int flags);
/// Has a batch hold nothing of the process's memory. Returns false if there is no memory; the batch is as it was then.
bool copy_lent(kiw_batch &batch);

/// Memory in which what a socket has received is taken apart, lent to streams while they hold something.
inline constexpr std::size_t stage_size = 256 << 10;
std::uint8_t *take_stage();
void leave_stage(std::uint8_t *stage);

} // namespace kiwu
