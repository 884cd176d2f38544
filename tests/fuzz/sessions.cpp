// SPDX-License-Identifier: GPL-2.0
// fuzz_sessions request|reply COUNT SEED [FOLDER]: that many sessions on standard output, the same for the same seed.
// The streams are those of the fuzzers' seeds, or of the corpus in FOLDER, mutated; most start-up frames are good.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "seeds.hpp"
#include "session.hpp"

namespace fs = std::filesystem;

static std::vector<Script> streams(const char *folder)
{
	std::vector<fs::path> files;
	std::vector<Script> all;

	for (const auto &[name, script] : seed_scripts())
		all.push_back(script);
	if (!folder)
		return all;
	for (const auto &entry : fs::directory_iterator(folder))
		files.push_back(entry.path());
	std::sort(files.begin(), files.end());
	for (const auto &path : files) {
		std::ifstream f(path, std::ios::binary);
		const Bytes b{std::istreambuf_iterator<char>(f), {}};
		all.push_back(Script::decode(b));
	}
	return all;
}

static void spoil(Bytes &b, Random &random)
{
	const size_t at = b.empty() ? 0 : random() % b.size();
	const auto where = b.begin() + ptrdiff_t(at);

	switch (random() % 4) {
	case 0:
		b.insert(where, uint8_t(random()));
		break;
	case 1:
		if (!b.empty())
			b.erase(where);
		break;
	case 2:
		b.resize(at);
		break;
	default:
		if (!b.empty())
			*where ^= uint8_t(1u << random() % 8);
		break;
	}
}

// Most are what the other side can agree to; those that aren't end a session before it has begun.
static Bytes frame(bool reply, Random &random)
{
	auto one_in = [&](unsigned n) {
		return random() % n == 0;
	};
	model::StartFrame f;

	f.reply = reply;
	f.revision = one_in(reply ? 16 : 4) ? 1 : 2;
	f.enhanced = f.revision == 2;
	f.crc = !one_in(4);
	f.markers = one_in(16);
	f.large = one_in(2);
	f.extensions = one_in(2);
	f.reject = reply && one_in(16);
	if (f.enhanced) {
		f.peer_to_peer = !one_in(reply ? 16 : 4);
		f.rtr = f.peer_to_peer ? uint8_t(one_in(8) ? random() % 8 : model::by_write | model::by_read) : 0;
		f.ird = uint16_t(one_in(8) ? random() % 0x4000 : random() % 64);
		f.ord = uint16_t(one_in(8) ? random() % 0x4000 : random() % (reply ? 4 : 64));
	}
	f.data.resize(one_in(16) ? random() % 513 : random() % 32);
	Bytes b = model::encode(f);
	if (one_in(8))
		for (unsigned n = 1 + random() % 3; n; n--)
			spoil(b, random);
	return b;
}

// What the other side doesn't speak ends a stream, too.
static void drop_extensions(Script &s, Random &random)
{
	std::erase_if(s.records, [&](const Record &r) {
		return r.ulpdu.size() > 1 && (r.ulpdu[1] & 0xf) > op_terminate && random() % 8;
	});
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 5 || (strcmp(argv[1], "request") != 0 && strcmp(argv[1], "reply") != 0)) {
		std::cerr << "usage: fuzz_sessions request|reply COUNT SEED [FOLDER]\n";
		return 2;
	}
	const bool reply = strcmp(argv[1], "reply") == 0;
	const std::vector<Script> known = streams(argc == 5 ? argv[4] : nullptr);
	Random random(Random::result_type(std::stoul(argv[3])));

	for (unsigned long count = std::stoul(argv[2]); count; count--) {
		Session s;
		// One draw a statement: operands have no order.
		s.ways |= random() % 16 == 0 ? Session::stubborn : 0;
		s.ways |= random() % 8 == 0 ? Session::resets : 0;
		s.ways |= random() % 16 == 0 ? Session::impatient : 0;
		s.frame = frame(reply, random);
		s.script = known[random() % known.size()];
		// Where the peer-to-peer model was asked for, nothing but this may come first.
		if (!reply && random() % 4) {
			Record first;
			first.ulpdu = tagged_segment(op_write, 1, 0, {});
			s.script.records.insert(s.script.records.begin(), first);
		}
		drop_extensions(s.script, random);
		for (unsigned n = random() % 6; n; n--)
			mutate(s.script, random, [&](Bytes &b) { spoil(b, random); });
		write(std::cout, s);
	}
	return std::cout.flush() ? 0 : 1;
}
