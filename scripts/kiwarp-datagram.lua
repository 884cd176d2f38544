-- SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
-- Dissector of Wireshark for Documentation/datagram.md:
--	tshark -X lua_script:scripts/kiwarp-datagram.lua -r FILE
-- It finds datagrams by their first two octets, on any port, and checks lengths, reserved fields and the CRC.

local proto = Proto("kiwarp_dgram", "Datagram-iWARP")

local opcodes = { [3] = "Send", [5] = "Send with Solicited Event" }

local f = {
	mark = ProtoField.uint8("kiwarp_dgram.mark", "Mark", base.HEX),
	version = ProtoField.uint8("kiwarp_dgram.version", "Version", base.DEC, nil, 0xf0),
	tagged = ProtoField.bool("kiwarp_dgram.tagged", "Tagged", 8, nil, 0x80),
	last = ProtoField.bool("kiwarp_dgram.last", "Last", 8, nil, 0x40),
	ddp_version = ProtoField.uint8("kiwarp_dgram.ddp_version", "DDP version", base.DEC, nil, 0x03),
	rdmap_version = ProtoField.uint8("kiwarp_dgram.rdmap_version", "RDMAP version", base.DEC, nil, 0xc0),
	opcode = ProtoField.uint8("kiwarp_dgram.opcode", "Opcode", base.HEX, opcodes, 0x0f),
	qkey = ProtoField.uint32("kiwarp_dgram.qkey", "Q_Key", base.HEX),
	queue = ProtoField.uint32("kiwarp_dgram.queue", "Queue Number", base.DEC),
	number = ProtoField.uint32("kiwarp_dgram.number", "Number", base.DEC),
	offset = ProtoField.uint32("kiwarp_dgram.offset", "Message Offset", base.DEC),
	payload = ProtoField.bytes("kiwarp_dgram.payload", "Payload"),
	length = ProtoField.uint32("kiwarp_dgram.length", "Payload length", base.DEC),
	crc = ProtoField.uint32("kiwarp_dgram.crc", "CRC-32C", base.HEX),
	crc_good = ProtoField.bool("kiwarp_dgram.crc_good", "CRC is good"),
}
proto.fields = f

local e = {
	malformed = ProtoExpert.new("kiwarp_dgram.malformed", "Not as the format wants it", expert.group.MALFORMED,
		expert.severity.ERROR),
	crc = ProtoExpert.new("kiwarp_dgram.crc_bad", "Bad CRC", expert.group.CHECKSUM, expert.severity.ERROR),
}
proto.experts = e

local HEADER, CRC = 20, 4

-- Lua 5.2 has bit32, 5.3 and later have operators, Wireshark has bit: one that all versions of it know.
local band, bxor, rshift, bnot = bit.band, bit.bxor, bit.rshift, bit.bnot

local crc_table = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do
		c = band(c, 1) == 1 and bxor(rshift(c, 1), 0x82f63b78) or rshift(c, 1)
	end
	crc_table[i] = c
end

local function crc32c(bytes)
	local c = bnot(0)
	for i = 0, bytes:len() - 1 do
		c = bxor(rshift(c, 8), crc_table[band(bxor(c, bytes:get_index(i)), 0xff)])
	end
	return band(bnot(c), 0xffffffff) % 0x100000000
end

function proto.dissector(buffer, pinfo, tree)
	local length = buffer:len()
	if length < 2 or buffer(0, 1):uint() ~= 0x0d then
		return 0
	end
	pinfo.cols.protocol = "Datagram-iWARP"
	local t = tree:add(proto, buffer())
	t:add(f.mark, buffer(0, 1))
	t:add(f.version, buffer(1, 1))
	if buffer(1, 1):uint() ~= 0x10 then
		pinfo.cols.info = "another version"
		return length
	end
	if length < HEADER + CRC then
		t:add_proto_expert_info(e.malformed, "shorter than header and CRC")
		return length
	end
	t:add(f.tagged, buffer(2, 1))
	t:add(f.last, buffer(2, 1))
	t:add(f.ddp_version, buffer(2, 1))
	t:add(f.rdmap_version, buffer(3, 1))
	t:add(f.opcode, buffer(3, 1))
	t:add(f.qkey, buffer(4, 4))
	t:add(f.queue, buffer(8, 4))
	t:add(f.number, buffer(12, 4))
	t:add(f.offset, buffer(16, 4))
	local payload = length - HEADER - CRC
	t:add(f.length, payload):set_generated()
	if payload > 0 then
		t:add(f.payload, buffer(HEADER, payload))
	end

	local opcode = band(buffer(3, 1):uint(), 0x0f)
	if band(buffer(2, 1):uint(), 0xc3) ~= 0x41 or band(buffer(3, 1):uint(), 0xc0) ~= 0x40 or not opcodes[opcode] or
		buffer(8, 4):uint() ~= 0 or buffer(16, 4):uint() ~= 0 then
		t:add_proto_expert_info(e.malformed, "no whole Send")
	end
	local wire = t:add_le(f.crc, buffer(length - CRC, CRC))
	local good = crc32c(buffer(0, length - CRC):bytes()) == buffer(length - CRC, CRC):le_uint()
	t:add(f.crc_good, good):set_generated()
	if not good then
		wire:add_proto_expert_info(e.crc)
	end
	pinfo.cols.info = string.format("%s, %d bytes, Q_Key 0x%08x", opcodes[opcode] or "?", payload, buffer(4, 4):uint())
	return length
end

proto:register_heuristic("udp", function(buffer, pinfo, tree)
	if buffer:len() < HEADER + CRC or buffer(0, 2):uint() ~= 0x0d10 then
		return false
	end
	proto.dissector(buffer, pinfo, tree)
	return true
end)
