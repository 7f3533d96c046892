#pragma once

#include <string_view>

namespace gradsync::tools {

// Step times are usually compared with the step time of this strategy. The flag --baseline_row can name
// another strategy.
inline constexpr std::string_view kDefaultBaseline = "core";
// Training losses are compared with the training losses of this strategy.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
