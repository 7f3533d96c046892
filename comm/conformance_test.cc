#include <vector>

#include "comm/conformance_suite.h"

namespace gradsync::comm {
namespace {

std::vector<ConformanceParam> Params() {
  std::vector<ConformanceParam> params;
  for (const std::string backend : {"local", "gloo", "shm"}) {
    for (const int size : {1, 2, 3, 4}) params.push_back({backend, size});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::ValuesIn(Params()), ConformanceName);

}  // namespace
}  // namespace gradsync::comm
