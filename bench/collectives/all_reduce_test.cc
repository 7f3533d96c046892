// The all-reduce benchmark from its command line to its records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <variant>

#include "bench/launch/run_program.h"
#include "bench/records/record.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kAllReduce[] = "bench/all_reduce";

std::vector<Record> RecordsIn(const std::string& directory) {
  std::vector<Record> records;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::istringstream lines(ReadText(entry.path().string()));
    for (std::string line; std::getline(lines, line);) records.push_back(std::get<Record>(ParseRecord(line)));
  }
  return records;
}

struct Case {
  const char* op;
  const char* dtype;
  int world_size;
  const char* backend;
};

class AllReduceTest : public ::testing::TestWithParam<Case> {};

TEST_P(AllReduceTest, EveryElementIsRight) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      kAllReduce, {"--sizes=8,4KiB,1032KiB", "--iterations=4", "--warmup_iterations=1",
                   std::string("--backend=") + GetParam().backend, std::string("--op=") + GetParam().op,
                   std::string("--dtype=") + GetParam().dtype,
                   "--world_size=" + std::to_string(GetParam().world_size), "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr(std::string(GetParam().backend) + " 1032KiB"));
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 3u * static_cast<size_t>(GetParam().world_size));
  std::multiset<int64_t> sizes;
  for (const Record& record : records) {
    if (record.rank == 0) sizes.insert(record.config.IntOr("size_bytes", 0));
    EXPECT_EQ(record.checks.IntOr("wrong_elements", -1), 0);
    EXPECT_GT(record.checks.IntOr("checked_elements", 0), 0);
    ASSERT_EQ(record.samples.at("time_ns").size(), 4u);
    for (const int64_t time_ns : record.samples.at("time_ns")) EXPECT_GT(time_ns, 0);
    EXPECT_TRUE(std::is_sorted(record.samples.at("position").begin(), record.samples.at("position").end()));
    EXPECT_EQ(record.config.StringOr("op", ""), GetParam().op);
    EXPECT_EQ(record.config.StringOr("backend", ""), GetParam().backend);
  }
  EXPECT_THAT(sizes, UnorderedElementsAre(8, 4096, 1032 * 1024));
}

INSTANTIATE_TEST_SUITE_P(All, AllReduceTest,
                         ::testing::Values(Case{"sum", "f32", 2, "gloo"}, Case{"mean", "f32", 3, "gloo"},
                                           Case{"sum", "bf16", 2, "gloo"}, Case{"mean", "f64", 1, "gloo"},
                                           Case{"sum", "f32", 2, "shm"}, Case{"mean", "bf16", 3, "shm"},
                                           Case{"sum", "f32", 2, "memory_limit"},
                                           Case{"sum", "f32", 3, "memory_limit"}));

TEST(AllReduceOptionsTest, TheMemoryLimitIsOfOneLoop) {
  const ProgramResult result =
      RunProgram(kAllReduce, {"--backend=shm,memory_limit", "--dtype=bf16", "--sizes=8"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "--backend=memory_limit: found sum of bf16, expected sum of f32\n");
}

}  // namespace
}  // namespace gradsync::bench
