#include "tools/compare_dirs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/base/error.h"
#include "tools/measurements/test_records.h"
#include "tools/test_summarize.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1000000;

// Steps around `mean_ms`, each on both ranks.
std::vector<int64_t> Steps(int64_t mean_ms, size_t count) {
  std::vector<int64_t> steps;
  for (size_t i = 0; i < count; ++i)
    steps.push_back(mean_ms * (kMs - 20000 + 8000 * static_cast<int64_t>(i % 6)));
  return steps;
}

struct Strategy {
  const char* name;
  int64_t mean_ms;
  size_t num_steps = 24;
};

// Other runs of the same configurations, on another machine and commit.
std::string Dir(std::string_view name, const std::vector<Strategy>& strategies, int launches = 2) {
  std::string dir = FreshTestDir(name);
  std::vector<Record> records;
  for (const Strategy& strategy : strategies) {
    for (int launch = 0; launch < launches; ++launch) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        Record& record = records.emplace_back(
            DdpRecord(strategy.name, rank,
                      Steps(strategy.mean_ms, strategy.num_steps / static_cast<size_t>(launches))));
        record.run_id = Join(name, launch);
        record.provenance.host = record.provenance.gradsync_commit = std::string(name);
        record.config.Set("steps", strategy.num_steps);
        record.config.Set("seed", launch);
        // What a run decides for itself tells no rows apart.
        record.config.Set("time", name.ends_with("there") ? "3m" : "1m");
      }
    }
  }
  WriteLines(dir + "/a.jsonl", records);
  return dir;
}

