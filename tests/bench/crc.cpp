// SPDX-License-Identifier: GPL-2.0
// Ways to copy octets and to have their CRC32C, timed on this machine itself: neither kind of guest can tell, one
// having only the table, the other emulating the instruction. ISA-L's function stands for that of a real x86 kernel,
// which uses carry-less multiplication as well; "rep movsb" is how such a kernel copies.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iomanip>
#include <iostream>
#include <isa-l/crc.h>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Octet = unsigned char;
using Clock = std::chrono::steady_clock;

void copy(Octet *to, const Octet *from, std::size_t n)
{
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
}

/// Pieces are read back for the CRC while they are cached, and copied in smaller ones, if @p least is less: the next of
/// them is asked for then, as the module does.
std::uint32_t by_pieces(
	std::uint32_t crc, Octet *to, const Octet *from, std::size_t n, std::size_t piece, std::size_t least)
{
	while (n > 0) {
		const std::size_t run = std::min(n, piece);

		for (std::size_t at = 0; at < run; at += least) {
			if (least < piece)
				for (std::size_t next = at + least; next < std::min(n, at + 2 * least); next += 64)
					__builtin_prefetch(to + next, 1);
			copy(to + at, from + at, std::min(run - at, least));
		}
		crc = crc32_iscsi(to, int(run), crc);
		to += run;
		from += run;
		n -= run;
	}
	return crc;
}

std::uint64_t add8(std::uint64_t crc, std::uint64_t octets)
{
	asm("crc32q %1, %0" : "+r"(crc) : "rm"(octets));
	return crc;
}

std::uint32_t add1(std::uint32_t crc, Octet octet)
{
	asm("crc32b %1, %0" : "+r"(crc) : "rm"(octet));
	return crc;
}

std::uint64_t move8(Octet *to, const Octet *from)
{
	std::uint64_t octets;

	std::memcpy(&octets, from, sizeof(octets));
	std::memcpy(to, &octets, sizeof(octets));
	return octets;
}

/// One pass that copies and has the CRC by the processor's instruction, three runs of octets side by side: its result
/// is there after three cycles, and each cycle can begin another.
class Fused {
public:
	Fused()
	{
		for (std::size_t i = 0; i < runs.size(); i++)
			for (unsigned octet = 0; octet < 4; octet++)
				for (std::uint32_t value = 0; value < 256; value++) {
					std::uint64_t crc = value << 8 * octet;

					for (std::size_t k = 0; k < runs[i]; k += 8)
						crc = add8(crc, 0);
					zeros_[i][octet][value] = std::uint32_t(crc);
				}
	}
	std::uint32_t operator()(std::uint32_t crc, Octet *to, const Octet *from, std::size_t n) const
	{
		for (std::size_t i = 0; i < runs.size(); i++)
			for (; n >= 3 * runs[i]; n -= 3 * runs[i], to += 3 * runs[i], from += 3 * runs[i])
				crc = three(crc, to, from, i);
		for (; n >= 8; n -= 8, to += 8, from += 8)
			crc = std::uint32_t(add8(crc, move8(to, from)));
		for (; n > 0; n--)
			crc = add1(crc, *to++ = *from++);
		return crc;
	}

private:
	static constexpr std::array<std::size_t, 3> runs{1024, 336, 64};

	std::uint32_t three(std::uint64_t a, Octet *to, const Octet *from, std::size_t i) const
	{
		const std::size_t run = runs[i];
		std::uint64_t b = 0, c = 0;

		for (std::size_t k = 0; k < run; k += 8) {
			a = add8(a, move8(to + k, from + k));
			b = add8(b, move8(to + run + k, from + run + k));
			c = add8(c, move8(to + 2 * run + k, from + 2 * run + k));
		}
		return shift(shift(std::uint32_t(a), i) ^ std::uint32_t(b), i) ^ std::uint32_t(c);
	}
	/// The checksum @p crc after as many octets of zero as such a run has
	[[nodiscard]] std::uint32_t shift(std::uint32_t crc, std::size_t i) const
	{
		const auto &table = zeros_[i];

		return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^
		       table[3][crc >> 24];
	}

	std::array<std::array<std::array<std::uint32_t, 256>, 4>, runs.size()> zeros_{};
};

struct Way {
	std::string name;
	std::function<std::uint32_t(Octet *, const Octet *, std::size_t)> run;
	bool has_crc = true;
};

