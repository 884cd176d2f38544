# SPDX-License-Identifier: GPL-2.0
# Turns a suite's output into lines "pass NAME", "fail NAME[: REASON]" and "skip NAME[: REASON]". Understood are
#   the words of tests/lib.sh:  ok NAME   not ok NAME: REASON   skip NAME: REASON
#   GoogleTest                  [       OK ] CASE (TIME)   [  FAILED  ] CASE (TIME)   [  SKIPPED ] CASE (TIME)
#   KUnit's cases               "    ok N CASE" and "    not ok N CASE", as they are or out of the kernel log;
#                               its suites ("ok N SUITE") and parameters (deeper) would count a case again

{ sub(/\r$/, "") }
/^\[ *[0-9]+\.[0-9]+\] / { sub(/^\[ *[0-9]+\.[0-9]+\] /, "") }
/^    (not )?ok [0-9]+ / {
	failed = /^    not /
	sub(/^    (not )?ok [0-9]+ (- )?/, "")
	skipped = sub(/ *# SKIP */, ": ")
	sub(/: $/, "")
	print skipped ? "skip" : failed ? "fail" : "pass", $0
	next
}
/^(not )?ok [0-9]+ / { next }
/^ok ./ { print "pass", substr($0, 4); next }
/^not ok ./ { print "fail", substr($0, 8); next }
/^skip ./ { print "skip", substr($0, 6); next }
/^\[ +(OK|FAILED|SKIPPED) +\] .*\([0-9]+ ms\)$/ {
	word = $2 == "OK" ? "pass" : $2 == "FAILED" ? "fail" : "skip"
	sub(/^\[[^]]*\] /, "")
	sub(/ \([0-9]+ ms\)$/, "")
	print word, $0
}
