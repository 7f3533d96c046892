// How the training benchmark's ranks are started, stopped and repeated, and what they then leave behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "bench/launch/rank_options.h"
#include "bench/training/programs/ddp_test.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;

// Waits until there are records of which `has_come` says so, or fails.
template <class HasCome>
void WaitForRecords(const std::string& directory, RunningProgram& program, const HasCome& has_come) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!has_come(RecordsIn(directory, /*running=*/true))) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << program.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class StopTest : public ::testing::TestWithParam<int> {};

TEST_P(StopTest, AStoppedRunLeavesAllRoundsSoFar) {
  constexpr size_t kSteps = 20;
  const std::string out = FreshDirectory();
  RunningProgram program(kDdp, With(Micro(out, {"--strategies=none,naive,core"}), "--steps", "1000000"));
  WaitForRecords(out, program, [](const std::vector<Record>& records) {
    return records.size() == 6 && std::ranges::all_of(records, [](const Record& record) {
             return record.samples.at("forward_ns").size() >= kSteps;
           });
  });
  ASSERT_EQ(kill(program.pid(), GetParam()), 0);
  EXPECT_EQ(program.Wait(std::chrono::seconds(20)).status, 128 + GetParam());
  const std::vector<Record> records = RecordsIn(out, /*running=*/true);
  ASSERT_EQ(records.size(), 6u);
  for (const Record& record : records) {
    const size_t steps = record.samples.at("forward_ns").size();
    EXPECT_GE(steps, kSteps);
    // The last round may have been cut off.
    for (const Record& other : records) {
      EXPECT_LE(other.samples.at("forward_ns").size(), steps + 1);
    }
    EXPECT_EQ(record.samples.at("position").back() / 3, static_cast<int64_t>(steps) - 1);
    EXPECT_TRUE(record.checks.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, StopTest, ::testing::Values(SIGINT, SIGTERM));

TEST(DdpLaunchTest, LaunchesOfASetHaveSeedsAndOrdersOfTheirOwn) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      kDdp,
      With(Micro(out, {"--strategies=none,naive,flat,core", "--repeats=3", "--seed=5"}), "--steps", "8"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Launch 3 of 3\n"));
  std::map<int64_t, std::set<std::string>> run_ids;
  std::map<int64_t, std::map<std::string, std::vector<int64_t>>> orders;
  std::set<std::string> sets;
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 3u * 2u * 4u);
  for (const Record& record : records) {
    ExpectOneCompleteRecord(record, 8);
    const int64_t launch = record.facts.IntOr("launch", -1);
    EXPECT_EQ(record.facts.IntOr("launches", -1), 3);
    EXPECT_EQ(record.config.IntOr("seed", -1), 5 + launch);
    run_ids[launch].insert(record.run_id);
    sets.insert(record.facts.StringOr("launch_set", ""));
    orders[launch][record.variant.qualified_strategy()] = record.samples.at("position");
  }
  ASSERT_EQ(run_ids.size(), 3u);
  for (const auto& [launch, ids] : run_ids) EXPECT_EQ(ids.size(), 1u) << launch;
  EXPECT_EQ(sets, run_ids[0]);
  EXPECT_NE(run_ids[0], run_ids[1]);
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

// Returns a directory for RUNFILES_DIR, in which this script is the estimator.
std::string WithEstimator(const std::string& script) {
  std::string runfiles = FreshDirectory();
  const std::filesystem::path estimator = runfiles + "/gradsync/tools/summarize";
  std::filesystem::create_directories(estimator.parent_path());
  std::ofstream(estimator) << "#!/bin/sh\n" << script;
  std::filesystem::permissions(estimator, std::filesystem::perms::owner_all);
  return runfiles;
}

// After the second launch at the earliest, by the word of the estimator.
TEST(DdpLaunchTest, EndsOnceDifferencesAreKnownToThePrecision) {
  const auto launches_at = [](const char* precision, const char* answer) {
    const std::string out = FreshDirectory();
    const std::string runfiles = WithEstimator(Join("[ \"$2\" = ", precision, " ] && ", answer, "\n"));
    const Arguments arguments = Micro(out, {"--strategies=none,naive,core", precision, "--repeats=3"});
    const ProgramResult result = RunProgram(kDdp, With(arguments, "--steps", "2"),
                                            {{"RUNFILES_DIR", runfiles}, {"RUNFILES_MANIFEST_FILE", ""}});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    const std::vector<Record> records = RecordsIn(out);
    for (const Record& record : records) {
      EXPECT_GT(record.config.DoubleOr("precision", 0), 0);
      EXPECT_EQ(record.facts.IntOr("launches", 0), 3);
    }
    const size_t launches = records.size() / (2u * 3u);
    const bool says_why = result.out.find(" %: no further launch\n") != std::string::npos;
    EXPECT_EQ(says_why, launches < 3) << result.out;
    return launches;
  };
  EXPECT_EQ(launches_at("--precision=2%", "exit 0"), 2u);
  EXPECT_EQ(launches_at("--precision=2%", "exit 3"), 3u);
}

// By the word of the estimator: the first launch takes all variants, the later ones those that it names, for
// as many steps as it says.
TEST(DdpLaunchTest, LaterLaunchesTakeTheVariantsThatTheFirstOneLeaves) {
  const std::string out = FreshDirectory();
  const std::string runfiles = WithEstimator(
      "[ \"$2 ${3%%=*}\" = \"--format=choice --run\" ] || exit 1\n"
      "echo --variants=none,core@gloo --steps=4\necho core leads\n");
  const Arguments arguments =
      Micro(out, {"--strategies=none,naive,core", "--backend=gloo", "--choose", "--answer=true"});
  const ProgramResult result = RunProgram(kDdp, With(arguments, "--steps", "2"),
                                          {{"RUNFILES_DIR", runfiles}, {"RUNFILES_MANIFEST_FILE", ""}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "core leads\n");
  std::map<int64_t, std::multiset<std::string>> variants;  // by launch, of both ranks
  std::set<std::string> sets;
  for (const Record& record : RecordsIn(out)) {
    const int64_t launch = record.facts.IntOr("launch", -1);
    variants[launch].insert(record.variant.name());
    sets.insert(record.facts.StringOr("launch_set", ""));
    EXPECT_EQ(record.facts.StringOr("stage", ""), launch == 0 ? "choosing" : "deciding");
    EXPECT_THAT(record.provenance.base_command,
                testing::EndsWith("/ddp --num_layers=2 --d_model=16 --d_ff=32 --num_heads=2 --vocab_size=64 "
                                  "--warmup_steps=2"));
    EXPECT_EQ(record.samples.at("forward_ns").size(), launch == 0 ? 2u : 4u);
  }
  const std::multiset<std::string> all = {"none",
                                          "none",
                                          "naive@gloo",
                                          "naive@gloo",
                                          "core:bucket_bytes=4Ki@gloo",
                                          "core:bucket_bytes=4Ki@gloo"},
                                   chosen = {"none", "none", "core@gloo", "core@gloo"};
  EXPECT_EQ(variants, (std::map<int64_t, std::multiset<std::string>>{{0, all}, {1, chosen}, {2, chosen}}));
  EXPECT_EQ(sets.size(), 1u);
}

// What differs between ranks under a launcher: GRADSYNC_LAUNCH, the directory where each is started, and
// arguments that are added for each. There are as many ranks as entries of `added`.
struct Differs {
  std::vector<std::string> launches = {"", "", ""};
  std::vector<std::string> directories = {".", ".", "."};
  std::vector<Arguments> added = {{}, {}};
};

// The ranks' ends, under torchrun, to which each leaves what it died of in `errors`/<rank>.
std::vector<ProgramResult> UnderTorchrun(const Arguments& arguments, const std::string& errors,
                                         const Differs& differs = {}) {
  const std::string meeting = "file://" + FreshDirectory(), program = std::filesystem::absolute(kDdp);
  const std::filesystem::path here = std::filesystem::current_path();
  const std::string world_size = std::to_string(differs.added.size());
  std::vector<std::unique_ptr<RunningProgram>> ranks;
  for (size_t i = 0; i < differs.added.size(); ++i) {
    const std::string rank = std::to_string(i);
    Arguments own = arguments;
    own.insert(own.end(), differs.added[i].begin(), differs.added[i].end());
    std::filesystem::current_path(differs.directories[i]);
    ranks.push_back(std::make_unique<RunningProgram>(
        program, own,
        std::vector<std::pair<std::string, std::string>>{{"RANK", rank},
                                                         {"WORLD_SIZE", world_size},
                                                         {"LOCAL_RANK", rank},
                                                         {"LOCAL_WORLD_SIZE", world_size},
                                                         {"TORCHELASTIC_ERROR_FILE", errors + "/" + rank},
                                                         {"GRADSYNC_LAUNCH", differs.launches[i]},
                                                         {"GRADSYNC_RENDEZVOUS", meeting}}));
    std::filesystem::current_path(here);
  }
  std::vector<ProgramResult> results;
  for (const auto& rank : ranks) results.push_back(rank->Wait());
  return results;
}

// Rank 0 alone reads the weights; only one of the ranks cannot write where records go. The other does not
// wait.
TEST(DdpLaunchTest, ABadArgumentIsOneOnAllRanks) {
  const auto refused = [](const Arguments& arguments, const std::string& start, const Differs& differs) {
    const std::string errors = FreshDirectory();
    int rank = 0;
    for (const ProgramResult& result : UnderTorchrun(arguments, errors, differs)) {
      const auto left = nlohmann::json::parse(std::ifstream(errors + "/" + std::to_string(rank++)));
      EXPECT_EQ(left["message"]["message"].get<std::string>() + "\n", result.err);
      EXPECT_TRUE(left["message"]["extraInfo"]["timestamp"].is_string());
      EXPECT_FALSE(left["message"]["extraInfo"].contains("py_callstack"))
          << "in its place torchrun shows the message";
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.err, ::testing::StartsWith(start));
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
    }
  };
  const std::string good = FreshDirectory(), bad = "/proc", out = "/proc/self/cwd/out";
  refused(Micro(good, {"--strategies=core", "--weights=/nonexistent"}), "/nonexistent: ", {});
  for (const auto& directories : {std::vector{good, bad}, std::vector{bad, good}})
    refused(Micro(out, {"--strategies=core"}),
            "--out=" + out + ": cannot be made: ", {.directories = directories});
}

// One rank says it for all. They train nothing.
TEST(DdpLaunchTest, WhatFitsIsSaidOnce) {
  const std::string out = FreshDirectory();
  const std::vector<ProgramResult> ranks =
      UnderTorchrun({"--variants=naive,zero3", "--max_memory=1GiB"}, out);
  EXPECT_THAT(ranks[0].out,
              ::testing::ContainsRegex("Memory of each of 2 ranks by estimate, in brackets if more than 1.00 "
                                       "GiB(.|\n)*\nnaive@gloo .*\nzero3@gloo [^\n]*\n$"));
  for (const ProgramResult& rank : ranks) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_EQ(ranks[1].out, "");
}

// Three starts, the first of them twice, because it may fail: one set.
TEST(DdpLaunchTest, LaunchesOfALauncherAreASetIfTheyAreGivenItsName) {
  const std::string out = FreshDirectory();
  const Arguments arguments = Micro(out, {"--strategies=core", "--seed=5"});
  for (const char* const launch : {"monday,0", "monday,0", "monday,2"}) {
    for (const ProgramResult& result :
         UnderTorchrun(arguments, FreshDirectory(), {.launches = {launch, launch}}))
      EXPECT_EQ(result.status, 0) << result.err;
  }
  std::map<int64_t, std::set<std::string>> run_ids;
  for (const Record& record : RecordsIn(out)) {
    const int64_t launch = record.facts.IntOr("launch", -1);
    EXPECT_EQ(record.facts.StringOr("launch_set", ""), "monday");
    EXPECT_EQ(record.config.IntOr("seed", -1), 5 + launch);
    run_ids[launch].insert(record.run_id);
  }
  EXPECT_EQ(run_ids[0].size(), 2u);
  EXPECT_EQ(run_ids[2].size(), 1u);
  // Ranks of different launches would train on other seeds.
  for (const ProgramResult& result :
       UnderTorchrun(arguments, FreshDirectory(), {.launches = {"monday,0", "monday,1"}})) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("GRADSYNC_LAUNCH: rank 0 has monday,0, rank 1 has monday,1\n"));
  }
}

