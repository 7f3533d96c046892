// The all-reduce benchmark from its command line to its records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "bench/launch/run_program.h"
#include "bench/records/record.h"
#include "bench/records/schema.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kAllReduce[] = "bench/all_reduce";

struct Case {
  const char* op;
  const char* dtype;
  int world_size;
};

class AllReduceTest : public ::testing::TestWithParam<Case> {};

TEST_P(AllReduceTest, EveryElementIsRight) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      kAllReduce, {"--sizes=8,4KiB,1032KiB", "--iterations=4", "--warmup_iterations=1",
                   std::string("--op=") + GetParam().op, std::string("--dtype=") + GetParam().dtype,
                   "--world_size=" + std::to_string(GetParam().world_size), "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("gloo 1032KiB"));
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 3u * static_cast<size_t>(GetParam().world_size));
  std::multiset<int64_t> sizes;
  for (const Record& record : records) {
    if (record.rank == 0) sizes.insert(record.config.IntOr("size_bytes", 0));
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    EXPECT_EQ(record.link.StringOr("kind", ""), record.world_size == 1 ? "none" : "loopback");
    EXPECT_EQ(record.checks.IntOr("wrong_elements", -1), 0);
    EXPECT_GT(record.checks.IntOr("checked_elements", 0), 0);
    ASSERT_EQ(record.samples.at("time_ns").size(), 4u);
    for (const int64_t time_ns : record.samples.at("time_ns")) EXPECT_GT(time_ns, 0);
    EXPECT_TRUE(std::is_sorted(record.samples.at("position").begin(), record.samples.at("position").end()));
    EXPECT_EQ(record.config.StringOr("op", ""), GetParam().op);
    EXPECT_EQ(record.config.StringOr("backend", ""), "gloo");
  }
  EXPECT_THAT(sizes, UnorderedElementsAre(8, 4096, 1032 * 1024));
}

INSTANTIATE_TEST_SUITE_P(All, AllReduceTest,
                         ::testing::Values(Case{"sum", "f32", 2}, Case{"mean", "f32", 3},
                                           Case{"sum", "bf16", 2}, Case{"mean", "f64", 1}));

}  // namespace
}  // namespace gradsync::bench
