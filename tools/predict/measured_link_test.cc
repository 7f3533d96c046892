#include "tools/predict/measured_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/error.h"
#include "tools/records/test_records.h"

namespace gradsync::tools {
namespace {

using enum CollectiveKind;
using ::testing::HasSubstr;

// What all_reduce_perf of nccl-tests prints with 4 GPUs.
constexpr char kColumns[] = R"(# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 0 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on     host-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on     host-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   7001 on     host-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   7002 on     host-b device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     9.00    0.00    0.00       0     9.00    0.00    0.00       0
     1048576        262144     float     sum      -1    80.00   13.11   19.66       0    70.00   14.98   22.47       0
     2097152        524288     float     sum      -1    150.0   13.98   20.97       0    140.0   14.98   22.47     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 18.0
)";

std::string Json(const std::string& program, const std::string& second_in_place) {
  return R"({"version":1,"args":["/opt/build/)" + program +
         R"(","-b","1M"],"config":{"nthreads":2,"ngpus":3,"devices":[{"rank":0},{"rank":6}]},"results":[)" +
         R"({"size":1048576,"out_of_place":{"time":80.0,"nwrong":0.0},"in_place":{"time":70.0,"nwrong":null}},)" +
         R"({"size":2097152,"out_of_place":{"time":150.0},"in_place":)" + second_in_place + "}]}";
}

