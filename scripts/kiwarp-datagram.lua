-- SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
-- Dissector of Wireshark for Documentation/datagram.md:
--	tshark -X lua_script:scripts/kiwarp-datagram.lua -r FILE
-- It finds datagrams by their first two octets, on any port, and checks lengths, reserved fields and the CRC.

local proto = Proto("kiwarp_dgram", "Datagram-iWARP")

local opcodes = { [0] = "Write-Record", [3] = "Send", [5] = "Send with Solicited Event",
	[8] = "Send with immediate data", [9] = "Send with immediate data and Solicited Event" }

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
	imm = ProtoField.uint32("kiwarp_dgram.imm", "Immediate data", base.HEX),
	offset = ProtoField.uint32("kiwarp_dgram.offset", "Message Offset", base.DEC),
	stag = ProtoField.uint32("kiwarp_dgram.stag", "STag", base.HEX),
	to = ProtoField.uint64("kiwarp_dgram.to", "Tagged Offset", base.HEX),
	id = ProtoField.uint32("kiwarp_dgram.id", "Message", base.DEC),
	total = ProtoField.uint32("kiwarp_dgram.total", "Message length", base.DEC),
	seg_size = ProtoField.uint32("kiwarp_dgram.seg_size", "Segment size", base.DEC),
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

local HEADER, IMM_HEADER, WRITE_HEADER, CRC = 20, 28, 36, 4
local MAX_SEG_SIZE, MAX_SEGS = 65467, 1024

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

local function has_imm(buffer)
	local opcode = band(buffer(3, 1):uint(), 0x0f)
	return opcode == 8 or opcode == 9
end

local function header_length(buffer)
	if band(buffer(2, 1):uint(), 0x80) ~= 0 then
		return WRITE_HEADER
	end
	return has_imm(buffer) and IMM_HEADER or HEADER
end

-- Each returns the length of the header, a text, and whether the header is as the format wants it.

local function send(buffer, t)
	local opcode = band(buffer(3, 1):uint(), 0x0f)
	t:add(f.qkey, buffer(4, 4))
	t:add(f.queue, buffer(8, 4))
	t:add(f.number, buffer(12, 4))
	t:add(f.offset, buffer(16, 4))
	local good = band(buffer(2, 1):uint(), 0xc3) == 0x41 and (opcode == 3 or opcode == 5 or has_imm(buffer)) and
		buffer(8, 4):uint() == 0 and buffer(16, 4):uint() == 0
	local text = string.format("%s, Q_Key 0x%08x", opcodes[opcode] or "?", buffer(4, 4):uint())
	if has_imm(buffer) then
		t:add(f.imm, buffer(20, 4))
		text = string.format("%s, immediate 0x%08x", text, buffer(20, 4):uint())
	end
	return header_length(buffer), text, good
end

local function write(buffer, t)
	t:add(f.stag, buffer(4, 4))
	t:add(f.to, buffer(8, 8))
	t:add(f.qkey, buffer(16, 4))
	t:add(f.id, buffer(20, 4))
	t:add(f.total, buffer(24, 4))
	t:add(f.offset, buffer(28, 4))
	t:add(f.seg_size, buffer(32, 4))
	local total, offset, size = buffer(24, 4):uint(), buffer(28, 4):uint(), buffer(32, 4):uint()
	local payload = buffer:len() - WRITE_HEADER - CRC
	local last = band(buffer(2, 1):uint(), 0x40) ~= 0
	local good = band(buffer(2, 1):uint(), 0x83) == 0x81 and band(buffer(3, 1):uint(), 0x0f) == 0 and
		size >= 1 and size <= MAX_SEG_SIZE and total <= size * MAX_SEGS and offset % size == 0 and
		(offset == 0 or offset < total) and payload == math.min(size, total - offset) and
		last == (offset + payload == total)
	return WRITE_HEADER, string.format("Write-Record %d, %d of %d, STag 0x%08x", buffer(20, 4):uint(), offset, total,
		buffer(4, 4):uint()), good
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
	local tagged = length > 2 and band(buffer(2, 1):uint(), 0x80) ~= 0
	if length < HEADER + CRC or length < header_length(buffer) + CRC then
		t:add_proto_expert_info(e.malformed, "shorter than header and CRC")
		return length
	end
	t:add(f.tagged, buffer(2, 1))
	t:add(f.last, buffer(2, 1))
	t:add(f.ddp_version, buffer(2, 1))
	t:add(f.rdmap_version, buffer(3, 1))
	t:add(f.opcode, buffer(3, 1))
	local header, text, as_wanted = (tagged and write or send)(buffer, t)
	local payload = length - header - CRC
	t:add(f.length, payload):set_generated()
	if payload > 0 then
		t:add(f.payload, buffer(header, payload))
	end
	if not as_wanted or band(buffer(3, 1):uint(), 0xc0) ~= 0x40 then
		t:add_proto_expert_info(e.malformed, tagged and "no segment of a Write-Record" or "no whole Send")
	end
	local wire = t:add_le(f.crc, buffer(length - CRC, CRC))
	local good = crc32c(buffer(0, length - CRC):bytes()) == buffer(length - CRC, CRC):le_uint()
	t:add(f.crc_good, good):set_generated()
	if not good then
		wire:add_proto_expert_info(e.crc)
	end
	pinfo.cols.info = string.format("%s, %d bytes", text, payload)
	return length
end

proto:register_heuristic("udp", function(buffer, pinfo, tree)
	if buffer:len() < HEADER + CRC or buffer(0, 2):uint() ~= 0x0d10 then
		return false
	end
	proto.dissector(buffer, pinfo, tree)
	return true
end)
