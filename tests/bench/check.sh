#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Tests of what turns samples into tables, of how the tools' output is read, and of the TCP tools; on the host.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
. tests/lib.sh
. tests/bench/parse.sh
bin=build/tests/bench
make -s -C tests/bench O="$PWD/$bin" report crc "$PWD"/$bin/bench_{pingpong,tcp} || exit 1

is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "'$2' instead of '$3'"; fi; }

# samples GROUP [NAME=VALUE...]: begins anew; what "add" doesn't name is as said here
samples() {
	: >"$WORK/samples.jsonl"
	CELL="{\"group\": \"$1\", \"kind\": \"write\", \"octets\": 65536, \"mtu\": 1500, \"crc\": \"off\", \"qps\": 1, \"cpus\": 2}"
}
# add WHO REPETITION JSON: one sample, with the fields of JSON besides or instead
add() { jq -cn "$CELL + {who: \"$1\", rep: $2} + $3" >>"$WORK/samples.jsonl"; }
# runs WHO JSON VALUE...: a sample for each repetition
runs() {
	local who=$1 json=$2 rep=0 value
	shift 2
	for value; do add "$who" $((++rep)) "$json + {value: $value}"; done
}
STREAM='{kind: "stream", crc: "none"}'
report() { $bin/bench_report "$WORK" >"$WORK/tables" 2>&1; }
# rows PEER FIELD: of all rows against that peer, in order
rows() { jq -r --arg peer "$1" ".rows[] | select(.peer_name == \$peer) | .$2" "$WORK/results.json" | paste -sd ' '; }

echo kernel=9.9 >"$WORK/about"
samples bandwidth
runs ours '{}' 100 200 300
runs siw '{}' 50 200 450
runs tcp "$STREAM" 100 100 100
add ours 1 '{kind: "read", value: 30}'
add siw 1 '{kind: "read", failed: "client: took more than 18 s"}'
echo '{"group": "bandwi' >>"$WORK/samples.jsonl"
report
is report_takes_half_a_line $? 0
is medians_of_both "$(rows siw ours) $(rows siw peer) $(rows 'TCP, iperf3' peer)" '200 30 200 null 100 100'
is ratio_is_the_median_of_ratios "$(rows siw ratio) $(rows 'TCP, iperf3' ratio)" '1 null 2 0.3'
is ratio_shows_its_spread "$(rows siw ratio_min) $(rows siw ratio_max)" '0.6666666666666666 null 2 null'
is kernel_is_named "$(rows siw kernel)" '9.9 9.9'
is repetitions_are_counted "$(rows siw repetitions)" '3 0'
t failure_is_in_the_table grep -q 'failed: client: took more than 18 s' "$WORK/tables"
is read_is_compared_with_our_write "$(rows 'our own Write' 'ratio, .target, .met')" '0.3 >= 0.9 false'
is target_is_met_or_missed "$(rows siw 'target, .met') $(rows 'TCP, iperf3' 'target, .met')" \
	'>= 10 false >= 10 null >= 1.1 true null null'
is target_without_figures_has_a_row "$(rows probe 'target, .met, .problem')" '>= 0.9 null probe not run'
t verdict_counts_all grep -q '^### Targets: 1 met, 2 missed, 2 without figures$' "$WORK/tables"
t verdict_names_what_is_missed grep -q '^- Bandwidth: 64 KB write, MTU 1500, CRC off, against siw: \*\*1.00\*\* .* target >= 10$' "$WORK/tables"
t verdict_names_what_has_no_figures grep -q 'CRC off, against probe: probe not run, target >= 0.9$' "$WORK/tables"
t table_says_what_is_met grep -q '| TCP, iperf3 | 100 | \*\*2.00\*\* (1.00 - 3.00) | >= 1.1 | yes |$' "$WORK/tables"