TEST(CompareDirsTest, ASlowerRowFailsTheGate) {
  const std::string here = Dir("here", {{"naive", 110}, {"flat", 90}, {"core", 100}, {"overlap", 100}});
  const std::string there = Dir("there", {{"naive", 100}, {"flat", 100}, {"core", 100}, {"none", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there, "--format=csv"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("slower than " + there + ": 1 of 3 rows"));
  EXPECT_THAT(outcome.out, HasSubstr("ddp,variant=naive@gloo,0.11"));
  EXPECT_THAT(outcome.out, HasSubstr(",24,24,slower,"));
  EXPECT_THAT(outcome.out, HasSubstr(",24,24,faster,"));
  EXPECT_THAT(outcome.out, HasSubstr(",24,24,no difference shown,"));
  EXPECT_THAT(outcome.out, HasSubstr(",24,0,only here,"));
  EXPECT_THAT(outcome.out, HasSubstr(",0,24,only there,drifts"));

  const Outcome people = RunWith({here, "--baseline=" + there});
  EXPECT_THAT(people.out,
              HasSubstr("**Of 3 rows compared, 1 are slower and 1 are faster. Of the others no difference is "
                        "shown.**"));
  EXPECT_THAT(people.out, HasSubstr("- All rows of ddp: batch_size 2,"));
}

TEST(CompareDirsTest, ADirectoryAgainstItselfDoesNotDiffer) {
  const std::string narrow = Dir("itself", {{"naive", 100}, {"flat", 101}});
  const Outcome passed = RunWith({narrow, "--baseline=" + narrow, "--format=csv"});
  EXPECT_EQ(passed.status, 0);
  EXPECT_EQ(passed.err, "");
  EXPECT_THAT(passed.out, ContainsRegex("naive@gloo,0.1,0.1,0,-[0-9.]+,[0-9.]+,24,24,no difference"));
  // It passes where it could not fail, and says so.
  const std::string wide = FreshTestDir("itself_wide");
  std::vector<Record> records;
  for (int64_t rank = 0; rank < 2; ++rank) {
    records.push_back(DdpRecord("naive", rank, Steps(100, 12)));
    for (size_t i = 0; i < 12; i += 2) SetStep(records.back(), i, 300 * kMs);
  }
  WriteLines(wide + "/a.jsonl", records);
  const Outcome warned = RunWith({wide, "--baseline=" + wide});
  EXPECT_EQ(warned.status, 0);
  EXPECT_THAT(warned.err, HasSubstr("warning: intervals too wide to show that a row is 10 % slower: 1 rows"));
}

// Where the difference itself lies says nothing of how wide its interval is.
TEST(CompareDirsTest, WhatCouldBeShownDependsOnTheWidthAlone) {
  const auto dir = [](const std::string& name, int64_t mean_ms, int64_t part_of_20) {
    std::string path = FreshTestDir(name);
    std::vector<Record> records;
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<int64_t> steps;
      for (int64_t i = 0; i < 24; ++i)
        steps.push_back(mean_ms * kMs + (i % 2 == 0 ? 1 : -1) * part_of_20 * mean_ms * kMs / 20);
      records.push_back(DdpRecord("naive", rank, steps));
    }
    WriteLines(path + "/a.jsonl", records);
    return path;
  };
  const auto verdict = [&](int64_t mean_ms, int64_t part_of_20) {
    return RunWith({dir("width_here", mean_ms, part_of_20),
                    "--baseline=" + dir("width_there", 100, part_of_20), "--format=csv"})
        .out;
  };
  EXPECT_THAT(verdict(108, 3), HasSubstr(",24,24,too wide to show 10 %,"));
  EXPECT_THAT(verdict(94, 2), HasSubstr(",24,24,no difference shown,"));
}

// The next launch may differ by as much.
TEST(CompareDirsTest, WithOneLaunchASlowerRowIsAWarning) {
  const std::string here = Dir("one_here", {{"naive", 110}}, 1);
  const std::string there = Dir("one_there", {{"naive", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there, "--format=csv"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr(",slower,"));
  EXPECT_THAT(outcome.err, HasSubstr("warning: slower than " + there + " with one launch on a side: 1 rows"));
  // Several on both sides are none.
  EXPECT_EQ(RunWith({Dir("two_here", {{"naive", 110}}), "--baseline=" + there}).status, 3);
}

TEST(CompareDirsTest, TooFewStepsCannotFail) {
  const std::string here = Dir("few_here", {{"naive", 200, 8}});
  const std::string there = Dir("few_there", {{"naive", 100, 30}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no row has 10 steps on both sides: nothing compared"));
  EXPECT_THAT(outcome.out, HasSubstr("too few steps"));
  EXPECT_THAT(outcome.out, HasSubstr("n<10:cannot-fail"));
}

TEST(CompareDirsTest, AGateThatComparesNothingDoesNotPass) {
  const std::string here = Dir("nothing_here", {{"naive", 100}});
  const std::string there = Dir("nothing_there", {{"flat", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("has no row of what was given: nothing compared"));
}

TEST(CompareDirsTest, ARowThatVanishedFailsTheGate) {
  const std::string here = Dir("vanished_here", {{"naive", 100}});
  const std::string there = Dir("vanished_there", {{"naive", 100}, {"core", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("but not here: 1 rows"));
  EXPECT_THAT(outcome.out, HasSubstr("but not here: 1 rows."));
  // What is new is no failure.
  EXPECT_EQ(RunWith({there, "--baseline=" + here}).status, 0);
}

TEST(CompareDirsTest, AWrongRowFailsTheGate) {
  const std::string there = Dir("wrong_there", {{"naive", 100}});
  const std::string here = Dir("wrong_here", {{"naive", 100}});
  std::vector<Record> records;
  for (int64_t rank = 0; rank < 2; ++rank) {
    records.push_back(DdpRecord("naive", rank, Steps(100, 12)));
    records.back().checks.Set("grads_equal", false);
  }
  WriteLines(here + "/a.jsonl", records);
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("wrong or unequal results: 1 rows"));
  EXPECT_EQ(RunWith({there, "--baseline=" + here}).status, 0);
}

// Launches that differ more than steps do: what looks slower by far in their steps is none.
TEST(CompareDirsTest, LaunchesAreLaunches) {
  const auto dir = [](const std::string& name, const std::vector<int64_t>& means_ms) {
    std::string path = FreshTestDir(name);
    std::vector<Record> records;
    for (size_t launch = 0; launch < means_ms.size(); ++launch) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        records.push_back(DdpRecord("naive", rank, Steps(means_ms[launch], 12)));
        records.back().run_id = Join("run", launch);
        records.back().config.Set("seed", static_cast<int64_t>(launch));
      }
    }
    WriteLines(path + "/a.jsonl", records);
    return path;
  };
  const std::string there = dir("launches_there", {100, 120, 110});
  const Outcome same =
      RunWith({dir("launches_here", {115, 125, 105}), "--baseline=" + there, "--format=csv"});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.out, HasSubstr(",36,36,too wide to show 10 %,"));
  EXPECT_THAT(same.err, HasSubstr("warning: intervals too wide to show that a row is 10 % slower: 1 rows"));
  EXPECT_EQ(RunWith({dir("launches_slower", {215, 225, 205}), "--baseline=" + there}).status, 3);
}

TEST(CompareDirsTest, WarnsOfAnotherMachine) {
  const std::string here = Dir("machine_here", {{"naive", 100}});
  const std::string there = Dir("machine_there", {{"naive", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: host differs: here machine_here, there machine_there\n"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("processor differs")));
}

}  // namespace
}  // namespace gradsync::tools
