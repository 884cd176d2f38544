# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# SANITIZER=asan or tsan: programs on a library that was built with it. They know nothing of a sanitizer, whose library has to
# come before all others then: kiwarp-user finds it in LD_PRELOAD, and puts ours in front of it, which defines none of the
# names that the sanitizer catches. Sourced after two.sh, with top; "device" gets what is to be set.
#
#   no_logs_either   a line in a sanitizer's log is a failure

mkdir -m 1777 "$WORK/logs"
case ${SANITIZER:-} in
asan)
	# Programs don't free all that they have; the GoogleTests ask for leaks when they are through.
	sanitized=(LD_PRELOAD="$(cc -print-file-name=libasan.so)" UBSAN_OPTIONS=print_stacktrace=1
		ASAN_OPTIONS="verify_asan_link_order=0:log_path=$WORK/logs/asan:leak_check_at_exit=0")
	;;
tsan)
	sanitized=(LD_PRELOAD="$(cc -print-file-name=libtsan.so)"
		TSAN_OPTIONS="log_path=$WORK/logs/tsan:exitcode=0:history_size=4:second_deadlock_stack=1:die_after_fork=0:suppressions=$WORK/suppressions")
	cp "$top/tests/user/tsan.suppressions" "$WORK/suppressions"
	;;
esac
no_logs() {
	local log
	for log in "$WORK"/logs/*; do
		# A thread of a child of fork() has the address of one that is its parent's alone.
		[ ! -f "$log" ] || sed -i '/: dup thread with used id /d' "$log"
	done
	[ -n "$(find "$WORK/logs" -type f -size +0)" ] || return 0
	cat "$WORK/logs/"*
	grep -h SUMMARY "$WORK/logs/"* | sort | uniq -c
	return 1
}
no_logs_either() { [ -z "${SANITIZER:-}" ] || t "no line of $SANITIZER's" no_logs; }
