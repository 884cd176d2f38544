// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Numbers by a seed: the same ones on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace storm {

class Random {
public:
	/// Several words make one seed.
	explicit Random(std::initializer_list<std::uint32_t> words) : engine_(seeded(words)) {}
	/// An independent generator: its use doesn't change this one.
	Random child() { return Random({word(), word()}); }

	std::uint64_t any() { return engine_(); }
	std::uint32_t word() { return static_cast<std::uint32_t>(engine_() >> 32); }
	std::uint8_t octet() { return static_cast<std::uint8_t>(engine_() >> 56); }
	/// 0 .. limit-1; 0 for a limit of 0.
	std::uint32_t below(std::uint32_t limit) { return limit ? word() % limit : 0; }
	std::uint32_t between(std::uint32_t least, std::uint32_t most) { return least + below(most - least + 1); }
	bool one_in(std::uint32_t n) { return below(n) == 0; }

	template <typename T, std::size_t n>
	const T &pick(const std::array<T, n> &choice)
	{
		return choice.at(below(n));
	}

	/// What an index or a length must not be, but often is in an attack: near, far, at the edges.
	std::uint32_t nonsense(std::uint32_t near)
	{
		switch (below(8)) {
		case 0:
			return near - 1;
		case 1:
			return near + 1;
		case 2:
			return near + 0x80000000U;
		case 3:
			return 0xffffffffU - below(4);
		case 4:
			return 1U << below(32);
		case 5:
			return near * 2;
		case 6:
			return near ^ (1U << below(32));
		default:
			return word();
		}
	}

	void fill(std::span<std::uint8_t> octets)
	{
		for (std::uint8_t &o : octets)
			o = octet();
	}

private:
	static std::mt19937_64 seeded(std::initializer_list<std::uint32_t> words)
	{
		std::seed_seq sequence(words);
		return std::mt19937_64(sequence);
	}

	std::mt19937_64 engine_;
};

} // namespace storm
