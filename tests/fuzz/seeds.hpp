// SPDX-License-Identifier: GPL-2.0
// Streams to begin with, made of the messages of tests/proto/vectors.h
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "script.hpp"

std::vector<std::pair<std::string, Script>> seed_scripts();
