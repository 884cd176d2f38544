// SPDX-License-Identifier: GPL-2.0
// A stream to be received, as fuzzers mutate it and as it is replayed: how it is to be received, then either its
// octets, or ULPDUs with what is to be done wrong around them. Every sequence of octets is a script.
#pragma once

#include <functional>
#include <random>

#include "model.hpp"

struct Record {
	enum Damage : uint8_t {
		none,
		crc,		 // one bit of the CRC
		pointer,	 // markers point elsewhere
		marker_reserved, // what has to be ignored in markers
		pad,		 // isn't zero, and is in the CRC
		length,		 // ULPDU_Length says another one
		short_of,	 // the FPDU's last octets are missing
		number,		 // keeps its own number and offset
		kinds,
	};
	Damage damage = none;
	uint8_t amount = 0;
	uint16_t stuffing = 0; // octets that follow those of "ulpdu"
	Bytes ulpdu = {};

	Bytes whole() const;
};

struct Script {
	bool crc = true, markers = false;
	bool immediate = false, atomics = false;
	bool renumber = false; // give untagged segments the numbers and offsets that are due
	bool raw = false;      // "octets" instead of "records"
	bool repair = false;   // of raw octets: make CRC and markers right
	uint8_t cuts = 0;
	uint16_t room = 1024;
	uint8_t receives = 8, reads = 8; // 0..15
	uint32_t base = 0;
	std::vector<Record> records = {};
	Bytes octets = {};

	static Script decode(model::Octets input);
	Bytes encode() const;

	model::Receiver receiver() const;
	// The ULPDUs as they get sent, those behind 72 KB left out
	std::vector<Bytes> ulpdus() const;
	bool damaged() const;
	Bytes wire() const;
	// "wire" in the pieces that this script asks for
	static void cut(model::Octets wire, uint8_t how, const std::function<void(model::Octets)> &piece);
};

// Changes a script in one of the ways that matter to a receiver. "octets" changes some octets anyhow.
using Random = std::minstd_rand;
void mutate(Script &s, Random &random, const std::function<void(Bytes &)> &octets);
