#include "bench/presets/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/timing/schedule.h"
#include "bench/training/options.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

// Where everything fits, whatever is free where the test runs.
std::vector<Experiment> Make(const SuiteOptions& options, std::vector<std::string>* notes) {
  return MakeExperiments(options, notes, {.host_bytes = int64_t{1} << 40});
}

class PresetTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PresetTest, RunsEveryBenchmarkWithTheGivenFlags) {
  SuiteOptions options;
  options.preset = GetParam();
  options.ranks.world_size = 3;
  options.ranks.timeout = std::chrono::milliseconds(1500);
  std::vector<std::string> notes;
  const std::vector<Experiment> experiments = Make(options, &notes);
  ASSERT_GE(experiments.size(), 3u);
  EXPECT_EQ(experiments.front().program, "all_reduce");
  for (const std::string program : {"ddp", "compare"}) {
    EXPECT_TRUE(std::any_of(experiments.begin(), experiments.end(), [&](const Experiment& experiment) {
      return experiment.program == program;
    })) << program;
  }
  for (const Experiment& experiment : experiments) {
    EXPECT_THAT(experiment.arguments, Contains("--world_size=3")) << experiment.title;
    EXPECT_THAT(experiment.arguments, Contains("--timeout=1.5s")) << experiment.title;
    EXPECT_THAT(experiment.arguments, Contains(StartsWith("--backend="))) << experiment.title;
  }
  for (const std::string& note : notes)
    EXPECT_THAT(note, AnyOf(HasSubstr(" need about "), HasSubstr("5 of the 25 published sizes")));
}

// As the program reads the arguments of an experiment.
TrainingOptions Parsed(const Experiment& experiment) {
  TrainingOptions options = experiment.program == "compare" ? CompareDefaults() : TrainingOptions();
  FlagTable flags(experiment.program, "");
  options.AddTo(flags);
  std::vector<const char*> argv = {"program"};
  for (const std::string& argument : experiment.arguments) argv.push_back(argument.c_str());
  flags.Parse(static_cast<int>(argv.size()), argv.data());
  comm::World world;
  world.size = world.local_size = 2;
  options.Complete(flags, world);
  return options;
}

// A row over another would have nothing to be compared with.
TEST(SuiteOptionsTest, NoExperimentHasAnotherBackend) {
  using Backends = std::vector<std::string>;
  for (const char* const preset : {"smoke", "quick", "reference"}) {
    for (const Backends& backends : {Backends{"gloo"}, {"shm"}, {"hierarchical"}, {"shm", "gloo_own"}}) {
      std::vector<std::string> notes;
      SuiteOptions options;
      options.preset = preset;
      options.backends = backends;
      for (const Experiment& experiment : Make(options, &notes)) {
        if (experiment.program == "all_reduce") continue;
        EXPECT_THAT(Parsed(experiment).GroupBackends(), UnorderedElementsAreArray(backends))
            << preset << ": " << experiment.title;
      }
    }
  }
}

// Over each backend that gathers weights; by default the rows that the documents have.
TEST(SuiteOptionsTest, QuickGathersUnderForwardWhereThatCouldWin) {
  const auto rows_of = [](const std::vector<std::string>& backends) {
    std::vector<std::string> notes, rows;
    SuiteOptions options;
    options.backends = backends;
    const std::vector<Experiment> experiments = Make(options, &notes);
    for (const size_t i : {1, 2}) {
      for (const TrainingVariant& variant : Parsed(experiments.at(i)).variants)
        if (variant.carries()) rows.push_back(variant.over());
    }
    return rows;
  };
  EXPECT_THAT(rows_of({}), ElementsAre("gloo", "gloo"));
  EXPECT_THAT(rows_of({"shm"}), ElementsAre());
  EXPECT_THAT(rows_of({"hierarchical"}), ElementsAre("hierarchical", "hierarchical"));
}

// Every variant takes every place equally often, over both backends, and at least the ten rounds of a claim.
TEST(SuiteOptionsTest, QuickTakesTenRoundsOrMoreInWholeBlocks) {
  for (const std::vector<std::string>& backends :
       std::vector<std::vector<std::string>>{{}, {"gloo"}, {"shm"}}) {
    std::vector<std::string> notes;
    SuiteOptions options;
    options.preset = "quick";
    options.backends = backends;
    int trainings = 0;
    for (const Experiment& experiment : Make(options, &notes)) {
      if (experiment.program == "all_reduce" || experiment.subdirectory == "traces") continue;
      ++trainings;
      const TrainingOptions parsed = Parsed(experiment);
      if (parsed.time) continue;
      EXPECT_GE(parsed.steps, 10) << experiment.title;
      EXPECT_EQ(parsed.steps % RoundsPerBlock(static_cast<int>(parsed.variants.size())), 0)
          << experiment.title;
    }
    EXPECT_EQ(trainings, 4);
  }
}

