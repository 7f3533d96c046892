#include <sstream>

#include "tests/fuzz/fuzz.h"
#include "tools/measurements/reader.h"

// The input is a file of records. Every line must be in the set or be listed as a problem, and the result
// must be combinable.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::File file(fuzz::Text(data, size));
  tools::Problems problems;
  const tools::RecordSet set = tools::ReadRecords(
      {file.path()}, [](const bench::Record&) { return ""; }, &problems);
  int64_t num_ranks = 0;
  for (const tools::Group& group : set.groups) {
    for (const tools::Measurement& measurement : group) num_ranks += measurement.num_ranks;
  }
  fuzz::Expect(num_ranks == set.num_records);
  std::ostringstream text;
  problems.Print(text);
  fuzz::Expect((problems.count() == 0) == text.str().empty());
  return 0;
}
