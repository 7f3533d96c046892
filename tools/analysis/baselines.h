#pragma once

#include <string_view>

// Defines the names of two strategies, kDefaultBaseline and kLossBaseline. The results of other strategies
// are compared with the results of these two.
namespace gradsync::tools {

// The name of the strategy with whose step time the step times of other strategies are compared. Another
// baseline is used if the user names one, or if kDefaultBaseline was not measured.
inline constexpr std::string_view kDefaultBaseline = "core";
// The name of the strategy with whose training losses the losses of other strategies are compared.
inline constexpr std::string_view kLossBaseline = "naive";

}  // namespace gradsync::tools
