#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tools/records/test_records.h"
#include "tools/summarize_cli.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1000000;

// core, and bucketed_sync that takes twice as long, at two sizes; the slowest ranks' steps are 20, 20, 30, 40
// ms, or twice that.
std::string Markdown() {
  const std::string dir = FreshTestDir("compare_blocks");
  std::vector<Record> records;
  for (const int64_t mebi : {3, 25}) {
    for (const int64_t factor : {1, 2}) {
      const int64_t ms = factor * kMs;
      const char* const strategy = factor == 1 ? "core" : "bucketed_sync";
      records.push_back(CompareRecord(strategy, mebi, 0, {10 * ms, 20 * ms, 30 * ms, 40 * ms}));
      records.push_back(CompareRecord(strategy, mebi, 1, {20 * ms, 10 * ms, 30 * ms, 40 * ms}));
    }
  }
  WriteLines(dir + "/compare.jsonl", records);
  const char* const argv[] = {"summarize", dir.c_str()};
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunSummarize(2, argv, out, err), 0) << err.str();
  return out.str();
}

TEST(CompareBlocksTest, PeopleReadASectionForEachPhase) {
  const std::string text = Markdown();
  EXPECT_THAT(text, HasSubstr("All rows: model resnet50, batch_size 8, image_size 64, units bytes, "));
  EXPECT_THAT(text, HasSubstr("DDP: [forward], ms:\n"));
  EXPECT_THAT(
      text, HasSubstr("| strategy      | buckets | equals reference |   Mean | delta% | median | delta% |"));
  EXPECT_THAT(text, HasSubstr("| core          |       2 | yes              |"));
  // Forward of both: 0.2 x 27.5 and x 55 ms; p99 is marked.
  EXPECT_THAT(text, HasSubstr(" 5.5000 |    0.0 |"));
  EXPECT_THAT(text, HasSubstr("11.0000 | +100.0 |"));
  EXPECT_THAT(text, HasSubstr("7.9400* |    0.0 |"));
  EXPECT_THAT(text, HasSubstr("[+100.0, +100.0]"));
  EXPECT_THAT(text, Not(HasSubstr("buffer_elements")));
}

}  // namespace
}  // namespace gradsync::tools
