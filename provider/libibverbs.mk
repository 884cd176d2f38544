# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Interface of the libibverbs that the linker takes. Sets
#   PABI         the number of its private ABI, which is part of a provider's file name
#   RDMA_CORE    the first release of rdma-core with its private layouts, see private_abi.hpp
#   RDMA_CORES   all such known releases
#   PABIS        the numbers of their private ABIs; $(call releases_of,PABI) are the releases with one
# The number is not enough: members were added without a new one. The public interface grew each time.

NM ?= nm
LIBIBVERBS := $(realpath $(shell $(CC) -print-file-name=libibverbs.so))

# Private ABI : version of the public interface : release
libibverbs_known := 34:1.12:34 34:1.13:35 34:1.14:36 57:1.14:57 59:1.15:59 59:1.16:62 64:1.17:64 65:1.18:65

libibverbs_versions := $(shell $(NM) -D '$(LIBIBVERBS)' 2>/dev/null | \
	sed -n 's/.*@@*IBVERBS_\(PRIVATE_[0-9]*\|1\.[0-9]*\)$$/\1/p' | sort -Vu)
PABI := $(patsubst PRIVATE_%,%,$(filter PRIVATE_%,$(libibverbs_versions)))
libibverbs_interface := $(lastword $(filter-out PRIVATE_%,$(libibverbs_versions)))
RDMA_CORE := $(patsubst $(PABI):$(libibverbs_interface):%,%,$(filter $(PABI):$(libibverbs_interface):%,$(libibverbs_known)))
RDMA_CORES := $(foreach known,$(libibverbs_known),$(lastword $(subst :, ,$(known))))
PABIS := $(sort $(foreach known,$(libibverbs_known),$(firstword $(subst :, ,$(known)))))
releases_of = $(foreach known,$(filter $(1):%,$(libibverbs_known)),$(lastword $(subst :, ,$(known))))

ifeq ($(PABI),)
$(error no libibverbs.so with private symbols: install libibverbs-dev)
endif
ifeq ($(RDMA_CORE),)
$(error $(LIBIBVERBS) has private ABI $(PABI) with public interface $(libibverbs_interface), and this provider knows \
	$(subst :, with ,$(foreach known,$(libibverbs_known),$(patsubst %:$(lastword $(subst :, ,$(known))),%,$(known)))) \
	(rdma-core 34 to 65))
endif
