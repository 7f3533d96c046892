#pragma once

#include <string_view>

// The strategies with which others are compared, unless the user names another baseline.
namespace gradsync::tools {

// The baseline for times is the strategy that is usually the fastest.
inline constexpr std::string_view kDefaultBaseline = "core";
// The baseline for losses.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