// The report's timeline is of the suite itself; traced steps are in no table of it.
TEST(SuiteOptionsTest, QuickTracesAStepOfEachStrategy) {
  std::vector<std::string> notes;
  const std::vector<Experiment> experiments = Make({}, &notes);
  const auto traced = std::ranges::find(experiments, "traces", &Experiment::subdirectory);
  ASSERT_NE(traced, experiments.end());
  const TrainingOptions parsed = Parsed(*traced);
  EXPECT_TRUE(parsed.trace);
  std::set<std::string> strategies;
  for (const TrainingVariant& variant : parsed.variants) strategies.insert(variant.strategy);
  EXPECT_THAT(strategies, IsSupersetOf({"naive", "flat", "overlap", "bucketed_async", "core", "zero1"}));
}

// Two launches, which share their time.
TEST(SuiteOptionsTest, QuickMeasuresEachLaunchOfTheDecidingModelForNinetySeconds) {
  std::vector<std::string> notes;
  const TrainingOptions parsed = Parsed(Make({}, &notes).at(1));
  EXPECT_EQ(parsed.model, "tiny");
  EXPECT_EQ(parsed.ranks.repeats, 2);
  EXPECT_EQ(parsed.time, std::chrono::seconds(90));
}

TEST(SuiteOptionsTest, QuickGivesTheLargerModelATimeSoThatASlowMachineTakesNoLonger) {
  std::vector<std::string> notes;
  const TrainingOptions parsed = Parsed(Make({}, &notes).at(2));
  EXPECT_EQ(parsed.model, "small");
  EXPECT_EQ(parsed.time, std::chrono::minutes(4));
}

INSTANTIATE_TEST_SUITE_P(All, PresetTest, ::testing::Values("smoke", "quick", "reference"));

TEST(SuiteOptionsTest, EveryExperimentComparesTheBackends) {
  // The --backend of all experiments.
  const auto backends_of = [](const SuiteOptions& options) {
    std::vector<std::string> found, notes;
    for (const Experiment& experiment : Make(options, &notes)) {
      for (const std::string& argument : experiment.arguments)
        if (argument.starts_with("--backend=")) found.push_back(experiment.program + argument.substr(9));
    }
    return found;
  };
  SuiteOptions options;
  options.preset = "smoke";
  EXPECT_THAT(backends_of(options), ElementsAre("all_reduce=gloo", "ddp=gloo", "compare=gloo"));
  options.preset = "quick";
  EXPECT_THAT(backends_of(options), ElementsAre("all_reduce=gloo,shm", "ddp=gloo,shm", "ddp=gloo,shm",
                                                "ddp=gloo,shm", "ddp=gloo,shm", "compare=gloo,shm"));
  options.backends = {"hierarchical"};
  EXPECT_THAT(backends_of(options),
              ElementsAre("all_reduce=hierarchical", "ddp=hierarchical", "ddp=hierarchical",
                          "ddp=hierarchical", "ddp=hierarchical", "compare=hierarchical"));
}

TEST(SuiteOptionsTest, WhatDoesNotFitIsLeftOutWithItsReason) {
  SuiteOptions options;
  options.preset = "smoke";
  options.ranks.world_size = 4096;
  std::vector<std::string> notes;
  const std::vector<Experiment> experiments = Make(options, &notes);
  EXPECT_EQ(experiments.size(), 1u);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes.back(), StartsWith("bucket sizes, a narrow resnet50: left out: --model=resnet50: "));
  EXPECT_THAT(notes.front(),
              StartsWith("tiny, every strategy: left out: --model=tiny: 4096 ranks need about "));
}

TEST(SuiteOptionsTest, OnASmallHostTheLargerModelIsLeftOut) {
  std::vector<std::string> notes;
  const size_t all = Make({}, &notes).size();
  EXPECT_THAT(notes, ::testing::IsEmpty());
  EXPECT_EQ(MakeExperiments({}, &notes, {.host_bytes = int64_t{8} << 30}).size(), all - 1);
  EXPECT_THAT(notes, ElementsAre(StartsWith("small, exact strategies that could win: left out: ")));
}

TEST(SuiteOptionsTest, PeersTakePartInAllTraining) {
  SuiteOptions options;
  options.preset = "smoke";
  options.peers.with_peers = "pytorch";
  options.peers.modes = {"eager", "compiled"};
  options.peers.peer_python = "/opt/python";
  std::vector<std::string> notes;
  for (const Experiment& experiment : Make(options, &notes)) {
    const bool trains = experiment.program != "all_reduce";
    for (const char* const flag :
         {"--with_peers=pytorch", "--peer_modes=eager,compiled", "--peer_python=/opt/python"}) {
      EXPECT_EQ(std::ranges::count(experiment.arguments, flag), trains ? 1 : 0) << experiment.title;
    }
  }
}

TEST(SuiteOptionsTest, ABadFlagIsFoundBeforeAnythingRuns) {
  SuiteOptions options;
  options.corpus = "/nonexistent";
  std::vector<std::string> notes;
  EXPECT_THROW(Make(options, &notes), InvalidInput);
}

}  // namespace
}  // namespace gradsync::bench
