# SPDX-License-Identifier: GPL-2.0
# kiwarp: `make help` lists what there is.

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
O ?= build
DESTDIR ?=
MULTIARCH ?= $(or $(shell dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null),$(shell $(CC) -print-multiarch))
LIBDIR ?= /usr/lib$(addprefix /,$(MULTIARCH))
INCLUDEDIR ?= /usr/include
MANDIR ?= /usr/share/man
BINDIR ?= /usr/bin
SBINDIR ?= /usr/sbin
UNITDIR ?= /usr/lib/systemd/system
UDEVDIR ?= /usr/lib/udev/rules.d

top := $(CURDIR)
out := $(abspath $(O))
release := $(shell cat VERSION)
version := $(or $(shell git -c safe.directory='*' describe --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//'),$(release))

# The kernel's make would take our O= for its own, hence nothing goes down by itself. These do, where they are given.
MAKEOVERRIDES :=
given = $(filter command environment override,$(origin $(1)))
pass = $(foreach v,$(1),$(if $(call given,$(v)),$(v)='$($(v))'))
kbuild = $(MAKE) -C $(KDIR) $(call pass,ARCH CROSS_COMPILE LLVM W C V CF CHECK KCFLAGS KIWARP_GCOV) KIWARP_VERSION='$(version)'
user = $(call pass,CROSS_COMPILE CC CXX NM CFLAGS CXXFLAGS LDFLAGS V)

test_dirs := $(patsubst %/Makefile,%,$(wildcard tests/*/Makefile))
kunit := $(and $(wildcard tests/kunit/Kbuild),$(shell grep -s '^CONFIG_KUNIT=' $(KDIR)/.config))
# Written for KUnit and timers as of Linux 6.13
kverbs := $(and $(kunit),$(shell grep -sl hrtimer_setup $(KDIR)/include/linux/hrtimer.h))
kunit_modules := $(if $(kunit),tests/kunit/kiwarp_proto_kunit.ko) $(if $(kverbs),tests/kverbs/kverbs.ko)

.PHONY: all
all: modules provider

## modules: the kernel module, for KDIR (default: the running kernel's headers); W=1 and C=1 as in the kernel
.PHONY: modules
modules: config
	@+$(kbuild) M=$(top) modules

.PHONY: config
config:
	@+scripts/probe-kernel $(KDIR) kmod/config.h $(call pass,ARCH CROSS_COMPILE LLVM)

## provider: the libibverbs provider, in O (default: build)
.PHONY: provider
provider:
	$(MAKE) -C provider O=$(out)/provider $(user)

## providers: the provider for the libibverbs of every rdma-core that it knows; for packages
.PHONY: providers
providers:
	$(MAKE) -C provider every O=$(out)/provider $(user)

## provider-abis: checks the provider against the private ABIs of all rdma-cores that it knows, whichever is installed
.PHONY: provider-abis
provider-abis:
	$(MAKE) -C provider abis $(user)

## user: the device without a module, as a library to preload or to take rdma-core's place, and kiwarp-user, in O (default: build)
.PHONY: user
user:
	$(MAKE) -C user O=$(out)/user KIWARP_VERSION='$(version)' LIBDIR='$(LIBDIR)' $(user)

## sockets: extended sockets, as a library to preload, and kiwarp-sockets, in O (default: build)
.PHONY: sockets
sockets:
	$(MAKE) -C sockets O=$(out)/sockets LIBDIR='$(LIBDIR)' $(user)

## tests: all test programs; the KUnit modules too where the kernel has KUnit
.PHONY: tests $(test_dirs) kunit
tests: $(test_dirs) $(if $(kunit),kunit)

## guest-tests: the same without what only the host runs; the wire suite runs tests/proto in the guest
.PHONY: guest-tests
guest-tests: $(filter-out tests/mutants tests/session tests/sockets tests/user,$(test_dirs)) $(if $(kunit),kunit)

$(test_dirs):
	$(MAKE) -C $@ O=$(out)/$@ $(user)
# Once, for the folders that link with it
$(patsubst %/Makefile,%,$(shell grep -ls tests/lib/beside.mk tests/*/Makefile)): tests/lib
kunit:
	@+$(kbuild) M=$(top)/tests/kunit modules
	@+$(if $(kverbs),$(kbuild) M=$(top)/tests/kverbs modules)

## fuzz: the fuzzers of the protocol library, with clang; tests/fuzz/run runs them
.PHONY: fuzz
fuzz:
	$(MAKE) -C tests/fuzz O=$(out)/tests/fuzz fuzzers $(user)

## install: module, provider and its registration, on this machine
.PHONY: install
install: modules provider
	@+$(kbuild) M=$(top) INSTALL_MOD_DIR=updates $(if $(DESTDIR),INSTALL_MOD_PATH=$(abspath $(DESTDIR))) modules_install
	$(MAKE) install-provider
	$(if $(DESTDIR),,depmod -a $(KVER))

.PHONY: install-provider
install-provider:
	install -d $(DESTDIR)$(LIBDIR)/libibverbs $(DESTDIR)/etc/libibverbs.d
	install $(out)/provider/libkiwarp-rdmav*.so $(DESTDIR)$(LIBDIR)/libibverbs/
	ln -sf libibverbs/$$(readlink $(out)/provider/libkiwarp.so.1) $(DESTDIR)$(LIBDIR)/libkiwarp.so.1
	ln -sf libkiwarp.so.1 $(DESTDIR)$(LIBDIR)/libkiwarp.so
	install -D -m 644 provider/kiwarpdv.h $(DESTDIR)$(INCLUDEDIR)/infiniband/kiwarpdv.h
	install -D -m 644 provider/kiwarpdv.7 $(DESTDIR)$(MANDIR)/man7/kiwarpdv.7
	install -m 644 $(out)/provider/kiwarp.driver $(DESTDIR)/etc/libibverbs.d/

## install-user: the device without a module; no root is needed where BINDIR, LIBDIR and MANDIR are the user's own
.PHONY: install-user
install-user: user
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/kiwarp-user/drop-in
	install $(out)/user/kiwarp-user $(DESTDIR)$(BINDIR)/
	install -m 644 $(out)/user/libkiwarp-user.so.0 $(DESTDIR)$(LIBDIR)/kiwarp-user/
	install -m 644 $(out)/user/drop-in/*.so.1 $(DESTDIR)$(LIBDIR)/kiwarp-user/drop-in/
	install -D -m 644 user/kiwarp-user.h $(DESTDIR)$(INCLUDEDIR)/kiwarp-user.h
	install -D -m 644 user/kiwarp-user.7 $(DESTDIR)$(MANDIR)/man7/kiwarp-user.7

## install-tools: the unit kiwarp@INTERFACE.service that keeps links, kiwarp-link, kiwarp-selftest, kiwarp-show, man pages, a udev rule
.PHONY: install-tools
install-tools:
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(SBINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man7 $(DESTDIR)$(MANDIR)/man8
	install tools/kiwarp-show $(DESTDIR)$(BINDIR)/
	install -m 644 tools/kiwarp-show.1 $(DESTDIR)$(MANDIR)/man1/
	install tools/kiwarp-link tools/kiwarp-selftest $(DESTDIR)$(SBINDIR)/
	install -m 644 tools/kiwarp.7 $(DESTDIR)$(MANDIR)/man7/
	install -m 644 tools/kiwarp-link.8 tools/kiwarp-selftest.8 $(DESTDIR)$(MANDIR)/man8/
	install -D -m 644 tools/kiwarp@.service $(DESTDIR)$(UNITDIR)/kiwarp@.service
	install -D -m 644 tools/95-kiwarp.rules $(DESTDIR)$(UDEVDIR)/95-kiwarp.rules

## guest-install: what has been built, into DESTDIR for the kernel KVER, without building anything
.PHONY: guest-install
guest-install:
	@test -n '$(DESTDIR)' || { echo 'guest-install needs DESTDIR' >&2; exit 2; }
	install -d $(DESTDIR)/lib/modules/$(KVER)/updates $(DESTDIR)/usr/lib/kiwarp/tests
	$(if $(filter-out -,$(KVER)),install -m 644 kmod/kiwarp.ko $(wildcard $(kunit_modules)) \
		$(DESTDIR)/lib/modules/$(KVER)/updates/)
	if [ -d $(out)/provider ]; then $(MAKE) install-provider DESTDIR=$(DESTDIR) O=$(out); fi
	if [ -d $(out)/user ]; then install -t $(DESTDIR)/usr/lib/kiwarp/tests \
		$(out)/user/kiwarp-user $(out)/user/libkiwarp-user.so.0; fi
	if [ -d $(out)/tests ]; then find $(out)/tests -type f -perm -u+x ! -name '*.so' \
		-exec install -t $(DESTDIR)/usr/lib/kiwarp/tests {} +; fi

dkms_files := Makefile Kbuild VERSION LICENSES scripts/probe-kernel kmod/Kbuild \
	$(wildcard kmod/*.[ch] $(foreach folder,cm ud session proto,kmod/$(folder)/*.[ch]) uapi/*.h)

## dkms-install: the module's source into DKMS, which builds it for each kernel; anew where it has the same version already
.PHONY: dkms-install
dkms-install: dir = /usr/src/kiwarp-$(release)
dkms-install:
	$(if $(DESTDIR),,if dkms status kiwarp/$(release) | grep -q .; then dkms remove kiwarp/$(release) --all; fi)
	rm -rf $(DESTDIR)$(dir)
	install -d $(DESTDIR)$(dir)
	cp -r --parents $(filter-out kmod/config.h,$(dkms_files)) $(DESTDIR)$(dir)
	sed 's/@VERSION@/$(release)/' dkms.conf >$(DESTDIR)$(dir)/dkms.conf
	echo '$(release)' >$(DESTDIR)$(dir)/VERSION
	$(if $(DESTDIR),,dkms install --force kiwarp/$(release))

installed := $(LIBDIR)/libibverbs/libkiwarp-rdmav*.so $(LIBDIR)/libkiwarp.so.1 $(LIBDIR)/libkiwarp.so \
	$(INCLUDEDIR)/infiniband/kiwarpdv.h $(MANDIR)/man7/kiwarpdv.7 /etc/libibverbs.d/kiwarp.driver \
	$(BINDIR)/kiwarp-show $(MANDIR)/man1/kiwarp-show.1 \
	$(SBINDIR)/kiwarp-link $(SBINDIR)/kiwarp-selftest $(MANDIR)/man7/kiwarp.7 $(MANDIR)/man8/kiwarp-link.8 \
	$(MANDIR)/man8/kiwarp-selftest.8 \
	$(UNITDIR)/kiwarp@.service $(UDEVDIR)/95-kiwarp.rules \
	$(BINDIR)/kiwarp-user $(addprefix $(LIBDIR)/kiwarp-user/,libkiwarp-user.so.0 drop-in/libibverbs.so.1 drop-in/librdmacm.so.1) \
	$(INCLUDEDIR)/kiwarp-user.h $(MANDIR)/man7/kiwarp-user.7

## uninstall: takes back what install, install-user, install-tools and dkms-install have installed, for every kernel; not what packages have
.PHONY: uninstall
uninstall:
	@DESTDIR='$(DESTDIR)' scripts/uninstall $(addprefix $(DESTDIR),$(installed))

# What of checkpatch's opinions we leave out, and why:
#  FILE_PATH_CHANGES, SPDX_LICENSE_TAG, EMBEDDED_FILENAME: about patches to the kernel tree
#  ALLOC_WITH_SIZEOF: wants kzalloc_obj(), which our older kernels lack
#  BIT_MACRO: takes limits for bits          UNCOMMENTED_DEFINITION: doesn't see that kernel-doc has the comment
CHECKPATCH ?= $(firstword $(wildcard $(KDIR)/scripts/checkpatch.pl $(KDIR)/source/scripts/checkpatch.pl))
checkpatch_options := --no-tree --strict --terse --no-summary --show-types --max-line-length=100 \
	--ignore FILE_PATH_CHANGES,SPDX_LICENSE_TAG,EMBEDDED_FILENAME,ALLOC_WITH_SIZEOF,BIT_MACRO,UNCOMMENTED_DEFINITION
# trace.h is written in the macros of tracepoints, and session/os.h is C of user space.
kernel_files := $(filter-out kmod/config.h kmod/trace.h kmod/session/os.h,$(wildcard kmod/*.[ch] $(foreach folder,cm ud session proto,kmod/$(folder)/*.[ch]) uapi/*.h tests/kunit/*.[ch] tests/kverbs/*.[ch] tests/bench/modules/*.[ch] tests/guest/plant/*.c tests/life/late/*.c tests/life/sockets/*.c))
cxx_files := $(shell find provider user sockets tools tests \( -name '*.cpp' -o -name '*.hpp' \) 2>/dev/null)

## style: checkpatch on the kernel code, clang-format and clang-tidy on the C++
.PHONY: style style-kernel style-format style-tidy
style: style-kernel style-format style-tidy
style-kernel:
ifeq ($(CHECKPATCH),)
	@echo 'style: no checkpatch.pl in $(KDIR), set CHECKPATCH'
else
	perl $(CHECKPATCH) $(checkpatch_options) -f $(kernel_files)
endif
style-format:
	$(if $(cxx_files),clang-format --dry-run -Werror $(cxx_files))
# Programs of tests/programs need packages that only the machine of that suite has.
style-tidy:
	printf '%s\0' $(filter-out tests/programs/%,$(filter %.cpp,$(cxx_files))) | xargs -0 -r -n 1 -P $$(nproc) tests/style/tidy

## check: every test suite, see scripts/check
## demo: the main job from start to end, see scripts/demo
## bench: what we claim about speed, see scripts/bench
## conformance: the wire tests, and Documentation/conformance.md from what came of them
.PHONY: check demo bench conformance
check demo bench conformance:
	scripts/$@

## man: Documentation/kiwarp.7.md from the man page; needs mandoc
.PHONY: man man-page
man:
	$(MAKE) -s man-page >Documentation/kiwarp.7.md
man-page:
	@printf '<!-- Made by make man from tools/kiwarp.7 -->\n\n'
	@mandoc -I os=kiwarp -T markdown tools/kiwarp.7

## clean: forget everything that was built here
.PHONY: clean
clean:
	find kmod tests/kunit tests/kverbs \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
		-o -name modules.order -o -name Module.symvers \) -delete 2>/dev/null || :
	rm -f modules.order Module.symvers .modules.order.cmd .Module.symvers.cmd kmod/config.h
	rm -rf $(out)/provider $(out)/user $(out)/tests

## help: this list
.PHONY: help
help:
	@echo 'kiwarp $(version)'
	@sed -n 's/^## /  make /p' Makefile
