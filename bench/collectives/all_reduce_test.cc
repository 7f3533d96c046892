// The all-reduce benchmark from its command line to its records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/host.h"
#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "bench/testing/run_program.h"
#include "comm/testing/rank_threads.h"
#include "model/base/flags.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kAllReduce[] = "bench/all_reduce";

struct Case {
  const char* op;
  const char* dtype;
  int world_size;
  const char* backend;
  const char* link = "memory";
  const char* hosts = "";  // the fact
  const char* collectives = "all_reduce,reduce_scatter,all_gather,broadcast";
};

class AllReduceTest : public ::testing::TestWithParam<Case> {};

TEST_P(AllReduceTest, EveryElementIsRight) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      kAllReduce,
      {"--sizes=24,6KiB,1032KiB", "--iterations=4", "--warmup_iterations=1",
       std::string("--backend=") + GetParam().backend, std::string("--op=") + GetParam().op,
       std::string("--dtype=") + GetParam().dtype, "--world_size=" + std::to_string(GetParam().world_size),
       "--out=" + out, std::string("--collectives=") + GetParam().collectives});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("\nall_reduce of 1032KiB  "));
  EXPECT_THAT(result.out, HasSubstr("every sum is right"));
  const std::vector<Record> records = RecordsIn(out);
  const size_t num_collectives = SplitCommas(GetParam().collectives).size();
  EXPECT_EQ(records.size(), 3 * num_collectives * static_cast<size_t>(GetParam().world_size));
  std::multiset<int64_t> sizes;
  for (const Record& record : records) {
    if (record.rank == 0 && record.config.StringOr("collective", "") == "all_reduce") {
      sizes.insert(record.config.IntOr("size_bytes", 0));
    }
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    EXPECT_EQ(record.link.StringOr("kind", ""), GetParam().link);
    EXPECT_EQ(record.facts.StringOr("hosts", ""), GetParam().hosts);
    EXPECT_EQ(record.checks.IntOr("wrong_elements", -1), 0);
    EXPECT_GT(record.checks.IntOr("checked_elements", 0), 0);
    ASSERT_EQ(record.samples.at("time_ns").size(), 4u);
    for (const int64_t time_ns : record.samples.at("time_ns")) EXPECT_GT(time_ns, 0);
    ASSERT_EQ(record.samples.at("back_to_back_ns").size(), 4u);
    ASSERT_EQ(record.samples.at("communication_cpu_ns").size(), 4u);
    EXPECT_TRUE(std::is_sorted(record.samples.at("position").begin(), record.samples.at("position").end()));
    EXPECT_EQ(record.config.StringOr("op", ""), GetParam().op);
    EXPECT_EQ(record.variant.backend, GetParam().backend);
  }
  EXPECT_THAT(sizes, UnorderedElementsAre(24, 6144, 1032 * 1024));
}

// What differs between two ranks that a launcher starts: the CPUs to which it binds them, their --interface,
// and the hosts where they take themselves to be.
struct Differs {
  std::vector<std::vector<int>> cpus;
  std::vector<std::string> interfaces, hosts = {"", ""};
};

void RunOnCpus(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

std::vector<Record> Launched(const Differs& differs) {
  const std::string out = FreshDirectory(), meeting = FreshDirectory();
  const std::vector<int> cpus = AllowedCpus();
  std::vector<RunningProgram> ranks;
  for (const size_t rank : {0u, 1u}) {
    RunOnCpus(differs.cpus[rank]);
    ranks.emplace_back(
        kAllReduce,
        std::vector<std::string>{"--sizes=24", "--iterations=2", "--out=" + out,
                                 "--interface=" + differs.interfaces[rank]},
        std::vector<std::pair<std::string, std::string>>{{"RANK", std::to_string(rank)},
                                                         {"WORLD_SIZE", "2"},
                                                         {"GRADSYNC_HOST", differs.hosts[rank]},
                                                         {"GRADSYNC_RENDEZVOUS", "file://" + meeting}});
  }
  RunOnCpus(cpus);
  for (RunningProgram& rank : ranks) {
    const ProgramResult result = rank.Wait();
    EXPECT_EQ(result.status, 0) << result.err;
  }
  std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 2u);
  return records;
}

TEST(AllReduceTest, ARankRecordsTheCpusThatItMayUse) {
  const std::vector<int> cpus = AllowedCpus();
  const Differs differs = {.cpus = {{cpus.front()}, {cpus.back()}}, .interfaces = {"lo", "127.0.0.1"}};
  for (const Record& record : Launched(differs)) {
    const std::string own = std::to_string(record.rank == 0 ? cpus.front() : cpus.back());
    EXPECT_EQ(record.provenance.cpu_count, 1);
    EXPECT_EQ(record.facts.StringOr("allowed_cpus", ""), own);
  }
}

