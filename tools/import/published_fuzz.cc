#include "model/error.h"
#include "tests/fuzz/fuzz.h"
#include "tools/import/published.h"

// Any text: it has figures, which become records, or is refused.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tools::Published published = tools::ReadPublished(
        fuzz::Text(data, size),
        {.run_id = "r", .source = "s", .strategy = "", .strategies = {"naive"}, .world_size = {}});
    for (const bench::Record& record : published.records) fuzz::Expect(!record.published.empty());
  } catch (const InvalidInput&) {
  }
  return 0;
}
