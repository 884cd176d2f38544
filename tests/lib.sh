# SPDX-License-Identifier: GPL-2.0
# For test scripts: source this, report every behaviour by name, end with "finish".
#
#   ok NAME               not_ok NAME REASON...      skip NAME REASON...
#   t NAME COMMAND...     ok when COMMAND ends with 0; LIMIT=SECONDS COMMAND may take (60); a function limits itself
#   step TEST...          a test (t, pair and others) that later ones need: it also runs where ONLY picks others, and its failure counts
#   selected NAME...      whether ONLY picks one of these, or this is part of a step. A function that takes long for its test asks first
#   gtests PROGRAM ARGUMENT...
#                         its GoogleTests, of which a failure is one of the suite
#   left COMMAND...       right COMMAND...           in that host, which is a namespace, or a guest: not functions, but commands,
#                         which other programs can call as well
#   outside HOST COMMAND...
#                         in the kernel of that host, but outside of its namespace, where RDMA devices have all of their files
#   everywhere COMMAND... so in each kernel, of which there are KERNELS (1 or 2)
#   parameter MODULE NAME VALUE
#                         of a module, in each kernel
#   until_true COMMAND... tries until it succeeds; that it doesn't within LIMIT seconds is a failed test
#   soon COMMAND...       the same as a condition, for "if", "||" and t: status 1 where until_true reports
#   pause_until COMMAND...
#                         the same for a wait that the next test can do without: neither fails
#   found_by_interface DEVICE
#                         rdma_cm finds it by its interface, which RDMA core then shows for its GID (since Linux 6.6): else by a
#                         MAC address alone, which lo and tunnels lack
#   qdisc OPTION...       how both directions of the link behave, in netem's words; none for a good link
#   pair NAME SERVER... -- CLIENT...
#                         SERVER in right, CLIENT in left once the server listens; both must end with 0.
#                         PORT= the TCP port that the server listens on
#                         ENDLESS=1 for a server that doesn't end by itself: it must outlive the client
#                         SERVER_HOST= CLIENT_HOST= other hosts, "-" for outside of both
#
# ONLY=PATTERN in the environment picks tests by name, as in "case": others neither run nor report. Steps run all the same, and
# commands between tests. A suite whose tests need each other empties ONLY after it has sourced this.

FAILED=0
ONLY=${ONLY:-}
STEP=
LIMIT=60
WORK=$(mktemp -d)
# A child that is killed before it has begun still has this trap.
trap '[ "$BASHPID" = $$ ] && rm -rf "$WORK"' EXIT
# The file that says that a test has reported; a suite's other scripts have the same.
export PICKED=${PICKED:-$WORK/picked}
KERNELS=1
if [ -e /run/netns/control ]; then
	KERNELS=2
	right mkdir "$WORK"
fi

# picked NAME
# shellcheck disable=SC2053 # a pattern
picked() { [ -z "$ONLY" ] || { [[ $1 = $ONLY ]] && : >"$PICKED"; }; }
selected() {
	local name
	[ -n "$ONLY" ] && [ -z "$STEP" ] || return 0
	# shellcheck disable=SC2053 # a pattern
	for name; do [[ $name != $ONLY ]] || return 0; done
	return 1
}
step() {
	local STEP=1
	"$@"
}

ok() { ! picked "$1" || echo "ok $*"; }
not_ok() {
	local name=$1
	shift
	picked "$name" || [ -n "$STEP" ] || return 0
	FAILED=$((FAILED + 1))
	echo "not ok $name: ${*:-failed}"
}
skip() {
	local name=$1
	shift
	! picked "$name" || echo "skip $name: $*"
}
finish() {
	# A script that another one of its suite has called may have none of them.
	if [ -n "$ONLY" ] && [ "$PICKED" = "$WORK/picked" ] && [ ! -e "$PICKED" ]; then
		echo "no test is called $ONLY" >&2
		exit 1
	fi
	exit $((FAILED > 0))
}

gtests() {
	if [ -n "$ONLY" ]; then
		"$@" --gtest_filter="$ONLY" --gtest_list_tests | grep -q '^  ' || return 0
		: >"$PICKED"
		set -- "$@" --gtest_filter="$ONLY"
	fi
	"$@" || FAILED=$((FAILED + 1))
}

