#include "bench/learning/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/learning/options.h"
#include "comm/testing/errors.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kF32Bytes = 4;

std::vector<TunedOption> Parsed(std::string_view text) { return TunedOptions().parse(text).value(); }

std::vector<std::string> Names(const std::vector<TrainingVariant>& variants) {
  std::vector<std::string> names;
  for (const TrainingVariant& variant : variants) names.push_back(variant.name());
  return names;
}

TrainingVariant Made(const std::string& text) {
  return MakeVariants("variants", std::vector<std::string>{text},
                      {.backends = {"shm"}, .bucket_bytes = {ddp::kDefaultBucketBytes}})
      .front();
}

TEST(TuningTest, ReadsOptionsAndTheirValues) {
  const std::string text = "learning_rate=1e-3,3e-3:outer_momentum=0,0.5";
  EXPECT_THAT(Parsed(text), ElementsAre(TunedOption{"learning_rate", {"1e-3", "3e-3"}},
                                        TunedOption{"outer_momentum", {"0", "0.5"}}));
  EXPECT_EQ(TunedOptions().print(Parsed(text)), text);
  for (const char* const wrong : {"", "learning_rate", "learning_rate=", "=1", "a=1:a=2"})
    EXPECT_FALSE(TunedOptions().parse(wrong).has_value()) << wrong;
}

TEST(TuningTest, EveryVariantIsTriedWithTheOptionsThatItTakes) {
  const std::vector<TunedOption> options = Parsed("learning_rate=0.001,0.01:outer_momentum=0,0.5");
  const std::vector<TrainingVariant> naive = ListSettings(Made("naive"), options, kF32Bytes);
  EXPECT_THAT(Names(naive), ElementsAre("naive:learning_rate=0.001@shm", "naive:learning_rate=0.01@shm"));
  EXPECT_TRUE(naive[0].tuned && naive[1].tuned);
  EXPECT_EQ(naive[1].learning_rate(), 0.01);
  EXPECT_EQ(ListSettings(Made("diloco"), options, kF32Bytes).size(), 4);
  // What is given stays as it is.
  const std::vector<TrainingVariant> given =
      ListSettings(Made("diloco:learning_rate=0.1:outer_momentum=0.7"), options, kF32Bytes);
  EXPECT_THAT(Names(given), ElementsAre("diloco:learning_rate=0.1,outer_momentum=0.7@shm"));
  EXPECT_FALSE(given[0].tuned);
}

TEST(TuningTest, RefusesWhatCannotBeTried) {
  const auto message = [](const char* variant, const char* tune) {
    return comm::ErrorOf<InvalidInput>([&] { ListSettings(Made(variant), Parsed(tune), kF32Bytes); });
  };
  EXPECT_THAT(message("diloco", "learning_rate=1,2,3,4:outer_momentum=0,0.5,0.9"),
              HasSubstr("--tune: diloco@shm would be tried with more than 9 settings"));
  EXPECT_NE(message("diloco", "learning_rate=1,2,3,4,5:outer_momentum=0,0.5"), "no error");
  EXPECT_EQ(message("diloco", "learning_rate=1,2,3:outer_momentum=0,0.5,0.9"), "no error");
  EXPECT_THAT(message("diloco", "outer_momentum=2"), HasSubstr("outer_momentum"));
  EXPECT_EQ(message("naive", "outer_momentum=2"), "no error");
}

ConvergencePlan PlanOf(std::vector<const char*> arguments) {
  ConvergenceOptions options;
  FlagTable flags("convergence", "");
  options.AddTo(flags);
  arguments.insert(arguments.begin(), "convergence");
  flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  return ConvergencePlan(options, flags);
}

std::string ErrorOf(const std::vector<const char*>& arguments) {
  return comm::ErrorOf<InvalidInput>([&] { PlanOf(arguments); });
}

TEST(TuningTest, LossyStrategiesBeginExactly) {
  const ConvergencePlan plan =
      PlanOf({"--variants=topk,powersgd:start=7,powersgd:start=0,naive", "--steps=50"});
  std::vector<std::string> names;
  for (const auto& tried : plan.settings) names.push_back(tried.front().label());
  EXPECT_THAT(names, ElementsAre("topk:warmup=5", "powersgd:start=7", "powersgd", "naive"));
  EXPECT_THAT(ErrorOf({"--variants=powersgd:start=50", "--steps=50"}),
              HasSubstr("--steps=50: powersgd:start=50@gloo would send every step exactly"));
}

TEST(TuningTest, HowLongTheyDoMayBeTried) {
  const ConvergencePlan plan = PlanOf({"--variants=topk,powersgd", "--steps=50", "--tune=warmup=0,20"});
  EXPECT_THAT(Names(plan.settings.front()), ElementsAre("topk@gloo", "topk:warmup=20@gloo"));
  EXPECT_THAT(Names(plan.settings.back()), ElementsAre("powersgd:start=5@gloo"));
}

// It stays what it is, whatever else is tried.
TEST(TuningTest, ADefaultThatIsGivenIsNotTried) {
  EXPECT_EQ(ErrorOf({"--variants=diloco:outer_momentum=0.9", "--tune=outer_momentum=0,0.5"}),
            "--tune: no variant is to be tried with outer_momentum");
  const ConvergencePlan others = PlanOf({"--variants=diloco:outer_momentum=0.9,diloco:period=4", "--steps=40",
                                         "--tune=learning_rate=0.1,0.2:outer_momentum=0,0.5"});
  EXPECT_EQ(others.settings.front().size(), 2u);
  EXPECT_EQ(others.settings.back().size(), 4u);
}

TEST(TuningTest, TheDefaultMayBeTriedFirst) {
  const ConvergencePlan plan = PlanOf({"--variants=diloco", "--steps=40", "--tune=outer_momentum=0.9,0.5"});
  EXPECT_THAT(Names(plan.settings.front()), ElementsAre("diloco@gloo", "diloco:outer_momentum=0.5@gloo"));
}

TEST(TuningTest, RefusesOptionsThatNobodyTakes) {
  EXPECT_EQ(ErrorOf({"--variants=naive", "--tune=outer_momentum=0,1"}),
            "--tune: no variant is to be tried with outer_momentum");
  EXPECT_EQ(ErrorOf({"--variants=naive", "--tune=learning_rate=1,2", "--learning_rate=3"}),
            "--learning_rate: every variant takes it from --tune, or names its own");
}

TEST(PlanTest, RefusesWhatCannotBeTrained) {
  EXPECT_EQ(ErrorOf({"--variants=naive", "--steps=9", "--lr_schedule=cosine,warmup=9"}),
            "--lr_schedule: found 9 steps of warmup, expected fewer than the 9 of --steps");
  EXPECT_EQ(ErrorOf({"--variants=naive", "--optimizer=sgd", "--decay=matrices"}),
            "--decay: sgd has no weight decay");
  EXPECT_THAT(ErrorOf({"--variants=zero1", "--optimizer=adamw,muon"}),
              HasSubstr("--optimizer=muon: zero1:optimizer=muon@gloo divides matrices among ranks"));
  EXPECT_EQ(ErrorOf({"--variants=naive", "--accumulation_steps=1,2"}), "--accumulation_steps: expected one");
}

}  // namespace
}  // namespace gradsync::bench