# Which target holds is a matter of CRC, MTU and kind.
samples bandwidth
for mtu in 1500 9000 65535; do
	runs tcp "$STREAM + {mtu: $mtu}" 100
	for crc in off on; do
		runs ours "{mtu: $mtu, crc: \"$crc\"}" 125
		runs siw "{mtu: $mtu, crc: \"$crc\"}" 50
	done
done
report
is targets_against_sockets "$(rows 'TCP, iperf3' target)" '>= 1.1 >= 1.3 >= 1.2 >= 0.85 >= 0.85 >= 0.85'
is sockets_are_compared_with_both_crcs "$(rows 'TCP, iperf3' met)" 'true false true true true true'
is targets_against_siw "$(rows siw target)" '>= 10 >= 3 >= 1.3 >= 8 >= 2.5 >= 1.2'
is a_target_reached_exactly_is_met "$(rows siw met)" 'false false true false true true'
is the_probe_competes_without_crc_only "$(rows probe met)" 'null null null'

# The peer of a repetition that is missing can't be compared.
samples bandwidth
add ours 1 '{value: 120}'
add ours 2 '{value: 90}'
add tcp 2 "$STREAM + {value: 100}"
report
is only_whole_repetitions_count "$(rows 'TCP, iperf3' 'ratio, .repetitions, .met')" '0.9 1 false'

# A peer that can't run here has no target there, and is no failure.
samples bandwidth
runs ours '{}' 100
add rxe 1 '{absent: "no rxe device can be made"}'
report
is absent_peer_is_said_so "$(rows 'rxe (RoCE)' 'met, .problem')" "null rxe (RoCE) can't run here: no rxe device can be made"

samples latency
add ours 1 '{kind: "read", octets: 64, value: 40}'
add tcp 1 "$STREAM + {octets: 64, value: 20}"
add ours 1 '{octets: 64, value: 12}'
report
is read_latency_is_compared_with_a_whole_round_trip "$(rows 'TCP, spinning, whole round trip' 'ratio, .better')" '1 lower'
is less_is_better_for_latency "$(rows 'TCP, spinning' 'ratio, .target, .met')" '0.6 <= 0.6 true'

samples memory
CELL="$CELL + {kind: \"idle\", octets: 0, qps: 10000}"
runs tcp "$STREAM" 2 2 2
runs ours '{}' 9 10 11
runs siw '{note: "only 700 connections"}' 9 9 9
report
is a_target_may_add_something "$(rows 'TCP sockets' 'target, .met')" '<= 1 x + 8 true'
is a_peer_must_not_be_better "$(rows siw met)" false
t note_is_in_the_table grep -q '| 9.00 (only 700 connections) |' "$WORK/tables"

samples sizes
for size in '64, value: 1000' '65536, value: 700' '1048576, value: 900'; do add ours 1 "{octets: $size}"; done
report
is curve_is_compared_with_its_peak_from_64_kb_on "$(rows 'our own peak' met)" 'false true'

samples qps
for cell in '1, cpus: 2, value: 100' '8, cpus: 2, value: 120' '8, cpus: 1, value: 50'; do add ours 1 "{qps: $cell}"; done
report
is each_curve_has_its_own_peak "$(rows 'our own peak' met)" 'true true true'

samples counters
for counter in '"octets copied", 65756, 65758, 133036' '"wake-ups", 0, -0.0002, 0.47'; do
	IFS=, read -r name first second siw <<<"$counter"
	runs ours "{counter: $name}" "$first" "$second"
	runs siw "{counter: $name}" "$siw" "$siw"
done
for who in ours siw; do runs $who '{octets: 64, counter: "locks"}' 2; done
runs tcp '{octets: 64, counter: "locks"}' 7
add siw 1 '{kind: "read", failed: "client: status 1"}'
report
is counters_have_rows_of_their_own "$(rows siw 'ours, .peer, .repetitions')" \
	'2 2 1 65757 133036 2 -0.0001 0.47 2 null null 0'
