#include "tests/fuzz/fuzz.h"
#include "tools/import/figures.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradsync;
  const tools::Figures figures = tools::FindFigures(fuzz::Text(data, size));
  fuzz::Expect(figures.empty() || size > 0);
  return 0;
}
