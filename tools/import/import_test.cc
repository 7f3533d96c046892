#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <variant>

#include "model/error.h"
#include "tools/import/cli.h"
#include "tools/import/published.h"
#include "tools/records/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMarkdown[] = R"(Some words.

|    | backend   |   data_size (MB) |   time_taken |    std_time |
|---:|:----------|-----------------:|-------------:|------------:|
|  0 | gloo      |               10 |   0.0086     | 0.00096     |
|  1 | nccl      |             1024 |  4.56288e-03 | 4.7e-05     |
|  2 | nccl      |             2048 |  (failed)    | 4.7e-05     |

| model_size | backend | time_per_step | std_time_step | time_per_sync | std_time_sync | fraction_sync |
|:---|:---|---:|---:|---:|---:|---:|
| xl | nccl | 0.408564 | 0.000638 | 0.0102613 | 0.000399 | 0.0251155 |
| xl | nccl | 0.408698 | 0.001168 | 0.0094661 | 0.000075 | 0.0231616 |

| a table | of other things |
|---|---|
| 1 | 2 |
)";

constexpr char kTensors[] = R"(# The overlap variant, beside flat and naive
run, local_bs: 4, seq_len: 512
total time train: tensor([0.9500], device='cuda:0')
total time grad all reduce: tensor([0.1278], device='cuda:0')
ratio grad all reduce to train time: tensor([0.1345], device='cuda:0')
run, local_bs: 4, seq_len: many
total time train: tensor([0.9500], device='cuda:0')
)";

constexpr char kBlocks[] = R"(
=== buffer_size: 3M ===
x: [backward]                  Mean    delta%     mean    delta%      p90    delta%      p95    delta%%      p99    delta%
-----------------------------  -------  --------  -------  --------  -------  --------  -------  ---------  -------  ----
X.CPP_CORE                     471.928   0        471.874    0       472.614   0        472.739    0        472.845   0
X.ASYNC_REDUCTION              483.761   2.50722  483.565    2.4776  485.201   2.66322  486.439    2.89801  487.63    3.12684
X.SYNC_REDUCTION               566.434   20.0254  567.739   20.3159  571.238  20.8676   572.456   21.0935
)";

Published Read(std::string_view text) {
  return ReadPublished(text, {.run_id = "published-x",
                              .source = "x.txt",
                              .strategy = "",
                              .strategies = {"naive", "flat"},
                              .world_size = {}});
}

double Statistic(const Record& record, const std::string& samples, std::string_view name) {
  return record.published.at(samples).DoubleOr(name, 0);
}

TEST(ImportFiguresTest, ReadsMarkdownTablesByTheirColumns) {
  const Published published = Read(kMarkdown);
  ASSERT_EQ(published.records.size(), 4u);
  const Record& all_reduce = published.records[1];
  EXPECT_EQ(all_reduce.config.StringOr("backend", ""), "nccl");
  EXPECT_EQ(all_reduce.config.IntOr("size_bytes", 0), 1 << 30);
  EXPECT_EQ(Statistic(all_reduce, "time_ns", "mean_ns"), 0.00456288 * 1e9);
  EXPECT_EQ(Statistic(published.records[3], "step_ns", "mean_ns"), 0.408698 * 1e9);
  EXPECT_EQ(Statistic(published.records[3], "step_ns", "printed_ratio"), 0.0231616);
  EXPECT_THAT(published.remarks,
              ElementsAre("line 7: expected data_size (MB), time_taken and std_time; left out"));
}

TEST(ImportFiguresTest, ReadsPrintedTensors) {
  const Published published = Read(kTensors);
  ASSERT_EQ(published.records.size(), 1u);
  const Record& cell = published.records[0];
  EXPECT_EQ(cell.config.IntOr("batch_size", 0), 4);
  EXPECT_EQ(cell.config.IntOr("seq_len", 0), 512);
  EXPECT_EQ(Statistic(cell, "step_ns", "mean_ns"), 0.95 * 1e9);
  EXPECT_EQ(Statistic(cell, "sync_exposed_ns", "mean_ns"), 0.1278 * 1e9);
  EXPECT_EQ(Statistic(cell, "step_ns", "printed_ratio"), 0.1345);
  EXPECT_EQ(cell.config.StringOr("strategy", ""), "overlap");
  EXPECT_EQ(published.remarks.size(), 2u);
}

