// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

namespace kiwu {

/// Has CRCs computed by ISA-L where it is installed. Openers of a device call this, with no lock: the dynamic linker
/// has its own, which a constructor that opens a device holds.
void use_isal();

} // namespace kiwu