std::string ErrorOf(const std::string& path) {
  try {
    ReadMeasuredLink(path);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(MeasuredLinkTest, ReadsTheColumnsOfNcclTests) {
  const MeasuredLink link = ParseNcclTests(kColumns);
  EXPECT_EQ(link.world_size, 4);
  EXPECT_FALSE(link.has_processor);
  EXPECT_NEAR(link.costs.Seconds(kAllReduce, 1 << 20), 70e-6, 1e-12);
  EXPECT_NEAR(link.costs.Seconds(kAllReduce, 2 << 20), 140e-6, 1e-12);
  EXPECT_EQ(link.costs.Processor(kAllReduce, 1 << 20, 1), 0);
}

TEST(MeasuredLinkTest, ReadsSeveralProgramsOfAsManyRanks) {
  std::string gather = kColumns;
  gather.replace(gather.find("all_reduce_perf"), 15, "all_gather_perf");
  gather.replace(gather.find("70.00"), 5, "30.00");
  const MeasuredLink link = ParseNcclTests(kColumns + gather);
  EXPECT_EQ(link.world_size, 4);
  EXPECT_NEAR(link.costs.Seconds(kAllReduce, 1 << 20), 70e-6, 1e-12);
  EXPECT_NEAR(link.costs.Seconds(kAllGather, 1 << 20), 30e-6, 1e-12);
  gather.erase(gather.find("#  Rank  3"), 1);
  const std::string dir = FreshTestDir("worlds");
  std::ofstream(dir + "/all.txt") << kColumns << gather;
  EXPECT_THAT(ErrorOf(dir + "/all.txt"), HasSubstr("all.txt: measured by 4 and by 3 ranks"));
}

TEST(MeasuredLinkTest, ReadsColumnsOfOldVersionsWithoutARoot) {
  std::string old;
  for (const std::string& line :
       {std::string("#  Rank  0 Pid 1 on a device 0"), std::string("#   Rank  1 Pid 1"),
        std::string("  1024  256  float  sum  5.0  0.2  0.3  0e+00  4.0  0.2  0.3  0e+00")})
    old += line + "\n";
  EXPECT_NEAR(ParseNcclTests(old).costs.Seconds(kAllReduce, 1024), 4e-6, 1e-12);
}

TEST(MeasuredLinkTest, ReadsWhatNcclTestsWriteAsJson) {
  const MeasuredLink link = ParseNcclTests(Json("all_reduce_perf", R"({"time":140.0})"));
  EXPECT_EQ(link.world_size, 2 * 2 * 3);  // processes, threads of each, GPUs of each
  EXPECT_NEAR(link.costs.Seconds(kAllReduce, 1 << 20), 70e-6, 1e-12);
  EXPECT_NEAR(link.costs.Seconds(kAllReduce, 2 << 20), 140e-6, 1e-12);
  EXPECT_NEAR(ParseNcclTests(Json("all_reduce_perf", "null")).costs.Seconds(kAllReduce, 2 << 20), 150e-6,
              1e-12);
}

TEST(MeasuredLinkTest, RefusesWhatTellsNoAllReduce) {
  EXPECT_THROW(ParseNcclTests(Json("sendrecv_perf", "null")), InvalidInput);
  EXPECT_THROW(ParseNcclTests(Json("all_gather_perf", "null")), InvalidInput);
  EXPECT_THROW(ParseNcclTests("no columns\n"), InvalidInput);
  const std::string dir = FreshTestDir("nccl");
  std::ofstream(dir + "/out.txt") << "text";
  EXPECT_THAT(ErrorOf(dir + "/out.txt"), HasSubstr("out.txt: measured by 0 ranks, expected 2 or more"));
  EXPECT_THAT(ErrorOf(dir + "/no.txt"), HasSubstr("no.txt: cannot be read"));
  std::ofstream(dir + "/bad.json") << "{}";
  EXPECT_THAT(ErrorOf(dir + "/bad.json"), HasSubstr("bad.json: "));
  std::ofstream(dir + "/all.txt") << kColumns;
  EXPECT_EQ(ReadMeasuredLink(dir + "/all.txt").world_size, 4);
}

// Of rank 1, which waits a millisecond longer for rank 0, and of that.
std::vector<bench::Record> Ranks(const char* collective, int64_t in_flight, int64_t ms) {
  std::vector<bench::Record> ranks;
  for (const int64_t rank : {1, 0}) {
    bench::Record& record =
        ranks.emplace_back(AllReduceRecord(3000, rank, Repeat((ms + rank) * 1'000'000, 3)));
    record.config.Set("collective", collective);
    if (in_flight > 1) record.config.Set("in_flight", in_flight);
    record.config.Set("comm_threads", 2);
    record.samples["communication_cpu_ns"] = Repeat(3'000'000, 3);
  }
  return ranks;
}

TEST(MeasuredLinkTest, ReadsCollectivesOfEachKindAndSeveralInFlight) {
  std::vector<bench::Record> all;
  for (const auto& ranks : {Ranks("all_reduce", 1, 20), Ranks("all_reduce", 2, 30), Ranks("all_gather", 1, 8),
                            Ranks("broadcast", 1, 1)})
    all.insert(all.end(), ranks.begin(), ranks.end());
  const std::string dir = FreshTestDir("kinds");
  WriteLines(dir + "/all.jsonl", all);
  const LinkCosts costs = ReadMeasuredLink(dir).costs;
  EXPECT_NEAR(costs.Seconds(kAllReduce, 3000), 20e-3, 1e-9);
  EXPECT_NEAR(costs.Gain(kAllReduce, 3000, 2), 40.0 / 30, 1e-9);
  EXPECT_NEAR(costs.Seconds(kAllGather, 3000), 8e-3, 1e-9);
  EXPECT_EQ(costs.channels(), 2);
  for (bench::Record& record : all) record.variant.backend = "shm";
  WriteLines(dir + "/all.jsonl", all);
  EXPECT_EQ(ReadMeasuredLink(dir).costs.channels(), 1);
}

TEST(MeasuredLinkTest, ReadsRecordsOfAllReduce) {
  std::vector<bench::Record> ranks = Ranks("all_reduce", 1, 9);
  const std::string dir = FreshTestDir("all_reduce");
  WriteLines(dir + "/all.jsonl", ranks);
  for (const std::string& path : {dir, dir + "/all.jsonl"}) {
    const MeasuredLink link = ReadMeasuredLink(path);
    EXPECT_EQ(link.world_size, 2);
    EXPECT_TRUE(link.has_processor);
    EXPECT_NEAR(link.costs.Seconds(kAllReduce, 3000), 9e-3, 1e-9);
    EXPECT_NEAR(link.costs.Processor(kAllReduce, 3000, 1), 3 / 9.5, 1e-9);
  }
  // Other records do not count, such as the floor's, which communicates over nothing.
  ranks.insert(ranks.begin(), DdpRecord("none", 0, Repeat(1, 3)));
  ranks.front().world_size = 1;
  WriteLines(dir + "/all.jsonl", ranks);
  EXPECT_EQ(ReadMeasuredLink(dir).world_size, 2);
  ranks.back().world_size = 4;
  WriteLines(dir + "/all.jsonl", ranks);
  EXPECT_THAT(ErrorOf(dir), HasSubstr("records of 2 and of 4 ranks"));
  ranks.back().world_size = 2;
  ranks.back().variant.backend = "shm";
  WriteLines(dir + "/all.jsonl", ranks);
  EXPECT_THAT(ErrorOf(dir), HasSubstr("records of several backends: gloo and shm"));
  WriteLines(dir + "/all.jsonl", {DdpRecord("core", 0, Repeat(1, 3))});
  EXPECT_THAT(ErrorOf(dir), HasSubstr("no records of //bench:all_reduce"));
  EXPECT_THAT(ErrorOf(FreshTestDir("empty")), HasSubstr("empty: no records (*.jsonl) in it"));
  std::ofstream(dir + "/all.jsonl.gz") << "x";
  EXPECT_EQ(ErrorOf(dir + "/all.jsonl.gz"), dir + "/all.jsonl.gz: no record in it that could be used");
}

}  // namespace
}  // namespace gradsync::tools
