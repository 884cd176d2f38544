// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "touch.hpp"

#include <csignal>

namespace storm {

thread_local sigjmp_buf *after_fault = nullptr;

namespace {

void on_fault(int number)
{
	if (after_fault)
		siglongjmp(*after_fault, 1); // NOLINT(cert-err52-cpp)
	// Back in the access, it faults again and is the end.
	(void)signal(number, SIG_DFL); // NOLINT(bugprone-signal-handler,cert-sig30-c)
}

} // namespace

void survive_faults()
{
	struct sigaction action {};

	action.sa_handler = on_fault;
	sigaction(SIGSEGV, &action, nullptr);
	sigaction(SIGBUS, &action, nullptr);
}

} // namespace storm
