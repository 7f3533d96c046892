// The training benchmark with the defaults of //bench:compare, from its command line to its files, on a
// narrow ResNet-50.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "bench/testing/run_program.h"

namespace gradsync::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::IsEmpty;
using Arguments = std::vector<std::string>;

constexpr char kCompare[] = "bench/compare";
constexpr int64_t kKibi = 1024;

// By strategy and size, of rank 0, after all of them have been checked.
using Records = std::map<std::pair<std::string, int64_t>, Record>;

Records RunAndRead(const Arguments& own, int64_t world_size = 2) {
  const std::string out = FreshDirectory();
  Arguments arguments = {"--warmup_steps=1", "--steps=3", "--world_size=" + std::to_string(world_size),
                         "--out=" + out};
  arguments.insert(arguments.end(), own.begin(), own.end());
  const ProgramResult result = RunProgram(kCompare, arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, ContainsRegex("checks +[0-9]+ of [0-9]+ rows equal a single process"));
  Records records;
  std::map<int64_t, int64_t> count_of_rank;
  for (const Record& record : RecordsIn(out)) {
    ++count_of_rank[record.rank];
    EXPECT_EQ(record.experiment, "ddp");
    EXPECT_EQ(record.world_size, world_size);
    EXPECT_TRUE(record.checks.BoolOr("grads_equal", false)) << ToJsonLine(record);
    EXPECT_TRUE(record.checks.BoolOr("params_equal", false)) << ToJsonLine(record);
    EXPECT_TRUE(record.checks.BoolOr("replicas_equal", false)) << ToJsonLine(record);
    EXPECT_EQ(record.checks.StringOr("reference", ""), "single_process");
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    if (record.rank != 0) continue;
    const double size =
        record.variant.NumberOr("bucket_elements", 0) + record.variant.NumberOr("published_size", 0);
    const std::pair key = {record.variant.strategy, static_cast<int64_t>(size)};
    records.emplace(key, record);
  }
  EXPECT_EQ(count_of_rank.size(), static_cast<size_t>(world_size));
  for (const auto& [rank, count] : count_of_rank) EXPECT_EQ(count, static_cast<int64_t>(records.size()));
  return records;
}

const Arguments kNarrow = {"--width=8", "--image_size=64", "--batch_size=2"};

Arguments Narrow(const Arguments& more) {
  Arguments arguments = kNarrow;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CompareTest, EveryStrategyEqualsTheSingleProcessAtEverySize) {
  const Records records = RunAndRead(Narrow({"--buffer_elements=64Ki,27Mi"}));
  ASSERT_EQ(records.size(), 6u);
  for (const auto& [key, record] : records) {
    const auto& [strategy, elements] = key;
    EXPECT_EQ(record.facts.IntOr("bucket_bytes", 0), 4 * elements) << strategy;
    const std::string size = elements == 64 * kKibi ? "bucket_elements=64Ki" : "bucket_elements=27Mi";
    EXPECT_EQ(record.variant.name(),
              strategy + ":" + size + (strategy == "core" ? ",small_first=0,small_last=0@gloo" : "@gloo"));
    EXPECT_EQ(record.config.StringOr("model", ""), "resnet50 of width 8");
    EXPECT_EQ(record.config.IntOr("image_size", 0), 64);
    EXPECT_EQ(record.facts.IntOr("images_per_step", 0), 4);
    EXPECT_EQ(record.facts.IntOr("num_tensors", 0), 161);
    // The effective layout: as many buckets as the size makes, and every gradient in them.
    int64_t bytes = 0;
    for (const BucketRecord& bucket : record.buckets) bytes += bucket.bytes;
    EXPECT_GE(bytes, record.facts.IntOr("gradient_bytes", -1));
    EXPECT_EQ(record.buckets.size() == 1, elements > 1024 * kKibi) << strategy;
  }
}

TEST(CompareTest, PublishedUnitsMakeCoresBucketsSmaller) {
  const Records records = RunAndRead(Narrow({"--buffer_elements=64Ki", "--units=published"}));
  EXPECT_EQ(records.at({"core", 64 * kKibi}).facts.IntOr("bucket_bytes", 0), 64 * kKibi);
  EXPECT_EQ(records.at({"bucketed_async", 64 * kKibi}).facts.IntOr("bucket_bytes", 0), 256 * kKibi);
  EXPECT_EQ(records.at({"bucketed_sync", 64 * kKibi}).facts.IntOr("bucket_bytes", 0), 256 * kKibi);
}

TEST(CompareTest, ActivationsInBF16LeaveGradientsInF32) {
  const Records records =
      RunAndRead(Narrow({"--buffer_elements=64Ki", "--dtype=bf16", "--strategies=naive,core"}), 3);
  ASSERT_EQ(records.size(), 2u);
  for (const auto& [key, record] : records) {
    EXPECT_EQ(record.config.StringOr("dtype", ""), "bf16");
    EXPECT_EQ(record.facts.IntOr("gradient_bytes", 0), 4 * record.facts.IntOr("num_parameters", 0));
    EXPECT_LT(record.checks.DoubleOr("grad_rel_error", 1), 1e-6);
  }
}

// Where the number of ranks is no power of two, strategies that scale the loss by its inverse round otherwise
// than those that do not; batch norms of few values make much of that, and AdamW of what is nearly zero.
TEST(CompareTest, GradientsOfThreeRanksAreEqualWhereRoundingCounts) {
  for (const char* const seed : {"--seed=1", "--seed=2", "--seed=3"}) {
    for (const auto& [key, record] :
         RunAndRead({"--model=resnet50", "--width=8", "--image_size=32", "--batch_size=2",
                     "--buffer_elements=64Ki", "--strategies=naive,core,bucketed_async,bucketed_sync", seed},
                    3)) {
      EXPECT_LT(record.checks.DoubleOr("grad_rel_error", 1), 1e-6) << key.first;
    }
  }
}

}  // namespace
}  // namespace gradsync::bench
