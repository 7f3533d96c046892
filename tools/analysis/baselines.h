#pragma once

#include <string_view>

// The strategies with which others are compared, unless the user names another.
namespace gradsync::tools {

// Of times. A difference to the best known strategy is the most useful difference.
inline constexpr std::string_view kDefaultBaseline = "core";
// Of losses.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
