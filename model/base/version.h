#pragma once

#include <string_view>

namespace gradsync {

// The version of all programs; CHANGELOG.md has what a user notices in it. The Python package has the same
// (tools/pytorch/gradsync/__init__.py).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace gradsync
