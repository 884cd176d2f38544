// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The two directions of a connection: which octets come by TCP, and which by the lane. A direction begins on TCP, may
// enter the lane once, and may leave it once. Only arithmetic: no octet is copied here, and nothing waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "notice.hpp"

namespace kiws {

using Offset = std::uint64_t;

inline constexpr Offset never = UINT64_MAX;

/// A piece of a ring without its end in between
struct Piece {
	std::size_t position, length;
};

/// Where an octet of the lane lies in a ring: the first one at its beginning
inline Piece piece_of(Offset entered, Offset offset, std::size_t length, std::size_t ring)
{
	const std::size_t position = (offset - entered) % ring;

	return {position, std::min(length, ring - position)};
}

/// The direction in which this end sends
class Outgoing {
public:
	Offset offset() const { return offset_; }
	bool on_lane() const { return entered_ != never && left_ == never; }
	bool has_left() const { return left_ != never; }
	Offset entered() const { return entered_; }
	Offset consumed() const { return consumed_; }

	/// Whether octets may go by TCP. Behind those of a lane they have to wait until the peer knows of the lane: it
	/// would take them for earlier ones.
	bool on_tcp() const { return entered_ == never || (left_ != never && answered_); }
	bool answered() const { return answered_; }

	/// Octets that the ring of the peer can take
	std::size_t room(std::size_t ring) const
	{
		return on_lane() ? ring - static_cast<std::size_t>(offset_ - consumed_) : 0;
	}

	/// What the next notice says: the end of what the peer has by the lane
	Offset written() const { return entered_ == never ? 0 : std::min(offset_, left_); }

	void sent(std::size_t octets) { offset_ += octets; }

	void enter()
	{
		entered_ = offset_;
		consumed_ = offset_;
	}

	void leave() { left_ = offset_; }

	/// The peer has said how far its program is. Returns false if that can't be.
	bool apply(const Notice &notice)
	{
		if (entered_ == never)
			return notice.consumed == 0 && !notice.answer;
		answered_ = answered_ || notice.answer;
		if (notice.consumed < consumed_) // said before this direction has entered: nothing then
			return notice.consumed == 0 && consumed_ == entered_;
		if (notice.consumed > std::min(offset_, left_))
			return false;
		consumed_ = notice.consumed;
		return true;
	}

private:
	Offset offset_ = 0;
	Offset entered_ = never, left_ = never;
	Offset consumed_ = 0;
	bool answered_ = false;
};

/// The direction in which this end receives
class Incoming {
public:
	Offset offset() const { return offset_; }
	Offset entered() const { return entered_; }

	/// Octets in the ring that the program has not taken
	std::size_t waiting() const
	{
		if (entered_ == never || offset_ < entered_ || offset_ >= written_)
			return 0;
		return static_cast<std::size_t>(written_ - offset_);
	}

	/// Octets that the program may take from TCP now
	std::uint64_t from_tcp() const
	{
		if (offset_ < entered_)
			return std::min(entered_, fin_) - offset_;
		return left_ != never && offset_ >= left_ ? fin_ - offset_ : 0;
	}

	/// Whether the peer has ended this direction, and the program has all of it
	bool ended() const { return offset_ == fin_; }
	bool ends() const { return fin_ != never; }
	/// Whether all further octets come by TCP
	bool has_left() const { return left_ != never; }

	void taken(std::size_t octets) { offset_ += octets; }

	/// What the next notice says
	Offset consumed() const { return entered_ == never || offset_ < entered_ ? told_ : std::min(offset_, left_); }
	void told()
	{
		told_ = consumed();
		answered_ = entered_ != never;
	}
	/// Whether the peer doesn't know yet that its ENTER has come
	bool owes_answer() const { return entered_ != never && !answered_; }
	/// Octets that the program has taken out of the ring, and of which the peer doesn't know
	std::size_t untold() const { return static_cast<std::size_t>(consumed() - told_); }

	/// The octets behind a notice come into the ring at written(), before it is applied.
	Offset written() const { return written_; }

	/// Whether a notice can be, with a ring of that size
	bool can_be(const Notice &notice, std::size_t ring) const
	{
		if (notice.kind == Notice::enter) {
			if (entered_ != never || notice.argument < offset_ || notice.argument > limit ||
				notice.length != 0)
				return false;
			return notice.written == notice.argument && fin_ == never;
		}
		if (entered_ == never ? notice.written != 0 || notice.length != 0 : !goes_on(notice, ring))
			return false;
		if (notice.kind == Notice::leave)
			return entered_ != never && left_ == never && notice.argument == notice.written &&
			       fin_ == never;
		if (notice.kind == Notice::fin)
			return fin_ == never && notice.argument <= limit && is_end(notice);
		return notice.kind != Notice::ask_leave || notice.argument == 0;
	}

	/// Applies one that can be.
	void apply(const Notice &notice)
	{
		if (notice.kind == Notice::enter) {
			entered_ = notice.argument;
			told_ = entered_;
		}
		written_ = notice.written;
		if (notice.kind == Notice::leave)
			left_ = notice.argument;
		if (notice.kind == Notice::fin)
			fin_ = notice.argument;
	}

private:
	// No connection has so many octets.
	static constexpr Offset limit = never >> 1;

	bool goes_on(const Notice &notice, std::size_t ring) const
	{
		if (notice.written < written_ || notice.written > limit || notice.length > notice.written - written_)
			return false;
		if (left_ != never || fin_ != never)
			return notice.written == written_;
		return notice.written - told_ <= ring;
	}

	/// Whether a direction can end there: on the lane, with its last octet
	bool is_end(const Notice &notice) const
	{
		if (entered_ != never && left_ == never)
			return notice.argument == notice.written;
		return notice.argument >= std::max(offset_, entered_ == never ? 0 : left_);
	}

	Offset offset_ = 0;
	Offset entered_ = never, left_ = never, fin_ = never;
	Offset written_ = 0; // of the lane
	Offset told_ = 0;
	bool answered_ = false;
};

} // namespace kiws
