# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# make -f tests/programs/programs.mk O=DIR: builds in DIR. No Makefile, which `make tests` would take: these need packages
# that the guests' root trees don't have.
#   gloo_reduce   gloo: ranks connected by queue pair number sum up vectors
#   mpi_exchange  ranks exchange messages both ways, in bursts, and compare them
#   pyverbs_copy  rdma-core's bindings for Python: writes, reads, sends
#   rpma_copy     librpma: writes, flushes, reads, sends

HERE := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
O ?= $(HERE)../../build/tests/programs
CXXFLAGS ?= -O2 -g -Wall -Wextra -Werror

all: $(addprefix $(O)/,gloo_reduce mpi_exchange pyverbs_copy rpma_copy)
$(O)/gloo_reduce: $(HERE)gloo_reduce.cpp
	mkdir -p $(O)
	$(CXX) -std=c++20 $(CXXFLAGS) -o $@ $< -lgloo
$(O)/mpi_exchange: $(HERE)mpi_exchange.cpp
	mkdir -p $(O)
	OMPI_CXX=$(CXX) mpicxx -std=c++20 $(CXXFLAGS) -o $@ $<
$(O)/pyverbs_copy: $(HERE)pyverbs_copy
	install -D $< $@
$(O)/rpma_copy: $(HERE)rpma_copy.cpp
	mkdir -p $(O)
	$(CXX) -std=c++20 $(CXXFLAGS) -o $@ $< -lrpma -libverbs
.PHONY: all
