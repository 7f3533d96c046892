#include "bench/presets/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/timing/schedule.h"
#include "bench/training/plan.h"

namespace gradsync::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

// Where everything fits.
std::vector<Experiment> Make(const SuiteOptions& options) {
  std::vector<Experiment> first;
  for (const Alternatives& alternatives : MakeExperiments(options)) first.push_back(alternatives.front());
  return first;
}

class PresetTest : public ::testing::TestWithParam<Preset> {};

TEST_P(PresetTest, RunsEveryBenchmarkWithTheGivenFlags) {
  SuiteOptions options;
  options.preset = GetParam();
  options.ranks.world_size = 3;
  options.ranks.threads_per_rank = 2;
  options.ranks.timeout = std::chrono::milliseconds(1500);
  const std::vector<Experiment> experiments = Make(options);
  ASSERT_GE(experiments.size(), 3u);
  EXPECT_EQ(experiments.front().program, "all_reduce");
  for (const std::string program : {"ddp", "compare"}) {
    EXPECT_TRUE(std::any_of(experiments.begin(), experiments.end(), [&](const Experiment& experiment) {
      return experiment.program == program;
    })) << program;
  }
  for (const Experiment& experiment : experiments) {
    EXPECT_THAT(experiment.arguments, Contains("--world_size=3")) << experiment.title;
    // A collective computes nothing.
    EXPECT_EQ(std::ranges::count(experiment.arguments, "--threads_per_rank=2"),
              experiment.program == "all_reduce" ? 0 : 1)
        << experiment.title;
    EXPECT_THAT(experiment.arguments, Contains("--timeout=1.5s")) << experiment.title;
    EXPECT_THAT(experiment.arguments, Contains(StartsWith("--backend="))) << experiment.title;
  }
}

// As the program reads the arguments of an experiment.
TrainingPlan Parsed(const Experiment& experiment) {
  TrainingOptions options = experiment.program == "compare" ? CompareDefaults() : TrainingOptions();
  FlagTable flags(experiment.program, "");
  options.AddTo(flags);
  std::vector<const char*> argv = {"program"};
  for (const std::string& argument : experiment.arguments) argv.push_back(argument.c_str());
  flags.Parse(static_cast<int>(argv.size()), argv.data());
  return TrainingPlan(options, flags);
}

// A row over another would have nothing to be compared with.
TEST(SuiteOptionsTest, NoExperimentHasAnotherBackend) {
  using Backends = std::vector<std::string>;
  for (const Preset preset : {Preset::kSmoke, Preset::kQuick, Preset::kReference}) {
    for (const Backends& backends : {Backends{"gloo"}, {"shm"}, {"hierarchical"}, {"shm", "gloo_own"}}) {
      SuiteOptions options;
      options.preset = preset;
      options.backends = backends;
      for (const Experiment& experiment : Make(options)) {
        if (experiment.program == "all_reduce") continue;
        EXPECT_THAT(Parsed(experiment).GroupBackends(), UnorderedElementsAreArray(backends))
            << Name(preset) << ": " << experiment.title;
      }
    }
  }
}

// Over each backend that gathers weights; by default the rows that the documents have.
TEST(SuiteOptionsTest, QuickGathersUnderForwardWhereThatCouldWin) {
  const auto rows_of = [](const std::vector<std::string>& backends) {
    std::vector<std::string> rows;
    SuiteOptions options;
    options.backends = backends;
    const std::vector<Experiment> experiments = Make(options);
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
    SuiteOptions options;
    options.preset = Preset::kQuick;
    options.backends = backends;
    int trainings = 0;
    for (const Experiment& experiment : Make(options)) {
      if (experiment.program == "all_reduce" || experiment.subdirectory == "traces") continue;
      ++trainings;
      const TrainingPlan parsed = Parsed(experiment);
      if (parsed.time) continue;
      EXPECT_GE(parsed.steps, 10) << experiment.title;
      EXPECT_EQ(parsed.steps % RoundsPerBlock(static_cast<int>(parsed.variants.size())), 0)
          << experiment.title;
    }
    EXPECT_EQ(trainings, 3);
  }
}

