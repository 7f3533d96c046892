#include "model/error.h"
#include "tests/fuzz/fuzz.h"
#include "tools/reports/trace.h"

int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::File file(fuzz::Text(data, size));
  try {
    tools::ReadTraces({file.path()});
  } catch (const InvalidInput& error) {
    fuzz::Expect(std::string_view(error.what()).starts_with(file.path()));
  }
  return 0;
}
