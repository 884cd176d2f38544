# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# SANITIZE: the compiler's options for SANITIZER. What ThreadSanitizer doesn't know are fences, which order nothing but
# atomic variables here. To look at a virtual table, UndefinedBehaviorSanitizer needs a descriptor, which tests leave it
# without.
sanitize_asan := -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer
sanitize_tsan := -fsanitize=thread -Wno-tsan -fno-omit-frame-pointer
SANITIZE := $(sanitize_$(SANITIZER))
ifneq ($(SANITIZER),)
CFLAGS ?= -O1 -g
CXXFLAGS ?= -O1 -g
endif
