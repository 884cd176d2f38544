// SPDX-License-Identifier: GPL-2.0
// libFuzzer's side, and inputs that are read like a file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "model.hpp"

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
}

class Input {
public:
	Input(const uint8_t *data, size_t size) : octets(data, size) {}

	// Zero where there is no more
	uint64_t number(size_t n)
	{
		uint64_t value = 0;

		for (; n; n--) {
			value <<= 8;
			if (octets.empty())
				continue;
			value |= octets[0];
			octets = octets.subspan(1);
		}
		return value;
	}
	uint8_t u8() { return uint8_t(number(1)); }
	uint16_t u16() { return uint16_t(number(2)); }
	uint32_t u32() { return uint32_t(number(4)); }
	uint64_t u64() { return number(8); }
	Bytes some(size_t n)
	{
		n = std::min(n, octets.size());
		Bytes b(octets.begin(), octets.begin() + ptrdiff_t(n));
		octets = octets.subspan(n);
		return b;
	}
	Bytes rest() { return some(octets.size()); }
	bool empty() const { return octets.empty(); }

private:
	model::Octets octets;
};
