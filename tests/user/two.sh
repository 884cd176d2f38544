# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Programs on the device without a module. Sourced after tests/lib.sh.
#
#   device PROGRAM...   runs it by $LAUNCHER, as user 65534 where root runs the tests, with OPTIONS, the variables
#                       sanitized, and as DROP_IN says
#   two NAME SERVER... -- CLIENT...
#                       the client once the server listens on $PORT; both must end with 0

as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
OPTIONS='' DROP_IN=() sanitized=()
device() {
	timeout "$LIMIT" "${as_user[@]}" env KIWARP_USER="$OPTIONS" "${sanitized[@]}" "$LAUNCHER" "${DROP_IN[@]}" "$@" </dev/null
}

listens() { ss -ltnH "sport = :$1" | grep -q .; }

two() {
	local name=$1 server=() pid status=0 server_status=0
	shift
	selected "$name" || return 0
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	device "${server[@]}" >"$WORK/server" 2>&1 &
	pid=$!
	until_true listens "$PORT"
	device "$@" >"$WORK/client" 2>&1 || status=$?
	wait $pid || server_status=$?
	if ended_well $status "$WORK/client" && ended_well $server_status "$WORK/server"; then
		ok "$name"
		return
	fi
	not_ok "$name" "client $status, server $server_status"
	tail -n 5 "$WORK/server" "$WORK/client"
}
