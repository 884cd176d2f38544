// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "region.hpp"

#include <cerrno>
#include <new>
#include <sys/random.h>

#include "mapped.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "proto/range.h"
#include "sys.hpp"
#include "table.hpp"

namespace kiwu {

namespace {

using Kind = kiw_region::Kind;

// How often a random index may hit one in use; about one in sixteen is, at most.
constexpr int tries = 64;

constinit Table<kiw_region> regions;
// Protects spares.
constinit kiw::Lock spares_lock;
constinit kiw_region *spares = nullptr;

void put(kiw_region &region)
{
	// remove_region() waits for the last one.
	if (region.uses.fetch_sub(1, std::memory_order_release) == 1)
		sys::call(SYS_futex, &region.uses, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

/// Waits for those that use it, when nobody else finds it any more.
void end_uses(kiw_region &region)
{
	put(region);
	while (const std::uint32_t uses = region.uses.load(std::memory_order_acquire))
		sys::call(SYS_futex, &region.uses, FUTEX_WAIT_PRIVATE, uses, nullptr, nullptr, 0);
}

/// By the index alone: the key has to be checked behind this. put() follows.
kiw_region *get(std::uint32_t stag)
{
	kiw_region *region = regions.find(stag >> 8);
	std::uint32_t uses = region ? region->uses.load(std::memory_order_relaxed) : 0;

	while (uses)
		if (region->uses.compare_exchange_weak(
			    uses, uses + 1, std::memory_order_acquire, std::memory_order_relaxed))
			return region;
	return nullptr;
}

void hold(kiw_region &region)
{
	if (region.is_window())
		region.lock.lock();
}

void let_go(kiw_region &region)
{
	if (region.is_window())
		region.lock.unlock();
}

/// Whether it is the region of that STag, for this QP. With another key, it is one that was here once.
kiw_region_fault check_owner(const kiw_region &region, const kiw_owner *owner, std::uint32_t stag)
{
	if (region.stag.load(std::memory_order_relaxed) != stag || !region.valid)
		return KIW_REGION_STAG;
	if (region.pd != owner->pd || (region.kind == Kind::window_2 && region.owner != owner))
		return KIW_REGION_PD;
	return KIW_REGION_OK;
}

/// Whether the program still has the memory
bool is_there(const kiw_region &region, int access, u64 addr, u32 len)
{
	constexpr int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	return is_usable(region.bytes + (addr - region.iova), len, access & writes);
}

kiw_region_fault check(
	const kiw_region &region, const kiw_owner *owner, std::uint32_t stag, int access, u64 addr, u64 len)
{
	if (const kiw_region_fault fault = check_owner(region, owner, stag))
		return fault;
	// What is local and reads needs no right, but a window is no buffer of a request.
	if ((region.access & access) != access || (!access && region.is_window()))
		return KIW_REGION_ACCESS;
	switch (kiw_range_check(region.iova, region.length, addr, len)) {
	case KIW_RANGE_OK:
		if (options.check && len && !is_there(region, access, addr, len))
			return KIW_REGION_BOUNDS;
		break;
	case KIW_RANGE_BOUNDS:
		return KIW_REGION_BOUNDS;
	case KIW_RANGE_WRAP:
		return KIW_REGION_WRAP;
	}
	return KIW_REGION_OK;
}

// --- windows --------------------------------------------------------------------------------------

// Rights that a window may have: those of peers. A local one is ignored, as optional flags are.
constexpr int window_rights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t window_access =
	std::uint32_t{window_rights} | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;

/// A window is no longer bound to a region: all uses of the window have ended.
void leave(kiw_region *parent)
{
	if (parent)
		parent->windows.fetch_sub(1, std::memory_order_release);
}

/// Withdraws a window, the lock of which is held. Returns what counts it no more, or nullptr.
kiw_region *withdraw(kiw_region &window)
{
	kiw_region *parent = window.parent;

	window.valid = false;
	window.parent = nullptr;
	if (parent && window.kind == Kind::window_2) {
		kiw::Guard guard(window.pd->lock);
		kiw_region **link = &window.pd->windows;

		while (*link != &window)
			link = &(*link)->next_window;
		*link = window.next_window;
	}
	return parent;
}

/// Counts a window in what it is to be bound to.
kiw_region_fault join(kiw_region &region, const kiw_owner *owner, const kiw_bind_args &args)
{
	int access = IBV_ACCESS_MW_BIND;
	std::int32_t windows = region.windows.load(std::memory_order_relaxed);

	if (args.access & ~window_access)
		return KIW_REGION_ACCESS;
	if (args.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (region.is_window())
		return KIW_REGION_STAG;
	if (const kiw_region_fault fault = check(region, owner, args.lkey, access, args.addr, args.length))
		return fault;
	while (windows >= 0)
		if (region.windows.compare_exchange_weak(
			    windows, windows + 1, std::memory_order_acquire, std::memory_order_relaxed))
			return KIW_REGION_OK;
	return KIW_REGION_STAG;
}

/// Whether this QP may bind the window, the lock of which is held.
kiw_region_fault check_bind(const kiw_region &window, const kiw_owner *owner, const kiw_bind_args &args)
{
	if (window.pd != owner->pd)
		return KIW_REGION_PD;
	if (window.kind == Kind::window_2 && window.valid)
		return KIW_REGION_ACCESS;
	if (window.kind == Kind::window_2 && !args.length)
		return KIW_REGION_BOUNDS;
	return KIW_REGION_OK;
}

/// Makes a window, the lock of which is held, a part of a region, or of nothing.
void set(kiw_region &window, const kiw_owner *owner, std::uint32_t stag, const kiw_bind_args &args, kiw_region *parent)
{
	window.stag.store(stag, std::memory_order_relaxed);
	if (!parent)
		return;
	window.bytes = parent->bytes + (args.addr - parent->iova);
	window.access = static_cast<int>(args.access) & window_rights;
	window.iova = args.access & IBV_ACCESS_ZERO_BASED ? 0 : args.addr;
	window.length = args.length;
	window.parent = parent;
	window.owner = owner;
	if (window.kind == Kind::window_2) {
		kiw::Guard guard(window.pd->lock);

		window.next_window = window.pd->windows;
		window.pd->windows = &window;
	}
	window.valid = true;
}

kiw_region_fault bind_window(kiw_region &window, const kiw_owner *owner, std::uint32_t stag, const kiw_bind_args &args)
{
	kiw_region *parent = nullptr, *before = nullptr;

	if (args.length) {
		parent = get(args.lkey);
		const kiw_region_fault fault = parent ? join(*parent, owner, args) : KIW_REGION_STAG;
		if (parent)
			put(*parent);
		if (fault)
			return fault;
	}
	window.lock.lock();
	const kiw_region_fault fault = check_bind(window, owner, args);
	if (!fault) {
		before = withdraw(window);
		set(window, owner, stag, args, parent);
	}
	window.lock.unlock();
	leave(fault ? parent : before);
	return fault;
}

/// again: one that is invalid already, but has this key, is fine.
kiw_region_fault invalidate(const kiw_owner *owner, std::uint32_t stag, bool again)
{
	kiw_region *region = get(stag);
	kiw_region *parent = nullptr;

	if (!region)
		return KIW_REGION_STAG;
	hold(*region);
	kiw_region_fault fault = check_owner(*region, owner, stag);
	if (!fault && region->kind != Kind::window_2)
		fault = KIW_REGION_ACCESS;
	if (!fault)
		parent = withdraw(*region);
	else if (again && region->kind == Kind::window_2 && !region->valid && region->stag == stag &&
		 region->pd == owner->pd)
		fault = KIW_REGION_OK;
	let_go(*region);
	leave(parent);
	put(*region);
	return fault;
}

} // namespace

// --- life -----------------------------------------------------------------------------------------

kiw_region *make_region()
{
	{
		kiw::Guard guard(spares_lock);

		if (kiw_region *region = spares) {
			spares = region->next_free;
			return region;
		}
	}
	return kiw::make<kiw_region>().release();
}

void free_region(kiw_region &region)
{
	kiw::Guard guard(spares_lock);

	region.next_free = spares;
	spares = &region;
}

/// Indexes are spread at random over the whole space, and keys are random too, so that neither a guess nor a stale STag
/// finds a region (RFC 5042 section 8.1.1). Index 0 isn't used: STag 0 is never good.
int add_region(kiw_region &region)
{
	int error = EBUSY;

	region.windows.store(0, std::memory_order_relaxed);
	// Once: a thread that looked for the object's last region may count itself in the meantime.
	region.uses.store(1, std::memory_order_release);
	for (int i = 0; error == EBUSY && i < tries; i++) {
		std::uint32_t stag = 0;

		if (::getrandom(&stag, sizeof(stag), 0) != sizeof(stag)) {
			error = errno;
			break;
		}
		if (!(stag >> 8))
			continue;
		region.stag.store(stag, std::memory_order_relaxed);
		error = regions.insert(stag >> 8, &region);
	}
	if (error)
		end_uses(region);
	return error == EBUSY ? ENOSPC : error;
}

void replace_region(const kiw_region &before, kiw_region &region)
{
	region.windows.store(0, std::memory_order_relaxed);
	region.stag.store(before.stag.load(std::memory_order_relaxed), std::memory_order_relaxed);
	region.uses.store(1, std::memory_order_release);
	regions.replace(region.stag.load(std::memory_order_relaxed) >> 8, &region);
}

void remove_region(kiw_region &region)
{
	const std::uint32_t index = region.stag.load(std::memory_order_relaxed) >> 8;

	if (regions.find(index) == &region)
		regions.remove(index);
	end_uses(region);
}

kiw_region *find_region(std::uint32_t stag)
{
	return regions.find(stag >> 8);
}

void forget_regions()
{
	regions.begin_anew();
	spares_lock.~Lock();
	::new (&spares_lock) kiw::Lock;
	spares = nullptr;
}

bool close_region(kiw_region &region)
{
	std::int32_t none = 0;

	return region.windows.compare_exchange_strong(none, kiw_region::goes, std::memory_order_acquire) ||
	       none == kiw_region::goes;
}

void reopen_region(kiw_region &region)
{
	region.windows.store(0, std::memory_order_release);
}

void unbind(kiw_region &window)
{
	window.lock.lock();
	kiw_region *parent = withdraw(window);
	window.lock.unlock();
	leave(parent);
}

void unbind_all(const kiw_owner &owner)
{
	for (;;) {
		kiw_region *window = nullptr;
		{
			kiw::Guard guard(owner.pd->lock);

			for (window = owner.pd->windows; window && window->owner != &owner;)
				window = window->next_window;
			// It may be going at the same time: what keeps it is a use.
			if (!window)
				return;
			window = get(window->stag.load(std::memory_order_relaxed));
		}
		if (!window) {
			sys::yield();
			continue;
		}
		window->lock.lock();
		kiw_region *parent = window->kind == Kind::window_2 && window->owner == &owner && window->valid
					     ? withdraw(*window)
					     : nullptr;
		window->lock.unlock();
		leave(parent);
		put(*window);
	}
}

} // namespace kiwu

// --- what the session calls -----------------------------------------------------------------------

kiw_region_fault kiw_region_begin(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len, kiw_region_use *use)
{
	use->region = kiwu::get(stag);
	if (!use->region)
		return KIW_REGION_STAG;
	kiwu::hold(*use->region);
	const kiw_region_fault fault = kiwu::check(*use->region, owner, stag, access, addr, len);
	if (fault)
		kiw_region_end(use);
	return fault;
}

kiw_region_fault kiw_region_check(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len)
{
	kiw_region_use use{};
	const kiw_region_fault fault = kiw_region_begin(owner, stag, access, addr, len, &use);

	if (!fault)
		kiw_region_end(&use);
	return fault;
}

void kiw_region_end(kiw_region_use *use)
{
	kiwu::let_go(*use->region);
	kiwu::put(*use->region);
}

kiw_region_fault kiw_region_go_on(const kiw_owner *owner, u32 stag, int access, u64 addr, u32 len, kiw_region_use *use)
{
	if (use->region && !kiwu::check(*use->region, owner, stag, access, addr, len))
		return KIW_REGION_OK;
	kiwu::leave_use(*use);
	const kiw_region_fault fault = kiw_region_begin(owner, stag, access, addr, len, use);
	if (fault)
		use->region = nullptr;
	return fault;
}

void kiw_region_set_aside(kiw_region_use *use)
{
	if (use->region->is_window())
		kiwu::leave_use(*use);
}

kiw_region_fault kiw_region_invalidate(const kiw_owner *owner, u32 stag)
{
	return kiwu::invalidate(owner, stag, false);
}

kiw_region_fault kiw_region_invalidate_own(const kiw_owner *owner, u32 stag)
{
	return kiwu::invalidate(owner, stag, true);
}

kiw_region_fault kiw_region_bind(const kiw_owner *owner, u32 stag, const kiw_bind_args *args)
{
	kiw_region *window = kiwu::get(stag);

	if (!window)
		return KIW_REGION_STAG;
	const kiw_region_fault fault =
		window->is_window() ? kiwu::bind_window(*window, owner, stag, *args) : KIW_REGION_STAG;
	kiwu::put(*window);
	return fault;
}

u64 kiw_region_offset(const kiw_region *region, u64 addr)
{
	return reinterpret_cast<std::uintptr_t>(region->bytes) + (addr - region->iova);
}

void *kiw_region_chunk(const kiw_region *region, u64 addr, u32 *)
{
	return region->bytes + (addr - region->iova);
}
