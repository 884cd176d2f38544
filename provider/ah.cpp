// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ah.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "context.hpp"
#include "domain.hpp"
#include "memory.hpp"
#include "private_abi.hpp"

namespace kiw {

static_assert(offsetof(Ah, ibv) == 0);
static_assert(sizeof(kiw_ud_dest::dgid) == sizeof(ibv_gid));

ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr)
{
	ib_uverbs_create_ah_resp response{};

	if (const int error = adopt(pd)) {
		errno = error;
		return nullptr;
	}
	Owner<Ah> ah = make<Ah>();
	if (!ah) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int error = ibv_cmd_create_ah(pd, &ah->ibv, attr, &response, sizeof(response))) {
		errno = error;
		return nullptr;
	}
	std::memcpy(ah->dest.dgid, &attr->grh.dgid, sizeof(ah->dest.dgid));
	ah->dest.sgid_index = attr->grh.sgid_index;
	ah->dest.hop_limit = attr->grh.hop_limit;
	ah->dest.traffic_class = attr->grh.traffic_class;
	ah->origin = Context::from(pd->context).origin;
	return &ah.release()->ibv;
}

int destroy_ah(ibv_ah *ah)
{
	if (Ah::from(ah).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_destroy_ah(ah))
		return error;
	destroy(&Ah::from(ah));
	return 0;
}

} // namespace kiw