// The report's timeline is of the suite itself; traced steps are in no table of it.
TEST(SuiteOptionsTest, QuickTracesAStepOfEachStrategy) {
  const std::vector<Experiment> experiments = Make({});
  const auto traced = std::ranges::find(experiments, "traces", &Experiment::subdirectory);
  ASSERT_NE(traced, experiments.end());
  const TrainingPlan parsed = Parsed(*traced);
  EXPECT_TRUE(parsed.trace);
  std::set<std::string> strategies;
  for (const TrainingVariant& variant : parsed.variants) strategies.insert(variant.strategy);
  EXPECT_THAT(strategies, IsSupersetOf({"naive", "flat", "overlap", "bucketed_async", "core", "zero1"}));
}

// Three launches, which share their time, and of which the first chooses.
TEST(SuiteOptionsTest, QuickChoosesForAMinuteWhichRowsOfTheDecidingModelGoOn) {
  const TrainingPlan parsed = Parsed(Make({}).at(1));
  EXPECT_EQ(parsed.model, "tiny");
  EXPECT_TRUE(parsed.ranks.choose);
  EXPECT_EQ(parsed.ranks.num_launches(), 3);
  EXPECT_EQ(parsed.launch_time(), std::chrono::seconds(60));
}

TEST(SuiteOptionsTest, QuickGivesTheLargerModelATimeSoThatASlowMachineTakesNoLonger) {
  const TrainingPlan parsed = Parsed(Make({}).at(2));
  EXPECT_EQ(parsed.model, "small");
  EXPECT_EQ(parsed.time, std::chrono::seconds(140));
}

INSTANTIATE_TEST_SUITE_P(All, PresetTest,
                         ::testing::Values(Preset::kSmoke, Preset::kQuick, Preset::kReference));

TEST(SuiteOptionsTest, EveryExperimentComparesTheBackends) {
  // The --backend of all experiments.
  const auto backends_of = [](const SuiteOptions& options) {
    std::vector<std::string> found;
    for (const Experiment& experiment : Make(options)) {
      for (const std::string& argument : experiment.arguments)
        if (argument.starts_with("--backend=")) found.push_back(experiment.program + argument.substr(9));
    }
    return found;
  };
  SuiteOptions options;
  options.preset = Preset::kSmoke;
  EXPECT_THAT(backends_of(options), ElementsAre("all_reduce=gloo", "ddp=gloo", "compare=gloo"));
  options.preset = Preset::kQuick;
  EXPECT_THAT(backends_of(options), ElementsAre("all_reduce=gloo,shm", "ddp=gloo,shm", "ddp=gloo,shm",
                                                "ddp=gloo,shm", "compare=gloo,shm"));
  options.backends = {"hierarchical"};
  EXPECT_THAT(backends_of(options),
              ElementsAre("all_reduce=hierarchical", "ddp=hierarchical", "ddp=hierarchical",
                          "ddp=hierarchical", "compare=hierarchical"));
}

TEST(SuiteOptionsTest, OfPublishedModelsTheLargestComesFirst) {
  SuiteOptions options;
  options.preset = Preset::kReference;
  const std::vector<Alternatives> experiments = MakeExperiments(options);
  std::vector<std::string> models;
  for (const Experiment& experiment : experiments.at(1)) models.push_back(Parsed(experiment).model);
  EXPECT_THAT(models, ElementsAre("xl", "large", "medium", "small", "tiny"));
  EXPECT_THAT(experiments.back().front().title, HasSubstr("5 of the 25 published ones"));
}

TEST(SuiteOptionsTest, PeersTakePartInAllTraining) {
  SuiteOptions options;
  options.preset = Preset::kSmoke;
  options.peers.wanted = true;
  options.peers.modes = {PeerMode::kEager, PeerMode::kCompiled};
  options.peers.peer_python = "/opt/python";
  for (const Experiment& experiment : Make(options)) {
    const bool trains = experiment.program != "all_reduce";
    for (const char* const flag :
         {"--with_peers=pytorch", "--peer_modes=eager,compiled", "--peer_python=/opt/python"}) {
      EXPECT_EQ(std::ranges::count(experiment.arguments, flag), trains ? 1 : 0) << experiment.title;
    }
  }
}

}  // namespace
}  // namespace gradsync::bench