TEST(ImportFiguresTest, ReadsBlocksAndSaysWhichHeadingsAreWrong) {
  const Published published = Read(kBlocks);
  ASSERT_EQ(published.records.size(), 2u);
  EXPECT_EQ(published.records[0].config.StringOr("strategy", ""), "core");
  const Record& async = published.records[1];
  EXPECT_EQ(async.config.StringOr("strategy", ""), "bucketed_async");
  EXPECT_EQ(async.config.IntOr("buffer_elements", 0), 3 << 20);
  EXPECT_EQ(Statistic(async, "backward_and_sync_ns", "median_ns"), 483.565 * 1e6);
  EXPECT_EQ(Statistic(async, "backward_and_sync_ns", "printed_delta_p99_percent"), 3.12684);
  EXPECT_THAT(published.remarks,
              ElementsAre("line 3: the second column headed mean holds the median",
                          "line 3: a column headed delta%% holds delta%",
                          "line 7: expected a buffer size, a phase, and ten numbers behind the option's "
                          "name; left out"));
}

TEST(ImportRecordsTest, TakesTheProtocolOfTheKind) {
  const std::vector<Record> records = Read(kMarkdown).records;
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].experiment, "all_reduce");
  EXPECT_EQ(records[0].world_size, 4);
  EXPECT_EQ(records[0].config.IntOr("size_bytes", 0), 10 << 20);
  EXPECT_EQ(records[2].experiment, "ddp");
  EXPECT_EQ(records[2].world_size, 1);
  EXPECT_EQ(records[3].config.StringOr("strategy", ""), "flat");
  EXPECT_EQ(records[3].published.at("step_ns").IntOr("n", 0), 20);
  // 1.25 x 1 GiB x 3/2 / 4.56 ms: more than the same text's all-reduce is more than the link carries.
  EXPECT_NEAR(records[3].link.DoubleOr("limit_bytes_per_second", 0), 441e9, 1e9);
  for (const Record& record : records) {
    EXPECT_TRUE(record.samples.empty());
    EXPECT_TRUE(std::holds_alternative<Record>(bench::ParseRecord(ToJsonLine(record))));
  }
}

TEST(ImportRecordsTest, OneSizeMeansDifferentBytes) {
  const std::vector<Record> records = Read(kBlocks).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].config.IntOr("bucket_bytes", 0), 3 << 20);
  EXPECT_EQ(records[1].config.IntOr("bucket_bytes", 0), 12 << 20);
  EXPECT_EQ(records[1].facts.StringOr("bucket_unit", ""), "Mi elements");
  EXPECT_EQ(records[1].published.at("backward_and_sync_ns").DoubleOr("p90_ns", 0), 485.201 * 1e6);
}

TEST(ImportRecordsTest, WhatIsNotKnownIsAsked) {
  EXPECT_THROW(Read("no figures"), InvalidInput);
  std::string anonymous = kTensors;
  anonymous.erase(0, anonymous.find('\n'));
  EXPECT_THROW(Read(anonymous), InvalidInput);
  const std::vector<Record> named =
      ReadPublished(anonymous,
                    {.run_id = "r", .source = "x", .strategy = "core", .strategies = {}, .world_size = 8})
          .records;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].config.StringOr("strategy", ""), "core");
  EXPECT_EQ(named[0].world_size, 8);
}

int RunWith(std::vector<std::string> arguments, std::string* err) {
  std::vector<const char*> argv = {"import_published"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream errors;
  const int status = RunImportPublished(static_cast<int>(argv.size()), argv.data(), out, errors);
  *err = errors.str();
  return status;
}

TEST(ImportTest, WritesOneFileOfRecordsForEachText) {
  const std::string dir = FreshTestDir("import");
  std::ofstream(dir + "/abc_1.txt") << kMarkdown;
  std::string err;
  EXPECT_EQ(RunWith({dir + "/abc_1.txt", "--out=" + dir + "/out"}, &err), 0) << err;
  const std::string lines = ReadTestFile(dir + "/out/abc_1.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
  EXPECT_THAT(lines, HasSubstr("\"run_id\":\"published-abc\""));
  EXPECT_EQ(RunWith({dir + "/abc_1.txt", "--out=" + dir + "/out"}, &err), 0);
  EXPECT_EQ(ReadTestFile(dir + "/out/abc_1.jsonl"), lines);
}

TEST(ImportTest, RefusesInOneLine) {
  std::string err;
  EXPECT_EQ(RunWith({}, &err), 2);
  EXPECT_EQ(err, "import_published: no input: takes files with published tables\n");
  EXPECT_EQ(RunWith({"/nowhere.txt", "--out=/tmp"}, &err), 2);
  EXPECT_EQ(err, "import_published: /nowhere.txt: no such file\n");
  EXPECT_EQ(RunWith({"/dev/zero", "--out=/tmp"}, &err), 2);
  EXPECT_EQ(err, "import_published: /dev/zero: not a regular file\n");
}

}  // namespace
}  // namespace gradsync::tools