t counters_are_for_messages_and_for_octets grep -qx '| 64 KB write, octets copied | off | 65757 | 133036 | - | 1003372 | 2029968 |' \
	"$WORK/counters.md"
t counters_are_never_minus_zero grep -qx '| 64 KB write, wake-ups | off | 0.00 | 0.47 | - | 0.00 | 7.17 |' "$WORK/counters.md"
t counters_of_small_messages_stay_as_they_are grep -qx '| 64 B write, locks | off | 2.00 | 2.00 | 7.00 | - | - |' "$WORK/counters.md"
t counters_that_failed_say_so grep -qx '| 64 KB read | off | - | failed: client: status 1 | - | - | - |' "$WORK/counters.md"
is counters_have_no_plot "$(ls "$WORK"/counters.gp 2>/dev/null)" ''

# Every group with a plot has all of its outputs, and gnuplot can read them.
for group in bandwidth latency rate connections cpu memory sizes qps; do
	samples $group
	runs ours '{}' 1 2 3
	runs siw '{}' 2 3 4
	report
	# shellcheck disable=SC2016 # the inner shell's
	t "outputs_of_$group" sh -c 'cd "$1" && gnuplot $2.gp && test -s $2.md && grep -q "</svg>" $2.svg' sh "$WORK" $group
done
is unknown_group_is_refused "$(samples nonsense; runs ours '{}' 1; report; echo $?)" 1

# How the tools' output is read
# reads NAME VALUE FUNCTION...: what the function makes of it; VALUE is "-" where it is to refuse
reads() {
	local name=$1 expected=$2 value='' reason='' line=''
	shift 2
	if "$@"; then is "$name" "$value" "$expected"; else is "$name" "-${reason:+}" "$expected"; fi
	[ "$expected" != - ] || [ -n "$reason" ] || not_ok "${name}_says_why"
}
cat >"$WORK/perftest" <<'END'
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      2000             1024.50            1000.00              0.016000
---------------------------------------------------------------------------------------
END
from_perftest() { perftest_line "$WORK/perftest" "$1" "$2" && figure "$line" "$3" 0.01 1000000 "$4"; }
reads perftest_bandwidth 1048.576 from_perftest 65536 2000 4 1.048576
reads perftest_rate 16.000 from_perftest 65536 2000 5 1000
reads perftest_of_another_run - from_perftest 65536 3000 4 1
is a_run_without_time_is_made_again "$(timeless ' 65536   18240   0.00   0.00   0.000000' && echo yes)" yes
is a_run_with_time_is_not "$(timeless ' 65536   18240   0.00   8700.11   0.132754' || echo no)" no
reads perftest_nan - figure '65536 2000 -nan inf 0' 4 0.01 1000000 1
reads figure_too_small - figure '0.00' 1 0.01 1000000 1
reads figure_of_nothing - figure '' 1 0.01 1000000 1
echo '{"end": {"sum_received": {"bits_per_second": 8e9}}}' >"$WORK/iperf3"
reads iperf3_bandwidth 1000.000 iperf3_figure "$WORK/iperf3"
echo '{"error": "unable to connect"}' >"$WORK/iperf3"
reads iperf3_error - iperf3_figure "$WORK/iperf3"
echo 'iperf3: error' >"$WORK/iperf3"
reads iperf3_without_json - iperf3_figure "$WORK/iperf3"
echo 65536000 32768000 >"$WORK/probe"
reads probe_bandwidth 2000.000 probe_figure "$WORK/probe"
: >"$WORK/probe"
reads probe_without_an_answer - probe_figure "$WORK/probe"
reads processor_time_of_a_gigabyte 0.500 per_gigabyte 1000000 2000000000
reads processor_time_that_ran_backwards - per_gigabyte -5 2000000000
# 10 messages, and what both runs take besides
printf '%s\n' 'copies: 100' 'context switches: 7' >"$WORK/before"
printf '%s\n' 'copies: 130' 'context switches: 9' >"$WORK/between"
printf '%s\n' 'copies: 185' 'context switches: 11' >"$WORK/after"
is counts_of_a_message "$(per_message 10 "$WORK"/{before,between,after} | paste -sd';')" 'copies: 2.500;context switches: 0.000'
printf '%s\n' '    calls syscall' '--------- -------' '     4096 write' '       12 totals' '--------- -------' '     4108 total' >"$WORK/trace"
reads system_calls 4108 calls_of_trace "$WORK/trace"
: >"$WORK/trace"
reads system_calls_of_nothing - calls_of_trace "$WORK/trace"
printf '%s kB\n' 'MemTotal: 1000' 'MemFree: 600' 'MemAvailable: 700' 'Buffers: 1' 'Cached: 100' 'SwapCached: 0' 'AnonPages: 50' \
	'Slab: 60' >"$WORK/meminfo"
