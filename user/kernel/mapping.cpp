// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// In place of provider/mapping.cpp: a ring is memory of the process already, of the object that it belongs to, which
// outlives the provider's use of it. Its address is the number of its mapping.
#include "mapping.hpp"

#include <cerrno>

#include "memory.hpp"

namespace kiw {

void Mapping::release()
{
	destroy(this);
}

int Mappings::acquire(int, const kiw_ring_geometry &geometry, Mapping *&mapping)
{
	Owner<Mapping> made = make<Mapping>();

	if (!made)
		return ENOMEM;
	made->base_ = reinterpret_cast<std::byte *>(geometry.mapping); // NOLINT(performance-no-int-to-ptr)
	mapping = made.release();
	return 0;
}

} // namespace kiw
