#pragma once

#include <string_view>

namespace gradsync {

// The version of all programs; CHANGELOG.md lists the changes that users notice. The Python package has the
// same version (tools/pytorch/gradsync/__init__.py).
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace gradsync
