#pragma once

#include <string_view>

// The strategies with which others are compared, unless the user names another baseline.
namespace gradsync::tools {

// Times of steps are compared with those of this strategy, because it is usually the fastest.
inline constexpr std::string_view kDefaultBaseline = "core";
// Losses of training runs are compared with those of this strategy.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
