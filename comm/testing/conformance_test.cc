#include <utility>
#include <vector>

#include "comm/testing/conformance_suite.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::comm {
namespace {

std::vector<ConformanceParam> Params() {
  std::vector<ConformanceParam> params;
  for (const std::string& backend : ThreadBackends()) {
    for (const int size : {1, 2, 3, 4}) params.push_back({backend, size});
  }
  if (OuterAddress().empty()) return params;
  params.push_back({.backend = "hierarchical",
                    .size = 4,
                    .ranks_per_host = 2,
                    .options = {{"inner", "gloo"}, {"outer", "gloo_own"}}});
  for (const auto& [size, ranks_per_host] : {std::pair(2, 1), {4, 2}, {6, 2}, {6, 3}}) {
    params.push_back({.backend = "hierarchical", .size = size, .ranks_per_host = ranks_per_host});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::ValuesIn(Params()), ConformanceName);

}  // namespace
}  // namespace gradsync::comm
