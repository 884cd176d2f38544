// SPDX-License-Identifier: GPL-2.0
// fuzz_seeds FOLDER: inputs to begin with, from the messages of tests/proto/vectors.h, in FOLDER/TARGET/NAME
#include "seeds.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>

#include "../proto/vectors.h"
#include "script.hpp"

namespace fs = std::filesystem;

static fs::path root;

static void write(const char *target, const std::string &name, const Bytes &b)
{
	const fs::path folder = root / target;
	fs::create_directories(folder);
	std::ofstream f(folder / name, std::ios::binary);
	f.write(reinterpret_cast<const char *>(b.data()), std::streamsize(b.size()));
	if (!f.flush()) {
		std::cerr << "can't write " << folder / name << "\n";
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: fuzz_seeds FOLDER\n";
		return 2;
	}
	root = argv[1];
	for (const auto &v : vec_frames) {
		const Bytes frame(v.data, v.data + v.len);
		// Wishes of the other side: revision 2, CRC, peer-to-peer, all three ways to start, depths of 16
		const Bytes wishes = {0xf3, 0, 16, 0, 16, 0, 128};
		write("startup", v.name, Bytes{uint8_t(v.is_reply ? 2 : 0)} + wishes + frame + Bytes(16));
		const Bytes without_key(frame.begin() + 16, frame.end());
		write("startup", std::string(v.name) + "_1",
			Bytes{uint8_t(v.is_reply ? 3 : 1)} + wishes + without_key + Bytes(16));
	}
	for (const auto &v : vec_fpdus) {
		const Bytes ulpdu(v.data + 2, v.data + 2 + get(v.data, 2));
		write("segment", v.name, Bytes{0xc0} + ulpdu);
		if ((ulpdu[1] & 0xf) == op_terminate) {
			write("terminate", v.name, Bytes{0} + ulpdu);
			write("terminate", std::string(v.name) + "_1",
				Bytes{2} + Bytes(ulpdu.begin() + 18, ulpdu.end()));
		}
		write("terminate", std::string("about_") + v.name, Bytes{1, 1, 0, uint8_t(ulpdu.size())} + ulpdu);
	}
	write("dgram", "send", Bytes(std::begin(vec_dgram_send), std::end(vec_dgram_send)));
	write("dgram", "send_se", Bytes(std::begin(vec_dgram_send_se), std::end(vec_dgram_send_se)));
	write("dgram", "imm", Bytes(std::begin(vec_dgram_imm), std::end(vec_dgram_imm)));
	write("dgram", "imm_se", Bytes(std::begin(vec_dgram_imm_se), std::end(vec_dgram_imm_se)));
	write("dgram", "write_first", Bytes(std::begin(vec_dgram_write_first), std::end(vec_dgram_write_first)));
	write("dgram", "write_last", Bytes(std::begin(vec_dgram_write_last), std::end(vec_dgram_write_last)));
	for (uint8_t how = 0; how < 6; how++)
		write("segment", "kind_" + std::to_string(how), Bytes{how} + Bytes(64, how));
	for (const auto &[name, script] : seed_scripts())
		write("stream", name, script.encode());
	write("qpstate", "close", {0, 11, 1, 6, 12});
	write("qpstate", "terminate", {0, 11, 9, 12, 5});
	return 0;
}
