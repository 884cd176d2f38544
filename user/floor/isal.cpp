// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "isal.hpp"

#include <atomic>
#include <dlfcn.h>

#include "proto/crc.h"

namespace kiwu {

namespace {

// As in ISA-L's crc.h
using Crc = unsigned int (*)(const unsigned char *bytes, int length, unsigned int crc);

Crc isal_crc = nullptr; // set before update() is called

u32 update(u32 crc, const void *p, size_t n)
{
	return isal_crc(static_cast<const unsigned char *>(p), static_cast<int>(n), crc);
}

} // namespace

void use_isal()
{
	static constinit std::atomic<bool> tried = false;

	if (tried.exchange(true))
		return;
	void *library = ::dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);
	const auto found = library ? reinterpret_cast<Crc>(::dlsym(library, "crc32_iscsi")) : nullptr;

	if (found) {
		isal_crc = found;
		kiw_crc_prefer("ISA-L", update);
	} else if (library) {
		::dlclose(library);
	}
}

} // namespace kiwu
