#include "tools/tables/compare_dirs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/records/test_records.h"
#include "tools/summarize_cli.h"

namespace gradsync::tools {
namespace {

using bench::Record;
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
  size_t num_steps = 12;
};

// Another run of the same configurations, on another machine and commit.
std::string Dir(std::string_view name, const std::vector<Strategy>& strategies) {
  const std::string dir = FreshTestDir(name);
  std::vector<Record> records;
  for (const Strategy& strategy : strategies) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      Record& record =
          records.emplace_back(DdpRecord(strategy.name, rank, Steps(strategy.mean_ms, strategy.num_steps)));
      record.run_id = std::string(name);
      record.provenance.host = record.provenance.gradsync_commit = std::string(name);
      record.config.Set("steps", strategy.num_steps);
      record.config.Set("placement", std::string(name));
    }
  }
  WriteLines(dir + "/a.jsonl", records);
  return dir;
}

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome RunWith(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"summarize"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = RunSummarize(static_cast<int>(argv.size()), argv.data(), out, err);
  return {status, out.str(), err.str()};
}

TEST(CompareDirsTest, ASlowerRowFailsTheGate) {
  const std::string here = Dir("here", {{"naive", 110}, {"flat", 90}, {"core", 100}, {"overlap", 100}});
  const std::string there = Dir("there", {{"naive", 100}, {"flat", 100}, {"core", 100}, {"none", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there, "--format=csv"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("slower than " + there + ": 1 of 3 rows"));
  EXPECT_THAT(outcome.out, HasSubstr("ddp,strategy=naive,0.11,"));
  EXPECT_THAT(outcome.out, HasSubstr(",12,12,slower,\r\n"));
  EXPECT_THAT(outcome.out, HasSubstr(",12,12,faster,\r\n"));
  EXPECT_THAT(outcome.out, HasSubstr(",12,12,no difference shown,\r\n"));
  EXPECT_THAT(outcome.out, HasSubstr(",12,0,only here,\r\n"));
  EXPECT_THAT(outcome.out, HasSubstr(",0,12,only there,drifts\r\n"));

  const Outcome people = RunWith({here, "--baseline=" + there});
  EXPECT_THAT(people.out,
              HasSubstr("**Of 3 rows that could be compared, 1 are slower and 1 are faster; about "
                        "the others these data decide nothing.**"));
  EXPECT_THAT(people.out, HasSubstr("- All rows of ddp: backend gloo, batch_size 2,"));
  EXPECT_THAT(people.out, Not(HasSubstr("placement")));
}

TEST(CompareDirsTest, TheSameIsNoFailure) {
  const std::string here = Dir("same_here", {{"naive", 100}, {"flat", 101}});
  const std::string there = Dir("same_there", {{"naive", 100}, {"flat", 101}});
  EXPECT_EQ(RunWith({here, "--baseline=" + there}).status, 0);
}

TEST(CompareDirsTest, AThresholdForgives) {
  const std::string here = Dir("threshold_here", {{"naive", 110}});
  const std::string there = Dir("threshold_there", {{"naive", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there, "--threshold=15"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("no difference beyond 15 % shown"));
  EXPECT_EQ(RunWith({here, "--baseline=" + there, "--threshold=5"}).status, 3);
}

TEST(CompareDirsTest, TooFewStepsCannotFail) {
  const std::string here = Dir("few_here", {{"naive", 200, 9}});
  const std::string there = Dir("few_there", {{"naive", 100, 30}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("too few steps"));
  EXPECT_THAT(outcome.out, HasSubstr("n<10:cannot-fail"));
}

TEST(CompareDirsTest, AGateThatComparesNothingDoesNotPass) {
  const std::string here = Dir("nothing_here", {{"naive", 100}});
  const std::string there = Dir("nothing_there", {{"flat", 100}});
  const Outcome outcome = RunWith({here, "--baseline=" + there});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("has no row of what was given: nothing compared"));
}

TEST(CompareDirsTest, BadArguments) {
  const std::string here = Dir("bad_here", {{"naive", 100}});
  EXPECT_EQ(RunWith({here, "--baseline=/nowhere/at/all"}).status, 2);
  EXPECT_EQ(RunWith({here, "--threshold=5"}).err, "summarize: --threshold: needs --baseline\n");
  EXPECT_EQ(RunWith({here, "--baseline=" + here, "--baseline_row=naive"}).status, 2);
}

}  // namespace
}  // namespace gradsync::tools
