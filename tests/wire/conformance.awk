# SPDX-License-Identifier: GPL-2.0
# awk -f conformance.awk [-v document=1 [-v library=RESULTS]] RESULTS RULES
# RESULTS is what results.awk makes of a run. Says which rules lack a test that passed, or prints the document, for which
# the library's run has results of its own.

function trim(s) { gsub(/^ +| +$/, "", s); return s }
function problem(where, what) { print "not ok " where ": " what; problems++ }

BEGIN {
	while (library && (getline line <library) > 0) {
		split(line, part, " ")
		outcome_by_library[part[2]] = part[1]
	}
}
FNR == NR {
	name = $2
	sub(/:$/, "", name)
	outcome[name] = $1
	if (name !~ /^[A-Za-z]+\.r[0-9]/)
		next
	order[++names] = name
	rest = name
	while (match(rest, /[._]r[0-9][0-9][0-9]_/)) {
		rule = substr(rest, RSTART + 2, 3) + 0
		named[rule] = named[rule] " " name
		rest = substr(rest, RSTART + RLENGTH - 1)
	}
	next
}
/^#/ || /^$/ { next }
/^= / { section = substr($0, 3); next }
/^T \|/ {
	split($0, part, "|")
	line = "|"
	for (i = 2; i <= 5; i++)
		line = line " " trim(part[i]) " |"
	terminates = terminates line "\n"
	next
}
/^  \+ / {
	elsewhere[last] = elsewhere[last] " " $2
	next
}
/^  - / { reason[last] = substr($0, 5); next }
/^[0-9]+ \|/ {
	split($0, part, "|")
	last = part[1] + 0
	if (last != rules + 1)
		problem("rules", last " doesn't follow " rules)
	rules = last
	section_of[last] = section
	rfc[last] = trim(part[2])
	text[last] = trim(part[3])
	next
}
{ problem("rules", "a line that says nothing: " $0) }

# state(NAME): how the test ended
function state(name) { return name in outcome ? outcome[name] : "not run" }

function check_rule(rule,    tests, n, i, name) {
	n = split(named[rule] " " elsewhere[rule], tests, " ")
	if (rule in reason) {
		if (n)
			problem("rule_" rule, "has a test, and is said not to apply")
		return
	}
	if (!n)
		problem("rule_" rule, "has no test")
	for (i = 1; i <= n; i++) {
		name = tests[i]
		sub(/^[a-z]+:/, "", name)
		if (state(name) != "pass")
			problem("rule_" rule, tests[i] ": " state(name))
	}
}

function word(passed) { return passed ? "passed" : "**failed**" }
function document_rule(rule,    tests, n, i, name, list, passed, by_library) {
	n = split(named[rule] " " elsewhere[rule], tests, " ")
	passed = by_library = n
	for (i = 1; i <= n; i++) {
		name = tests[i]
		sub(/^[a-z]+:/, "", name)
		if (state(name) != "pass")
			passed = 0
		if (outcome_by_library[name] != "pass")
			by_library = 0
		sub(/:/, ": ", tests[i])
		list = list (i > 1 ? "<br>" : "") "`" tests[i] "`"
	}
	print "| " rule " | " text[rule] " | " rfc[rule] " | " list " | " word(passed) " | " \
		(library ? word(by_library) : "not run") " |"
}

END {
	for (rule in named)
		if (!(rule in text))
			problem("rule_" rule, "is named by" named[rule] ", and isn't there")
	if (!document) {
		for (rule = 1; rule <= rules; rule++)
			check_rule(rule)
		if (!problems)
			print "ok every_rule_has_tests_that_passed"
		exit problems > 0
	}

	for (rule = 1; rule <= rules; rule++)
		if (rule in reason)
			left_out++
	print "# Conformance\n"
	print "Made by `make conformance` from the tests and their last run; `tests/wire/rules` lists the rules.\n"
	print "Of " rules " rules that RFCs 5040, 5041, 5042, 5044, 6580, 6581 and 7306 make for the wire, " \
		rules - left_out " apply. Tests"
	print "without a suite are of `tests/wire`: a peer that builds every byte itself, and shares no code with the module."
	print "Each runs with CRC and without, with kiwarp connecting and listening, and with its bytes in one TCP segment, in"
	print "segments of one byte, and cut in two at every place, wherever that can make a difference."
	print "The library is the device without a module; its run is that of the suite `user-wire`."
	for (rule = 1; rule <= rules; rule++) {
		if (rule in reason)
			continue
		if (section_of[rule] != before) {
			before = section_of[rule]
			print "\n## " before "\n"
			print "| | Rule | RFC | Tests | Module | Library |"
			print "|---|---|---|---|---|---|"
		}
		document_rule(rule)
	}
	print "\n## Rules that do not apply\n"
	print "| | Rule | RFC | Why |"
	print "|---|---|---|---|"
	for (rule = 1; rule <= rules; rule++)
		if (rule in reason)
			print "| " rule " | " text[rule] " | " rfc[rule] " | " reason[rule] " |"
	print "\n## Terminates that implementations send differently\n"
	print "Layer, type and code. kiwarp understands the others' codes in any case.\n"
	print "| Situation | kiwarp | Others | Why |"
	print "|---|---|---|---|"
	printf "%s", terminates
}
