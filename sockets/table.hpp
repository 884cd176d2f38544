// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// From descriptors of the program to sockets. Most have none: looking up takes no lock.
#pragma once

#include <atomic>
#include <cstdlib>
#include <utility>

#include "socket.hpp"

namespace kiws {

/// A use of a socket
class [[nodiscard]] Use {
public:
	explicit Use(Socket *socket = nullptr) : socket_(socket) {}
	~Use()
	{
		if (socket_)
			socket_->put();
	}
	Use(Use &&other) noexcept : socket_(other.socket_) { other.socket_ = nullptr; }
	Use(const Use &) = delete;
	Use &operator=(const Use &) = delete;
	Use &operator=(Use &&other) noexcept
	{
		std::swap(socket_, other.socket_);
		return *this;
	}
	explicit operator bool() const { return socket_; }
	Socket *operator->() const { return socket_; }
	Socket &operator*() const { return *socket_; }

private:
	Socket *socket_;
};

class Table {
public:
	/// The socket of a descriptor, or none
	Use find(int fd)
	{
		for (;;) {
			std::atomic<Socket *> *place = place_of(fd);
			Socket *socket = place ? place->load(std::memory_order_acquire) : nullptr;

			if (!socket)
				return Use();
			// It may have gone meanwhile, and be another's now.
			if (!socket->get())
				continue;
			if (place->load(std::memory_order_acquire) == socket)
				return Use(socket);
			socket->put();
		}
	}

	/// A descriptor has a socket now; the table takes a use of it, and sets before to the use that it had. Returns
	/// false without memory, or beyond its size.
	bool add(int fd, Socket &socket, Use &before);
	/// A descriptor has none any more. Returns the use that the table had.
	Use remove(int fd)
	{
		std::atomic<Socket *> *place = place_of(fd);

		return Use(place ? place->exchange(nullptr, std::memory_order_acq_rel) : nullptr);
	}

	/// Calls a function with each descriptor and its socket.
	template <typename Function>
	void for_each(const Function &function)
	{
		for (int fd = 0; fd < most; fd = (fd | 1023) + 1) {
			if (!chunks_[fd >> 10].load(std::memory_order_acquire))
				continue;
			for (int i = fd; i < fd + 1024; i++)
				if (const Use use = find(i))
					function(i, *use);
		}
	}

private:
	static constexpr int most = 1 << 20;
	struct Chunk {
		std::atomic<Socket *> place[1024];
	};

	std::atomic<Socket *> *place_of(int fd)
	{
		Chunk *chunk = fd >= 0 && fd < most ? chunks_[fd >> 10].load(std::memory_order_acquire) : nullptr;

		return chunk ? &chunk->place[fd & 1023] : nullptr;
	}

	std::atomic<Chunk *> chunks_[most >> 10] = {};
};

extern Table table;

inline bool Table::add(int fd, Socket &socket, Use &before)
{
	if (fd < 0 || fd >= most)
		return false;
	std::atomic<Chunk *> &place = chunks_[fd >> 10];
	if (!place.load(std::memory_order_acquire)) {
		auto *chunk = static_cast<Chunk *>(std::calloc(1, sizeof(Chunk)));
		Chunk *none = nullptr;

		if (!chunk)
			return false;
		if (!place.compare_exchange_strong(none, chunk))
			std::free(chunk);
	}
	before = Use(place_of(fd)->exchange(&socket, std::memory_order_acq_rel));
	return true;
}

} // namespace kiws
