#pragma once

#include <string_view>

// Defines the names of two strategies. Step times of other strategies are compared with those of
// kDefaultBaseline, and training losses with those of kLossBaseline.
namespace gradsync::tools {

// The strategy with whose step time the step times of other strategies are compared, if it was measured and
// the flag --baseline_row names no other strategy.
inline constexpr std::string_view kDefaultBaseline = "core";
// The name of the strategy with whose training losses the losses of other strategies are compared.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