is memory_that_is_the_kernels "$(kernel_memory "$WORK/meminfo")" 249
is iterations_fill_the_time "$(iterations 1000 5 10 100000 1)" 500
is iterations_have_bounds "$(iterations 1 5 10 100000 1) $(iterations 1e9 5 10 100000 1)" '10 100000'
is iterations_are_whole_lists "$(iterations 1001 10 10 100000 32) $(iterations 5 1 10 100000 32)" '992 32'

# serve NAME TOOL MODE ARGUMENT...: a server and a client of one of the TCP tools
serve() {
	local name=$1 tool=$2 mode=$3
	shift 3
	timeout 20 "$bin/$tool" "$mode" server 127.0.0.1 18999 "$@" >"$WORK/server" 2>&1 &
	until_true sh -c 'ss -Hltn "sport = :18999" | grep -q .'
	t "$name" "$bin/$tool" "$mode" client 127.0.0.1 18999 "$@"
	reads "${name}_prints_a_figure" "$(cat "$WORK/output")" figure_as_is
	wait $! || not_ok "server_of_$name" "$(cat "$WORK/server")"
}
figure_as_is() { value=$(cat "$WORK/output") && [[ $value =~ ^[0-9.e+]+$ ]] || reason="no figure"; [ -z "$reason" ]; }
serve ping_pong_blocking bench_pingpong blocking 64 200
serve ping_pong_spinning bench_pingpong spinning 64 200
serve tcp_messages bench_tcp messages --octets 8 --count 5000
serve tcp_zero_copy bench_tcp messages --octets 65536 --count 500 --zerocopy
serve tcp_connections bench_tcp connections --count 200
t tcp_client_needs_a_server bash -c "! $bin/bench_tcp messages client 127.0.0.1 18998"
t ping_pong_refuses_nonsense bash -c "! $bin/bench_pingpong blocking server 127.0.0.1 0 64 200"
if grep -qw sse4_2 /proc/cpuinfo; then
	t crc_ways_agree_and_have_figures "$bin/bench_crc" --repetitions 1 --megabytes 1
	is crc_figures_of_each_size "$(grep -cE '^\| [0-9]+ \| (warm|cold) \|( [0-9]+\.[0-9] \|){8}$' "$WORK/output")" 12
else
	skip crc_ways_agree_and_have_figures "this processor has no instruction for CRC32C"
fi
# first_run METHOD: is one of Sends by events longer than AHEAD? At the end of shorter ones both ends slept, in one of ten.
first_run() (
	. tests/bench/contenders.sh
	. tests/bench/groups.sh
	method=$1 kind=send_events octets=65536 qps=1
	[ "$(first_iterations)" -gt "$AHEAD" ] && echo long
)
is first_runs_by_events_outlast_their_credits "$(first_run bandwidth) $(first_run cpu) $(first_run counters)" 'long long long'
is bench_refuses_unknown_names "$(scripts/bench nothing 2>/dev/null; echo $?)" 2
finish
