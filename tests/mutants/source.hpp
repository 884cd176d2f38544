// SPDX-License-Identifier: GPL-2.0
// Sources of C, and what can be changed in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mutants {

/// A changed place. The text from @begin to @end is replaced.
struct Mutant {
	std::string file; // below the folder of the module, as in "proto/ddp.c"
	int line;
	std::string function;
	std::size_t begin, end;
	std::string text;
	// The lines that change, without comments and in one line: before and after
	std::string before, after;

	std::string apply(std::string_view source) const;
};

/// All mutants of a file in the order of its text: of a header, those of its inline functions
std::vector<Mutant> mutants_of(const std::string &file, std::string_view source);

/// A header with its inline functions declared only, for the files that include it ...
std::string declared(std::string_view header);
/// ... and these functions, to be compiled as a file of their own, or nothing
std::string defined(const std::string &file, std::string_view header);

} // namespace mutants
