// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Direct verbs: records of messages, and validity of memory.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#pragma GCC visibility push(default)
#include "kiwarpdv.h"
#pragma GCC visibility pop

namespace {

constexpr std::uint64_t divide_up(std::uint64_t n, std::uint64_t by)
{
	return n / by + (n % by != 0);
}

/// Whether the segments of a bit have arrived; false beyond the last bit
bool arrived(const kiwarpdv_record &record, std::uint32_t bit)
{
	return record.map[bit / 64] >> bit % 64 & 1;
}

/// Reports runs of set or clear bits as bytes of the message.
int for_each(const kiwarpdv_record &record, bool wanted, kiwarpdv_range_fn tell, void *argument)
{
	if (record.unit == 0 || record.length == 0)
		return 0;
	const auto bits = static_cast<std::uint32_t>(
		std::min<std::uint64_t>(divide_up(record.segs, record.unit), KIWARPDV_MAP_BITS));
	const std::uint64_t step = std::uint64_t{record.unit} * record.seg_size;

	for (std::uint32_t bit = 0; bit < bits;) {
		const std::uint32_t first = bit;
		while (bit < bits && arrived(record, bit) == wanted)
			bit++;
		if (bit == first) {
			bit++;
			continue;
		}
		const std::uint64_t from = std::min<std::uint64_t>(first * step, record.length);
		const std::uint64_t to = std::min<std::uint64_t>(bit * step, record.length);
		if (from == to)
			break;
		if (const int result = tell(argument, record.addr + from, static_cast<std::uint32_t>(to - from)))
			return result;
	}
	return 0;
}

} // namespace

struct kiwarpdv_validity {
	std::uint64_t addr;
	std::uint64_t length;
	std::uint32_t granule;
	std::uint64_t *bits;

	std::uint64_t granules() const { return divide_up(length, granule); }
	bool get(std::uint64_t n) const { return bits[n / 64] >> n % 64 & 1; }
	void set(std::uint64_t n) { bits[n / 64] |= std::uint64_t{1} << n % 64; }
	void clear(std::uint64_t n) { bits[n / 64] &= ~(std::uint64_t{1} << n % 64); }

	/// Cuts a range to the inside, as offsets; false if nothing remains.
	bool clip(std::uint64_t from, std::uint64_t bytes, std::uint64_t &first, std::uint64_t &end) const
	{
		const std::uint64_t last = bytes - 1 > UINT64_MAX - from ? UINT64_MAX : from + (bytes - 1);

		if (bytes == 0 || last < addr || (from > addr && from - addr >= length))
			return false;
		first = from > addr ? from - addr : 0;
		end = std::min(last - addr, length - 1) + 1;
		return true;
	}

	/// Makes granules valid that lie in a range completely.
	void add(std::uint64_t from, std::uint64_t bytes)
	{
		std::uint64_t first = 0, end = 0;

		if (!clip(from, bytes, first, end))
			return;
		// The last granule may be short.
		const std::uint64_t until = end == length ? granules() : end / granule;
		for (std::uint64_t n = divide_up(first, granule); n < until; n++)
			set(n);
	}
};

int kiwarpdv_for_each_hole(const kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument)
{
	return for_each(*record, false, tell, argument);
}

int kiwarpdv_for_each_valid(const kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument)
{
	return for_each(*record, true, tell, argument);
}

kiwarpdv_validity *kiwarpdv_create_validity(std::uint64_t addr, std::uint64_t length, std::uint32_t granule)
{
	if (length == 0 || granule == 0 || length - 1 > UINT64_MAX - addr) {
		errno = EINVAL;
		return nullptr;
	}
	auto *validity = static_cast<kiwarpdv_validity *>(std::malloc(sizeof(kiwarpdv_validity)));
	if (!validity)
		return nullptr;
	*validity = {.addr = addr, .length = length, .granule = granule, .bits = nullptr};
	validity->bits =
		static_cast<std::uint64_t *>(std::calloc((validity->granules() - 1) / 64 + 1, sizeof(*validity->bits)));
	if (!validity->bits) {
		std::free(validity);
		return nullptr;
	}
	return validity;
}

void kiwarpdv_destroy_validity(kiwarpdv_validity *validity)
{
	if (validity)
		std::free(validity->bits);
	std::free(validity);
}

void kiwarpdv_add_record(kiwarpdv_validity *validity, const kiwarpdv_record *record)
{
	const auto add = [](void *argument, std::uint64_t addr, std::uint32_t length) {
		static_cast<kiwarpdv_validity *>(argument)->add(addr, length);
		return 0;
	};

	kiwarpdv_for_each_valid(record, add, validity);
}

bool kiwarpdv_is_valid(const kiwarpdv_validity *validity, std::uint64_t addr, std::uint64_t length)
{
	std::uint64_t first = 0, end = 0;

	if (length == 0)
		return true;
	if (!validity->clip(addr, length, first, end) || end - first != length)
		return false;
	for (std::uint64_t n = first / validity->granule; n <= (end - 1) / validity->granule; n++)
		if (!validity->get(n))
			return false;
	return true;
}

void kiwarpdv_invalidate(kiwarpdv_validity *validity, std::uint64_t addr, std::uint64_t length)
{
	std::uint64_t first = 0, end = 0;

	if (!validity->clip(addr, length, first, end))
		return;
	for (std::uint64_t n = first / validity->granule; n <= (end - 1) / validity->granule; n++)
		validity->clear(n);
}