TEST(DdpLaunchTest, RunsUnderALauncher) {
  const std::string out = FreshDirectory(), errors = FreshDirectory();
  // Hosts may differ in these two flags. Without a flag the world size would be 2.
  const Differs differs = {.added = {{"--world_size=3"}, {}, {"--interface=127.0.0.1"}}};
  const std::vector<ProgramResult> results =
      UnderTorchrun(Micro(out, {"--strategies=core"}), errors, differs);
  for (const ProgramResult& result : results) EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(results[0].out, ::testing::StartsWith("torchrun: 3 ranks on 1 host, which met at file://"));
  EXPECT_TRUE(std::filesystem::is_empty(errors));
  const std::vector<Record> records = RecordsIn(out);
  ASSERT_EQ(records.size(), 3u);
  for (const Record& record : records) {
    ExpectOneCompleteRecord(record, 3);
    EXPECT_EQ(record.facts.StringOr("launcher", ""), "torchrun");
    EXPECT_EQ(record.config.IntOr("threads_per_rank", 0), CountThreadsPerRank(std::vector(3, ReadOwnCpus())));
    EXPECT_EQ(record.facts.StringOr("launch_set", ""), record.run_id);
  }
}

// `none` trains each rank's weights apart; who keeps all parts on each host nevertheless begins with equal
// ones.
TEST(DdpLaunchTest, RanksOfTwoHostsStayEqualWithPartsOnEach) {
  if (comm::OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  const std::string out = FreshDirectory();
  RunOnTwoHosts(
      Micro(out, {"--backend=hierarchical", "--variants=none,zero3:within=host,zero1:within=host"}));
  int64_t checked = 0;
  for (const Record& record : RecordsIn(out)) {
    if (record.variant.strategy == "none") continue;
    ExpectEqualGradients(record, "single_process");
    checked += record.checks.IntOr("equal_spot_checks", 0);
  }
  EXPECT_EQ(checked, 2 * 4);
}

}  // namespace
}  // namespace gradsync::bench
