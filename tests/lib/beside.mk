# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# For folders whose programs link with tests/lib; included before their rules, with HERE, TOP and O set. $(LIBRARY) comes behind
# the objects in a program's list.

LIBRARY := $(abspath $(O)/../lib)/libkiwarptest.a
# The provider is the library of kiwarpdv.h.
PROVIDER ?= $(abspath $(O)/../../provider)

# Its own Makefile knows whether it is up to date. The top Makefile builds it before the folders, which are built at once.
$(LIBRARY): FORCE
	@$(MAKE) --no-print-directory -C $(TOP)/tests/lib O=$(@D)
$(PROVIDER)/libkiwarp.so:
	$(MAKE) -C $(TOP)/provider O=$(PROVIDER)

.PHONY: FORCE
