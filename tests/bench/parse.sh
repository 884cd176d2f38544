# SPDX-License-Identifier: GPL-2.0
# How the figures of the tools are read. Sourced by run.sh and check.sh. Each function sets "value", or "reason" and
# returns false.

# figure TEXT FIELD MIN MAX FACTOR: that field of a line, times FACTOR, if it can be true
figure() {
	value=$(awk -v f="$2" -v min="$3" -v max="$4" -v k="$5" '$f ~ /^[0-9.]+(e[-+]?[0-9]+)?$/ {
		v = $f * k
		if (v >= min && v <= max) printf "%.3f", v
	}' <<<"$1")
	[ -n "$value" ] || reason="a figure that can't be: ${1:-none}"
	[ -n "$value" ]
}

# latency_figures LINE MEDIAN MEAN P99: sets "value", "mean" and "p99" to these fields of a line, microseconds
latency_figures() {
	figure "$1" "$4" 0.1 1000000 1 && p99=$value && figure "$1" "$3" 0.1 1000000 1 && mean=$value && figure "$1" "$2" 0.1 1000000 1
}

# perftest_line FILE OCTETS ITERATIONS: sets "line" to the line of figures in what perftest has written
perftest_line() {
	line=$(grep -E "^ *$2 +$3 " "$1" | head -n 1)
	[ -n "$line" ] || reason="no line of figures"
	[ -n "$line" ]
}

# timeless LINE: whether perftest has measured no time, as it does where its guess of the processor's frequency fails
timeless() { awk '{ for (i = 3; i <= NF; i++) if ($i + 0) exit 1 }' <<<"$1"; }

# iperf3_figure FILE: megabytes per second that have arrived
iperf3_figure() {
	local bits
	bits=$(jq -r '.end.sum_received.bits_per_second // "none"' "$1" 2>/dev/null)
	figure "$bits" 1 0.0001 1000000 0.000000125
}

# probe_figure FILE: megabytes per second, of octets and nanoseconds
probe_figure() {
	local octets ns
	read -r octets ns <"$1" || :
	if [[ $octets =~ ^[0-9]+$ && $ns =~ ^[1-9][0-9]*$ ]]; then
		figure "$(awk -v o="$octets" -v n="$ns" 'BEGIN { printf "%.6f", o * 1000 / n }')" 1 0.01 1000000 1
	else
		reason="no figures of the probe"
		return 1
	fi
}

# fio_figure FILE: sets "value" to the megabytes (10^6 bytes) per second of fio's report, and "moved" to the bytes
fio_figure() {
	local bandwidth
	read -r bandwidth moved < <(jq -r '.jobs[0] | .read, .write | select(.io_bytes > 0) | "\(.bw_bytes) \(.io_bytes)"' "$1" 2>/dev/null)
	figure "${bandwidth:-none}" 1 0.0001 1000000 1e-6
}

# per_gigabyte MICROSECONDS OCTETS: seconds of processor time for 10^9 octets; both are differences of two runs
per_gigabyte() { figure "$(awk -v us="$1" -v o="$2" 'BEGIN { if (o > 0) printf "%.6f", us * 1000 / o }')" 1 0.0001 10000 1; }

# per_message MESSAGES BEFORE BETWEEN AFTER: of what was counted before, between and after two runs, in lines "NAME: NUMBER",
# what the second run took more than the first for each message, in lines "NAME: VALUE"
per_message() {
	awk -F ': ' -v messages="$1" 'FNR == 1 { file++ } { n[file, $1] = $2 } file == 3 {
		value = sprintf("%.3f", (n[3, $1] - 2 * n[2, $1] + n[1, $1]) / messages)
		sub(/^-0\.000$/, "0.000", value)
		print $1 ": " value
	}' "${@:2}"
}

# calls_of_trace FILE: how many system calls there are in the summary of strace -c
calls_of_trace() {
	value=$(sed -n 's/^ *\([0-9]*\) total$/\1/p' "$1")
	[ -n "$value" ] || reason="no summary of system calls"
	[ -n "$value" ]
}

# kernel_memory FILE: kilobytes of /proc/meminfo that neither processes nor files have. What a driver has lent a process
# by mapping it is the kernel's.
kernel_memory() {
	awk '/^(MemFree|Buffers|Cached|SwapCached|AnonPages):/ { rest += $2 } /^MemTotal:/ { all = $2 }
		END { print all - rest }' "$1"
}

# iterations PACE TENTHS MIN MAX MULTIPLE: how many of PACE a second make a run of TENTHS tenths of a second
iterations() {
	awk -v pace="$1" -v s="$2" -v min="$3" -v max="$4" -v of="$5" 'BEGIN {
		n = int(pace * s / 10)
		if (n < min) n = min
		if (n > max) n = max
		n -= n % of
		print n < of ? of : n
	}'
}
