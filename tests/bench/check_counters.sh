#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What a message of ours takes at most. These are counts, not times: a busy machine doesn't change them, and what happens now
# and then is little beside thousands of messages.
. /src/tests/lib.sh
. /src/tests/apps/programs.sh
. /src/tests/bench/parse.sh
. /src/tests/bench/contenders.sh
. /src/tests/bench/counters.sh
mtu=1500 link='' qps=1 cpus=$(nproc)

# message OCTETS KIND CRC: counts what such a message takes
message() {
	octets=$1 kind=$2 per_message=
	cell=$2_of_$1.crc_$3
	set_crc "$3"
	if measure_counters ours 4096; then
		sed "s/^/    $cell: /" <<<"$per_message"
	else
		not_ok "$cell.runs" "$reason"
	fi
}

# takes NAME COUNTER LEAST MOST [UNIT]: how much of it the message takes, in units of so many
takes() {
	local found
	found=$(sed -n "s/^$2: //p" <<<"$per_message")
	if awk -v n="$found" -v least="$3" -v most="$4" -v unit="${5:-1}" 'BEGIN {
		exit !(n ~ /^-?[0-9.]+$/ && n >= least * unit && n <= most * unit) }'; then
		ok "$cell.$1"
	else
		not_ok "$cell.$1" "$2: ${found:-none} for each message, not from $3 to $4${5:+ times $5}"
	fi
}

if ! can_count || ! load_counted; then
	not_ok the_driver_is_counted "a module didn't load"
	finish
fi

message 64 write off
takes one_call_to_send sends 0.95 1.05
takes one_socket_lock locks 0.95 1.05
takes one_system_call "system calls" 0.95 1.05
takes no_wake_up wake-ups -0.05 0.05
takes no_work_item work-items -0.05 0.05
takes no_allocation allocations -0.05 0.05
takes no_crc "octets under CRC" -0.05 0.05

# One copy into memory that TCP may keep, one into the region
message 65536 write off
takes no_crc "octets under CRC" -0.05 0.05
if [ $KERNELS = 2 ]; then
	# Posts behind the first are gathered: they ring no doorbell, are lent, and share packets.
	takes one_copy "octets copied" 1 1.2 65536
	takes few_socket_locks locks 0 0.5
	takes shared_packets "packets of left" 1 1.9
	takes few_acknowledgements "packets of right" 0.01 2.5
else
	takes two_copies "octets copied" 2 2.05 65536
	takes two_fragments_of_32_KB allocations 1.9 2.05
	takes one_socket_lock locks 0.95 1.05
fi

message 65536 write on
takes two_copies "octets copied" 2 2.05 65536
takes two_crc_passes "octets under CRC" 2 2.05 65536

message 1048576 write off
if [ $KERNELS = 2 ]; then
	takes one_copy "octets copied" 1 1.05 1048576
	takes calls_of_128_KB_or_more sends 2 12
	takes packets_of_64_KB "packets of left" 16 20
	takes few_acknowledgements "packets of right" 0.5 6
else
	takes calls_of_128_KB sends 7.9 12
fi

message 1048576 write on
takes calls_of_128_KB sends 7.9 12

# Batches of 128 KB that follow each other don't end in a packet that isn't full.
message 131072 write off
if [ $KERNELS = 1 ]; then
	takes a_call_for_each sends 0.9 1.1
else
	takes at_most_a_call_for_each sends 0.1 1.1	# gathered ones share calls
	takes full_packets "packets of left" 2 2.9
fi

message 65536 read off
if [ $KERNELS = 2 ]; then
	takes one_copy "octets copied" 1 1.05 65536
else
	takes two_copies "octets copied" 2 2.05 65536
fi
takes no_crc "octets under CRC" -0.05 0.05

message 8 write off
takes one_system_call_for_a_list "system calls" 0.9 1.1 0.03125
if [ $KERNELS = 2 ]; then
	takes a_call_to_send_for_several_lists sends 0.1 0.9 0.03125
else
	takes one_call_to_send_for_a_list sends 0.9 1.1 0.03125
fi

# Within a host, small requests behind one that was just sent are gathered. Whoever traces system calls is too slow for that.
if [ $KERNELS = 1 ]; then
	message 16 write off
	takes few_calls_to_send sends 0.001 0.5
	takes few_socket_locks locks 0.001 0.5
fi

# What a callback takes out of a socket that somebody has locked is released when TCP can announce the room.
closing_windows() { left nstat -asz TcpExtTCPWantZeroWindowAdv | awk '$1 == "TcpExtTCPWantZeroWindowAdv" { print $2 }'; }
octets=1048576 before=$(closing_windows)
if ! perftest ours ib_read_bw 300; then
	not_ok read_of_1048576.runs "$reason"
elif [ $(($(closing_windows) - before)) -lt 75 ]; then
	ok read_of_1048576.the_window_stays_open
else
	not_ok read_of_1048576.the_window_stays_open "$(($(closing_windows) - before)) times it was to close"
fi

# What is never seen would always be within its bounds. Connections have taken something of everything.
unseen=$(everywhere cat /proc/bench_count | awk '{ n[$1] += $2 } END { for (name in n) if (!n[name]) print name }')
if [ -z "$unseen" ]; then ok everything_is_counted; else not_ok everything_is_counted "no ${unseen//$'\n'/, }"; fi
finish
