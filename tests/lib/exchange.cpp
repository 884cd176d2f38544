// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "exchange.hpp"

#include <algorithm>

namespace faults {

End::End(std::unique_ptr<vt::Side> side, std::size_t octets)
	: side_(std::move(side)),
	  octets_(octets),
	  out_(side_->pd(), num_parts * octets),
	  in_(side_->pd(), num_parts * octets),
	  posted_(num_parts * octets)
{
}

int End::prepare(std::uint32_t seed)
{
	out_.fill_pattern(seed);
	std::ranges::copy(out_.bytes(), posted_.begin());
	in_.fill(0);
	completed_ = 0;
	return side_->receive({in_.sge(sent * octets_, octets_)}, sent);
}

int End::post(const End &peer)
{
	int error = side_->send({out_.sge(sent * octets_, octets_)}, {.id = sent});

	if (!error)
		error = side_->write({out_.sge(written * octets_, octets_)},
			{.id = written, .remote = peer.in_.address(written * octets_), .rkey = peer.in_.rkey()});
	// The last: when it is done, the Write is too.
	if (!error)
		error = side_->read({in_.sge(read_back * octets_, octets_)},
			{.id = read_back, .remote = peer.out_.address(readable * octets_), .rkey = peer.out_.rkey()});
	return error;
}

bool End::poll()
{
	for (ibv_cq *cq : {side_->send_cq(), side_->recv_cq()})
		for (const ibv_wc &wc : vt::poll_all(cq)) {
			failed_ |= wc.status != IBV_WC_SUCCESS;
			if (cq == side_->send_cq() && wc.wr_id != read_back)
				overwrite(wc.wr_id);
			completed_++;
		}
	return !failed_;
}

void End::overwrite(std::size_t part) const
{
	for (auto &octet : out_.bytes(part * octets_, octets_))
		octet = static_cast<std::uint8_t>(~octet);
}

void End::check_part(Part mine, const End &peer, Part theirs, bool broken, const char *what) const
{
	const auto got = in_.bytes(mine * octets_, octets_);
	const auto wanted = std::span(peer.posted_).subspan(theirs * octets_, octets_);

	for (std::size_t i = 0; i < octets_; i++)
		if (got[i] != wanted[i] && (!broken || got[i] != 0))
			vt::fail("octet " + std::to_string(i) + " of a " + what + " is wrong");
}

void End::check(const End &peer, bool broken) const
{
	check_part(sent, peer, sent, broken, "Send");
	check_part(written, peer, written, broken, "Write");
	check_part(read_back, peer, readable, broken, "Read");
}

} // namespace faults
