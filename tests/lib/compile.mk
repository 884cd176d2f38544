# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# How test programs are compiled; included at the end, with HERE and O set.

CXXFLAGS ?= -O0 -g
WARNINGS := -Wall -Wextra -Wshadow -Wno-sign-compare -Wno-missing-field-initializers -Werror
compile := $(CXX) -std=c++20 $(CPPFLAGS) $(WARNINGS) -MMD -MP $(CXXFLAGS) -pthread

$(O)/%.o: $(HERE)%.cpp | $(O)
	$(compile) -c -o $@ $<
$(O):
	mkdir -p $@

clean:
	rm -rf $(O)

-include $(wildcard $(O)/*.d)

.PHONY: all clean
