#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# measure.sh full|quick REPETITIONS TENTHS NAME...: measures, inside a guest that scripts/bench has booted with the peer driver; that
# may be the left one of two.
# Each run should take about TENTHS tenths of a second. One line of JSON for each run goes to /out/samples.jsonl.
#
# Contenders take turns within every repetition, so that a busy moment of the machine meets all of them. The first round
# is not counted: it warms up and finds out how many iterations a run needs.
. /src/tests/lib.sh
. /src/tests/apps/programs.sh
. /src/tests/bench/parse.sh
. /src/tests/bench/contenders.sh
. /src/tests/bench/counters.sh
. /src/tests/bench/storage.sh
. /src/tests/bench/groups.sh
SCOPE=$1 REPETITIONS=$2 TENTHS=$3
shift 3
SAMPLES=/out/samples.jsonl
: >"$SAMPLES"

declare -A count=()	# iterations for a run, by contender and cell
declare -A broken=()	# contenders and cells that give no more figures

# sample NAME=VALUE...: one line of JSON about the cell; a value that isn't a number becomes a string
sample() {
	local word name value line=
	for word in group="$group" hosts=$KERNELS kind="$kind" octets="$octets" mtu="$mtu" crc="$crc" qps="$qps" cpus="$cpus" \
		${link:+link="$link"} "$@"; do
		name=${word%%=*} value=${word#*=}
		value=${value//[$'\t\r\n']/ }
		[[ $value =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?$ ]] || value="\"${value//[\"\\]/ }\""
		line+="${line:+, }\"$name\": $value"
	done
	echo "{$line}" >>"$SAMPLES"
}

# turn REPETITION CONTENDER: one run of one contender in the cell that the variables name
turn() {
	local rep=$1 contender=$2 key n measure=$method value='' mean='' p99='' pace='' reason='' note='' line='' counter per_message
	key="$method $contender $kind $octets $mtu $crc $qps $cpus${link:+ $link}"
	[ -z "${broken[$key]:-}" ] || return 0
	if [ -n "${absent[$contender]:-}" ]; then
		broken[$key]=1
		sample contender="$contender" rep="$rep" absent="${absent[$contender]}"
		return 0
	fi
	n=${count[$key]:-$(first_iterations)}
	case $method in memory | regions) n=$qps ;; esac
	# Of a run too short to tell what processor time it takes, the pace is known.
	[ "$method$rep" != cpu0 ] || measure=bandwidth
	# Once more, if need be: a run may fail for a reason that passes.
	if ! "measure_$measure" "$contender" "$n" && ! { value='' reason='' && "measure_$measure" "$contender" "$n"; }; then
		broken[$key]=1
		sample contender="$contender" rep="$rep" failed="$reason"
		echo "  $key: $reason"
		tail -n 3 "$WORK/client" "$WORK/server" | sed 's/^/    | /'
	elif [ "$rep" = 0 ]; then
		count[$key]=$(next_iterations "${pace:-$value}")
		if [ "${count[$key]}" -gt $((2 * n)) ]; then
			turn 0 "$contender" # the pace of a run far too short is that of its start
		else
			printf '  %-44s about %s\n' "$key" "$value"
		fi
	elif [ "$method" = counters ]; then
		while IFS=: read -r counter value; do
			sample contender="$contender" rep="$rep" counter="$counter" value="${value# }" iterations="$n"
		done <<<"$per_message"
	else
		sample contender="$contender" rep="$rep" value="$value" ${mean:+mean="$mean" p99="$p99"} iterations="$n" ${note:+note="$note"}
	fi
}

{
	echo "kernel=$(uname -r)"
	echo "guest=$(. /ctl/options; echo "$GUEST")"
	echo "cpus=$(nproc)"
} >/out/about
prepare || exit 1
for name; do
	start=$SECONDS
	"group_$name"
	echo "$name took $((SECONDS - start)) s"
done
exit 0
