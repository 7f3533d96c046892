#pragma once

#include <string_view>

namespace gradsync::tools {

// Step times are usually compared with the step time of this strategy. The flag --baseline_row can name
// another strategy, or a variant such as "core@gloo".
inline constexpr std::string_view kDefaultBaseline = "core";
// The held-out losses of //bench:convergence are compared with the losses of this strategy.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
