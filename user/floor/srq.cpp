// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "srq.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>

#include "rings.hpp"

namespace kiwu {

namespace {

/// Whether there is a request that isn't set aside. Nonsense counts as one: taking it finds that out.
bool has_spare(Srq &srq)
{
	kiw_rq &rq = srq.rq;

	if (rq.posted - rq.next <= srq.granted)
		rq.posted = kiw_ring_prod(&rq.map);
	return rq.posted - rq.next > srq.granted;
}

void take_out(Srq &srq, const SrqWait &wait)
{
	for (SrqWait **link = &srq.line; *link; link = &(*link)->next)
		if (*link == &wait) {
			*link = wait.next;
			return;
		}
}

/// Gives rights to the streams in line, as far as there are requests.
void grant(Srq &srq)
{
	while (srq.line && has_spare(srq)) {
		SrqWait &first = *srq.line;

		srq.line = first.next;
		first.waits = false;
		first.granted = true;
		srq.granted++;
		first.wake(first);
	}
	if (!srq.line)
		kiw_rq_open(&srq.rq);
}

/// Whether a request may be taken now. A right is used up by that.
bool admits(Srq &srq, SrqWait &wait)
{
	if (wait.granted) {
		wait.granted = false;
		srq.granted--;
		return true;
	}
	return !srq.line && has_spare(srq);
}

/// Stands in line. Returns whether there is a request by now.
bool stand(Srq &srq, SrqWait &wait)
{
	if (!wait.waits) {
		SrqWait **link = &srq.line;

		while (*link)
			link = &(*link)->next;
		wait.next = nullptr;
		wait.waits = true;
		*link = &wait;
	}
	// What is posted before the process could see that is found by this look.
	kiw_rq_call(&srq.rq);
	grant(srq);
	return admits(srq, wait);
}

/// Whether fewer requests are left than the process wants to know of.
bool reaches_limit(Srq &srq)
{
	if (!srq.limit || kiw_ring_prod(&srq.rq.map) - srq.rq.next >= srq.limit)
		return false;
	srq.limit = 0;
	return true;
}

} // namespace

int Srq::make(std::uint32_t entries, std::uint32_t max_sge)
{
	rq.entries = roundup_pow_of_two(entries);
	rq.max_sge = static_cast<u8>(std::max(max_sge, 1U));
	return make_ring(rq.map, rq.entries, kiw_rq_stride(rq.max_sge)) ? 0 : ENOMEM;
}

void Srq::free()
{
	free_ring(rq.map);
}

kiw_take Srq::take(SrqWait &wait, kiw_recv_req &request)
{
	kiw_take taken = KIW_TAKE_NONE;
	bool few = false, died = false;
	{
		kiw::Guard guard(lock);

		if (admits(*this, wait) || stand(*this, wait))
			taken = kiw_rq_take(&rq, &request);
		if (taken == KIW_TAKE_RING) {
			died = !dead;
			dead = true;
		} else if (taken != KIW_TAKE_NONE) {
			few = reaches_limit(*this);
		}
	}
	if (few)
		raise(*this, IBV_EVENT_SRQ_LIMIT_REACHED);
	if (died)
		raise(*this, IBV_EVENT_SRQ_ERR);
	return taken;
}

void Srq::leave(SrqWait &wait)
{
	kiw::Guard guard(lock);

	if (wait.waits)
		take_out(*this, wait);
	wait.waits = false;
	if (wait.granted) {
		wait.granted = false;
		granted--;
	}
	grant(*this);
}

int Srq::resize(std::uint32_t entries)
{
	kiw_ring_map map;
	int error = EINVAL;

	entries = roundup_pow_of_two(entries);
	if (!make_ring(map, entries, rq.map.stride))
		return ENOMEM;
	{
		kiw::Guard guard(lock);
		const std::uint32_t prod = kiw_ring_prod(&rq.map);

		if (prod - rq.next <= std::min(entries, rq.entries)) {
			auto &to = *static_cast<kiw_wq_ring *>(map.mem);

			for (std::uint32_t i = rq.next; i != prod; i++)
				std::memcpy(kiw_ring_slot(&map, i, entries), kiw_ring_slot(&rq.map, i, rq.entries),
					map.stride);
			to.prod = prod;
			to.cons = rq.next;
			std::swap(rq.map, map);
			rq.entries = entries;
			if (line)
				kiw_rq_call(&rq);
			error = 0;
		}
	}
	free_ring(map);
	return error;
}

int Srq::set_limit(std::uint32_t wanted)
{
	bool few = false;
	{
		kiw::Guard guard(lock);

		if (wanted > rq.entries)
			return EINVAL;
		limit = wanted;
		few = reaches_limit(*this);
	}
	if (few)
		raise(*this, IBV_EVENT_SRQ_LIMIT_REACHED);
	return 0;
}

void Srq::query(std::uint32_t &entries, std::uint32_t &wanted)
{
	kiw::Guard guard(lock);

	entries = rq.entries;
	wanted = limit;
}

void Srq::doorbell()
{
	kiw::Guard guard(lock);

	grant(*this);
}

} // namespace kiwu