outside() {
	local IN
	outside_of "$1"
	shift
	"${IN[@]}" "$@"
}
# outside_of HOST: sets IN to the words that put a command there
outside_of() { if [ "$1$KERNELS" = right2 ]; then IN=(right nsenter -t 1 -n -m); else IN=(); fi; }
everywhere() { outside left "$@" && { [ $KERNELS = 1 ] || outside right "$@"; }; }
# shellcheck disable=SC2016 # for sh
parameter() { everywhere sh -c 'echo "$2" >"$1"' sh "/sys/module/$1/parameters/$2" "$3"; }

SERVER_HOST=right
CLIENT_HOST=left
# in_host HOST: sets IN to the words that put a command there
in_host() { if [ "$1" = - ]; then IN=(); else IN=("$1"); fi; }

found_by_interface() { grep -q . "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0" 2>/dev/null; }

qdisc() {
	left tc qdisc delete dev veth0 root 2>/dev/null
	right tc qdisc delete dev veth1 root 2>/dev/null
	[ $# = 0 ] || { left tc qdisc add dev veth0 root netem "$@" && right tc qdisc add dev veth1 root netem "$@"; }
}

# limited COMMAND...: COMMAND within LIMIT seconds
limited() { timeout -k 5 "$LIMIT" "$@"; }

# why STATUS: a status in words
why() { if [ "$1" = 124 ]; then echo "took more than $LIMIT s"; else echo "status $1"; fi; }

t() {
	local name=$1 status=0 limit=limited
	shift
	selected "$name" || return 0
	[ "$(type -t "$1")" != function ] || limit=
	$limit "$@" >"$WORK/output" 2>&1 || status=$?
	if [ $status = 0 ]; then
		ok "$name"
	else
		not_ok "$name" "$(why $status)"
		tail -n 20 "$WORK/output" | sed 's/^/    | /'
	fi
}

soon() {
	local end=$((SECONDS + LIMIT))
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}
pause_until() { soon "$@" || :; }
until_true() {
	soon "$@" || STEP=1 not_ok "until_true $*" "not within $LIMIT s (${BASH_SOURCE[1]##*/}, line ${BASH_LINENO[0]})"
}

# listens: whether a socket of the server's host listens on PORT. RDMA listeners have one there, too.
listens() {
	local sockets port
	printf -v port %04X "${PORT:?}"
	in_host "$SERVER_HOST"
	sockets=$("${IN[@]}" cat /proc/net/tcp /proc/net/tcp6)
	[[ $sockets =~ :$port\ 0+:0000\ 0A\  ]]
}
not_listening() { ! listens; }
# settled PID: the server listens, or is no more
settled() { listens || ! kill -0 "$1" 2>/dev/null; }

# ended_well STATUS OUTPUT: whether a program ended well, or is an rping that was done. At its end rping's main thread closes the
# channel for events, which its other thread may ask once more, and that ends rping with 255. Whatever fails before is said, too.
ended_well() {
	[ "$1" != 0 ] || return 0
	[ "$1" = 255 ] && grep -qx 'rdma_get_cm_event: Bad file descriptor' "$2" && ! grep -qvxE \
		'rdma_get_cm_event: Bad file descriptor|(client|server) DISCONNECT EVENT\.\.\.|wait for RDMA_READ_ADV state 10' "$2"
}

pair() {
	local name=$1 server=() pid status=0 server_status=0
	selected "$name" || return 0
	shift
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	# The last server's socket may outlive it by a moment.
	LIMIT=5 pause_until not_listening
	in_host "$SERVER_HOST"
	"${IN[@]}" timeout -k 5 "$LIMIT" "${server[@]}" >"$WORK/server" 2>&1 &
	pid=$!
	pause_until settled "$pid"
	in_host "$CLIENT_HOST"
	limited "${IN[@]}" "$@" >"$WORK/client" 2>&1 || status=$?
	! ended_well $status "$WORK/client" || status=0
	if [ $status = 0 ] && [ -n "${ENDLESS:-}" ]; then
		kill "$pid" 2>/dev/null || server_status=$?
		wait "$pid" || :
	else
		# A client that failed leaves its server waiting for ever.
		[ $status = 0 ] || kill "$pid" 2>/dev/null || :
		wait "$pid" || server_status=$?
		! ended_well $server_status "$WORK/server" || server_status=0
	fi
	if [ $status = 0 ] && [ $server_status = 0 ]; then
		ok "$name"
		return
	fi
	if [ $status = 0 ]; then
		not_ok "$name" "server: $(why $server_status)"
	else
		not_ok "$name" "client: $(why $status)"
	fi
	# What a program says of an error comes first in its file: the rest is written when it ends.
	tail -n 40 "$WORK/client" | sed 's/^/    client | /'
	tail -n 40 "$WORK/server" | sed 's/^/    server | /'
}
