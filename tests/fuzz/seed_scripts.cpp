// SPDX-License-Identifier: GPL-2.0
#include "seeds.hpp"

#include "../proto/vectors.h"

static Record record(const unsigned char *fpdu)
{
	const unsigned char *ulpdu = fpdu + 2;
	Record r;

	r.ulpdu.assign(ulpdu, ulpdu + get(fpdu, 2));
	return r;
}

static Record payload(uint32_t number, uint16_t octets)
{
	Record r;

	r.ulpdu = send_segment(number, {});
	r.stuffing = octets;
	return r;
}

std::vector<std::pair<std::string, Script>> seed_scripts()
{
	std::vector<std::pair<std::string, Script>> all;
	Script everything;

	everything.immediate = everything.atomics = true;
	for (const auto &v : vec_fpdus) {
		Script s;
		s.immediate = s.atomics = true;
		s.renumber = true;
		s.records = {record(v.data)};
		all.emplace_back(v.name, s);
		if ((v.data[3] & 0xf) != op_terminate)
			everything.records.push_back(s.records[0]);
		// The same as octets that came in, once with what they lack repaired
		s.raw = true;
		s.octets.assign(v.data, v.data + v.len);
		all.emplace_back(std::string(v.name) + "_raw", s);
		s.repair = true;
		all.emplace_back(std::string(v.name) + "_repaired", s);
	}
	everything.renumber = true;
	all.emplace_back("everything", everything);
	everything.markers = true;
	all.emplace_back("everything_marked", everything);
	everything.cuts = 3;
	everything.crc = everything.markers = false;
	all.emplace_back("everything_bare", everything);
	everything.cuts = 1;
	all.emplace_back("everything_by_octets", everything);
	for (unsigned stream = 0; stream < 4; stream++) {
		Script s;
		s.markers = true;
		s.room = 4096;
		for (const auto &v : vec_marked)
			if (v.stream == stream)
				s.records.push_back(payload(v.msn, uint16_t(v.payload_len)));
		all.emplace_back("marked_" + std::to_string(stream), s);
		s.base = 0xfffffe00;
		all.emplace_back("marked_wrap_" + std::to_string(stream), s);
	}
	Script longest;
	longest.room = 0xffff;
	longest.records = {payload(1, 64768 - 18), payload(2, 0xffff - 18)};
	all.emplace_back("longest", longest);
	longest.markers = true;
	all.emplace_back("longest_marked", longest);
	for (uint8_t kind = 1; kind < Record::kinds; kind++) {
		Script s;
		s.markers = true;
		s.records = {payload(1, 700), payload(2, 5), payload(3, 5)};
		s.records[1].damage = Record::Damage(kind);
		s.records[1].amount = 3;
		s.cuts = 100;
		all.emplace_back("damage_" + std::to_string(kind), s);
	}
	return all;
}
