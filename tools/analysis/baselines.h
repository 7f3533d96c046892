#pragma once

#include <string_view>

// The strategies with which the results of other strategies are compared.
namespace gradsync::tools {

// The time of a strategy's step is compared with that of this strategy, unless the user names another
// baseline or this one was not measured.
inline constexpr std::string_view kDefaultBaseline = "core";
// The losses of a strategy's training are compared with those of this strategy.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
