#pragma once

#include <string_view>

// The strategies with which other strategies are compared, unless the user names another baseline.
namespace gradsync::tools {

// The baseline for times. The most useful comparison is with the best known strategy.
inline constexpr std::string_view kDefaultBaseline = "core";
// The baseline for losses.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
