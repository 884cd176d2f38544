# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# For test programs that share objects of tests/verbs; included at the end, with HERE, TOP and O set.

CXXFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wno-sign-compare -Wno-missing-field-initializers -Werror
compile := $(CXX) -std=c++20 $(CPPFLAGS) $(WARNINGS) -MMD -MP $(CXXFLAGS) -pthread

$(O)/%.o: $(HERE)%.cpp | $(O)/verbs
	$(compile) -c -o $@ $<
$(O)/verbs/%.o: $(TOP)/tests/verbs/%.cpp | $(O)/verbs
	$(compile) -c -o $@ $<
$(O)/verbs:
	mkdir -p $@

clean:
	rm -rf $(O)

-include $(wildcard $(O)/*.d $(O)/verbs/*.d)

.PHONY: all clean
