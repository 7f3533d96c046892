#pragma once

#include <string_view>

// The strategies with which the results of other strategies are compared.
namespace gradsync::tools {

// Times of steps are compared with those of this strategy, unless the user names another baseline or this one
// was not measured.
inline constexpr std::string_view kDefaultBaseline = "core";
// Losses of training runs are compared with those of this strategy.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