std::vector<Way> all_ways()
{
	std::vector<Way> ways{{"copy alone",
		[](Octet *to, const Octet *from, std::size_t n) {
			copy(to, from, n);
			return 0U;
		},
		false}};

	for (const std::size_t piece : {1024, 2048, 4096, 8192, 65536})
		ways.push_back(
			{"pieces of " + std::to_string(piece), [piece](Octet *to, const Octet *from, std::size_t n) {
				 return by_pieces(~0U, to, from, n, piece, piece);
			 }});
	// The module's way: kmod/proto/crc.c
	ways.push_back({"4096 copied by 1024", [](Octet *to, const Octet *from, std::size_t n) {
				return by_pieces(~0U, to, from, n, 4096, 1024);
			}});
	ways.push_back({"one pass", [fused = Fused()](Octet *to, const Octet *from, std::size_t n) {
				return fused(~0U, to, from, n);
			}});
	return ways;
}

/// Throws unless all ways copy what there is, and agree about the CRC.
void compare(const std::vector<Way> &ways)
{
	std::mt19937 random{std::random_device{}()};
	std::vector<Octet> from(70000), to(from.size());

	std::generate(from.begin(), from.end(), [&] { return Octet(random()); });
	for (int i = 0; i < 300; i++) {
		const std::size_t skip = random() % 64, n = random() % (from.size() - skip);
		const std::uint32_t expected = crc32_iscsi(&from[skip], int(n), ~0U);

		for (const Way &way : ways) {
			std::fill(to.begin(), to.end(), Octet(0));
			const std::uint32_t crc = way.run(to.data(), &from[skip], n);

			if ((way.has_crc && crc != expected) || !std::equal(&from[skip], &from[skip + n], to.begin()) ||
				std::any_of(to.begin() + std::ptrdiff_t(n), to.end(), [](Octet o) { return o != 0; }))
				throw std::runtime_error(way.name + ": wrong for " + std::to_string(n) + " octets");
		}
	}
}

/// GB/s of messages of @p octets, one behind the other through @p span octets, @p moved octets in all
double speed(const Way &way, std::size_t octets, std::size_t span, std::size_t moved, std::vector<Octet> &to,
	const std::vector<Octet> &from)
{
	std::uint32_t crc = 0;
	const auto start = Clock::now();

	for (std::size_t done = 0, at = 0; done < moved; done += octets) {
		crc ^= way.run(&to[at], &from[at], octets);
		at = at + 2 * octets <= span ? at + octets : 0;
	}
	const std::chrono::duration<double> took = Clock::now() - start;

	asm volatile("" ::"r"(crc));
	return double(moved) / took.count() / 1e9;
}

void measure(const std::vector<Way> &ways, unsigned repetitions, std::size_t cold)
{
	std::vector<Octet> from(cold, Octet(1)), to(cold, Octet(2));

	std::cout << "| octets | memory |";
	for (const Way &way : ways)
		std::cout << ' ' << way.name << " |";
	std::cout << "\n|---:|---|";
	for (std::size_t i = 0; i < ways.size(); i++)
		std::cout << "---:|";
	std::cout << '\n' << std::fixed << std::setprecision(1);
	for (std::size_t octets = 64; octets <= 65536; octets *= 4)
		for (const bool warm : {true, false}) {
			std::vector<std::vector<double>> speeds(ways.size());

			for (unsigned rep = 0; rep < repetitions; rep++)
				for (std::size_t i = 0; i < ways.size(); i++)
					speeds[i].push_back(
						speed(ways[i], octets, warm ? octets : cold, cold, to, from));
			std::cout << "| " << octets << " | " << (warm ? "warm" : "cold") << " |";
			for (auto &samples : speeds) {
				std::ranges::nth_element(samples, samples.begin() + std::ptrdiff_t(samples.size() / 2));
				std::cout << ' ' << samples[samples.size() / 2] << " |";
			}
			std::cout << std::endl;
		}
}

} // namespace

int main(int argc, char **argv)
try {
	CLI::App app{
		"Copies octets and has their CRC32C in several ways; prints GB/s (10^9 octets), medians, as Markdown.",
		"bench_crc"};
	unsigned repetitions = 9, megabytes = 256;

	app.add_option("--repetitions", repetitions, "turns of each way")
		->check(CLI::Range(1, 1000))
		->capture_default_str();
	app.add_option(
		   "--megabytes", megabytes, "memory gone through where it is to be cold, and octets moved each turn")
		->check(CLI::Range(1, 4096))
		->capture_default_str();
	CLI11_PARSE(app, argc, argv);
	if (!__builtin_cpu_supports("sse4.2"))
		throw std::runtime_error("this processor has no instruction for CRC32C");
	const std::vector<Way> ways = all_ways();

	compare(ways);
	measure(ways, repetitions, std::size_t(megabytes) << 20);
	return 0;
} catch (const std::exception &e) {
	std::cerr << "bench_crc: " << e.what() << '\n';
	return 1;
}