// In every iteration each backend has one turn, and the order is not always the same.
TEST(AllReduceOrderTest, BackendsTakeTurns) {
  const std::string out = FreshDirectory();
  const ProgramResult result =
      RunProgram(kAllReduce, {"--sizes=24,6KiB", "--iterations=12", "--warmup_iterations=1",
                              "--backend=gloo,shm,memory_limit", "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<int64_t, std::map<int64_t, std::vector<std::string>>> orders;  // by rank and iteration
  for (const Record& record : RecordsIn(out)) {
    EXPECT_EQ(record.config.StringOr("order", ""), "interleaved");
    const std::string backend = record.variant.backend;
    const std::vector<int64_t>& positions = record.samples.at("position");
    ASSERT_EQ(positions.size(), 12u);
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t iteration = i + (record.config.IntOr("size_bytes", 0) == 24 ? 0 : 12);
      const int64_t place = positions[static_cast<size_t>(i)] - 3 * iteration;
      std::vector<std::string>& order = orders[record.rank][iteration];
      order.resize(3);
      ASSERT_TRUE(place >= 0 && place < 3) << place;
      order[static_cast<size_t>(place)] = backend;
    }
  }
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0], orders[1]);
  std::map<std::vector<std::string>, int> counts;
  for (const auto& [iteration, order] : orders[0]) ++counts[order];
  EXPECT_EQ(counts.size(), 6u);  // Williams's squares of three: all orders equally often
  for (const auto& [order, count] : counts) {
    EXPECT_THAT(order, UnorderedElementsAre("gloo", "shm", "memory_limit"));
    EXPECT_EQ(count, 4);
  }
}

// All times of a rank, those of 20 in a row too, are no longer than the whole run.
TEST(AllReduceTimesTest, BackToBackIsAMean) {
  const std::string out = FreshDirectory();
  const auto begin = std::chrono::steady_clock::now();
  const ProgramResult result = RunProgram(kAllReduce, {"--sizes=24", "--iterations=300", "--out=" + out});
  const std::chrono::nanoseconds run = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(result.status, 0) << result.err;
  for (const Record& record : RecordsIn(out)) {
    int64_t sum_ns = 0;
    for (const int64_t ns : record.samples.at("time_ns")) sum_ns += ns;
    for (const int64_t ns : record.samples.at("back_to_back_ns")) sum_ns += 20 * ns;
    EXPECT_LT(sum_ns, run.count());
  }
}

TEST(AllReduceInFlightTest, EachNumberIsARecordOfItsOwn) {
  const std::string out = FreshDirectory();
  const ProgramResult result =
      RunProgram(kAllReduce, {"--sizes=24,6KiB", "--in_flight=1,4", "--iterations=3",
                              "--collectives=all_gather", "--backend=gloo", "--out=" + out});
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<std::pair<int64_t, int64_t>, int> records;
  for (const Record& record : RecordsIn(out)) {
    ++records[{record.config.IntOr("size_bytes", 0), record.config.IntOr("in_flight", 1)}];
    EXPECT_THAT(SchemaFaults(record), IsEmpty());
    EXPECT_EQ(record.checks.IntOr("wrong_elements", -1), 0);
  }
  EXPECT_THAT(records, UnorderedElementsAre(Pair(Pair(24, 1), 2), Pair(Pair(24, 4), 2),
                                            Pair(Pair(6144, 1), 2), Pair(Pair(6144, 4), 2)));
}

INSTANTIATE_TEST_SUITE_P(
    All, AllReduceTest,
    ::testing::Values(Case{"sum", "f32", 2, "gloo", "loopback"}, Case{"mean", "f32", 3, "gloo", "loopback"},
                      Case{"sum", "bf16", 2, "gloo", "loopback"}, Case{"mean", "f64", 1, "gloo", "none"},
                      Case{"sum", "f32", 2, "shm"}, Case{"mean", "bf16", 3, "shm"},
                      Case{"sum", "f32", 2, "hierarchical", "memory", "1 of 2 ranks"},
                      Case{"sum", "f32", 2, "memory_limit", "memory", "", "all_reduce"},
                      Case{"sum", "f32", 3, "memory_limit", "memory", "", "all_reduce"}));

}  // namespace
}  // namespace gradsync::bench
