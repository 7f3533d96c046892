#include "bench/peers/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/flag_marks.h"
#include "bench/timing/nvtx.h"
#include "bench/timing/schedule.h"
#include "bench/training/plan.h"
#include "bench/training/test_options.h"
#include "ddp/factory.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::StartsWith;

constexpr int64_t kMebi = int64_t{1} << 20;

// README's table of what is what in PyTorch is that of the traits. Each way of PyTorch's compares with one
// strategy.
TEST(TrainingOptionsTest, ReadmeNamesWhatPyTorchCallsEachStrategy) {
  std::ifstream file("README.md");
  const std::string readme(std::istreambuf_iterator<char>(file), {});
  std::set<std::string_view> twins;
  for (const std::string& name : ddp::StrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    if (traits.pytorch_twin.empty()) continue;
    EXPECT_TRUE(twins.insert(traits.pytorch_twin).second) << name;
    EXPECT_NE(PyTorchWay(traits.pytorch_twin), "") << name;
    EXPECT_THAT(readme,
                ::testing::HasSubstr(Join("\n| `", name, "` | ", PyTorchWay(traits.pytorch_twin), " |")));
  }
}

TrainingPlan ParseCompare(const std::vector<const char*>& arguments) {
  return PlanOf(CompareDefaults(), arguments);
}

TEST(OptionsTest, DefaultsAreASmallRunOfWhatAllReduces) {
  const TrainingPlan options = Parse({});
  EXPECT_THAT(options.strategies, ElementsAreArray(ddp::AllReduceStrategyNames()));
  EXPECT_EQ(options.variants.size(), options.strategies.size());
  EXPECT_EQ(options.variants.front().name(), "none");
  EXPECT_EQ(options.variants.back().name(), "core@gloo");
  EXPECT_THAT(options.GroupBackends(), ElementsAre("gloo"));
  EXPECT_TRUE(options.interleaved());
  EXPECT_EQ(options.steps % RoundsPerBlock(static_cast<int>(options.variants.size())), 0);
  EXPECT_EQ(options.transformer_config().d_model, 256);
  EXPECT_EQ(options.ranks.world_size, 2);
}

TEST(OptionsTest, OverridesReplaceTheModelsSizes) {
  const model::TransformerConfig config =
      Parse({"--model=small", "--num_layers=2", "--d_ff=100", "--vocab_size=300", "--seq_len=128,512"})
          .transformer_config();
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.d_ff, 100);
  EXPECT_EQ(config.vocab_size, 300);
  EXPECT_EQ(config.d_model, 768);
  EXPECT_EQ(config.context_length, 512);
}

TEST(OptionsTest, ListsAreMultipliedIntoVariants) {
  EXPECT_THAT(NamesOf(Parse({"--strategies=none,core", "--backend=shm,gloo", "--bucket_bytes=1MiB,25MiB"})),
              ElementsAre("none", "core:bucket_bytes=1Mi@shm", "core@shm", "core:bucket_bytes=1Mi@gloo",
                          "core@gloo"));
  const TrainingPlan options = Parse({"--variants=none,flat,core@shm", "--backend=gloo"});
  EXPECT_THAT(NamesOf(options), ElementsAre("none", "flat@gloo", "core@shm"));
  EXPECT_THAT(options.GroupBackends(), ElementsAre("gloo", "shm"));
  EXPECT_THAT(Parse({"--variants=none", "--backend=shm"}).GroupBackends(), ElementsAre("shm"));
  EXPECT_EQ(RefusalOf({"--variants=none", "--strategies=core"}),
            "--strategies: cannot be given beside --variants");
  EXPECT_EQ(RefusalOf({"--time=1m", "--steps=5"}), "--steps: cannot be given beside --time");
}

// All variants set such a value themselves, or none takes it.
TEST(OptionsTest, FlagsThatNoVariantTakesAreRefused) {
  EXPECT_EQ(RefusalOf({"--variants=none,core@shm", "--backend=gloo"}),
            "--backend: every one of --variants names its own, expected one without @backend");
  EXPECT_EQ(RefusalOf({"--variants=none:learning_rate=1,naive:learning_rate=1", "--learning_rate=2"}),
            "--learning_rate: every one of --variants names its own, expected one without learning_rate");
  EXPECT_EQ(RefusalOf({"--variants=naive:optimizer=sgd,core:optimizer=sgd", "--optimizer=adamw"}),
            "--optimizer: every one of --variants names its own, expected one without optimizer");
  for (const char* const from : {"variants", "strategies"}) {
    const std::string variants = Join("--", from, "=naive", *from == 'v' ? ",core:bucket_bytes=1Mi" : "");
    EXPECT_EQ(RefusalOf({variants.c_str(), "--bucket_bytes=1Mi"}),
              Join("--bucket_bytes: none of --", from,
                   " takes it, expected one with buckets and no size of its own"));
  }
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([] {
              ParseCompare({"--strategies=naive", "--buffer_elements=1Mi"});
            }),
            "--buffer_elements: none of --strategies has buckets");
}

// Before there are ranks, which would all say the same.
TEST(OptionsTest, WhatARunCannotDoIsRefused) {
  EXPECT_EQ(RefusalOf({"--tf32"}), "--tf32: expected --device=cuda and --dtype=f32, found cpu and f32");
  EXPECT_EQ(RefusalOf({"--dump_grads=/nonexistent/grads"}),
            "--dump_grads=/nonexistent/grads: there is no directory /nonexistent");
  EXPECT_EQ(RefusalOf({"--variants=none,local_sgd", "--dump_grads=./grads"}),
            "--dump_grads: expected a variant that averages gradients");
  EXPECT_EQ(RefusalOf({"--variants=none,powersgd:start=9"}),
            "--variants: powersgd:start=9@gloo: only //bench:convergence takes start, because timed steps "
            "must all be alike");
  EXPECT_EQ(RefusalOf({"--strategies=bucketed_async", "--with_peers=pytorch", "--comm_threads=4"}),
            "--comm_threads=4: --with_peers takes 2, as many as PyTorch has over gloo");
}

TEST(OptionsTest, StrategiesThatNeedF32OrTheCpuSaySo) {
  for (const std::string& name : ddp::StrategyNames()) {
    const auto error_with = [&](const char* flag) {
      return RefusalOf({("--strategies=" + name).c_str(), flag});
    };
    const ddp::Traits& traits = ddp::TraitsOf(name);
    EXPECT_EQ(error_with("--dtype=f64"),
              traits.needs_f32 ? "--dtype=f64: " + name + "@gloo takes f32 or bf16" : "no error");
    EXPECT_EQ(error_with("--dtype=bf16"), "no error");
    EXPECT_EQ(error_with("--device=cuda") == "--device=cuda: " + name + "@gloo computes on the CPU alone",
              traits.needs_cpu)
        << error_with("--device=cuda");
  }
}

TEST(OptionsTest, RowsTakeF32OrF64OnTheCpu) {
  for (const char* const flag : {"--dtype=bf16", "--device=cuda"}) {
    EXPECT_EQ(RefusalOf({"--variants=core,core:rows=1", flag}),
              Join(flag, ": core:rows=1@gloo: rows takes f32 or f64 on the CPU"));
  }
  EXPECT_EQ(Parse({"--variants=core:rows=0", "--dtype=bf16"}).variants[0].name(), "core@gloo");
  EXPECT_EQ(Parse({"--variants=core:rows=1", "--dtype=f64"}).variants[0].name(), "core:rows=1@gloo");
}

TEST(OptionsTest, StepsOfSeveralPassesAreSettings) {
  const TrainingPlan options = Parse({"--accumulation_steps=1,4"});
  EXPECT_THAT(options.accumulation_steps, ElementsAre(1, 4));
  EXPECT_EQ(options.Size().batch, 4 * Parse({}).Size().batch);
  for (const char* const flag : {"--with_peers=pytorch", "--trace", "--profile"}) {
    EXPECT_EQ(RefusalOf({"--accumulation_steps=2", flag}),
              "--accumulation_steps: expected 1 with --with_peers, --trace or --profile")
        << flag;
  }
}

// What it hears of all steps would stand beside the mean of one.
TEST(OptionsTest, TracesAndProfilesAreOfTurnsOfOneStep) {
  EXPECT_EQ(RefusalOf({"--variants=local_sgd", "--profile"}),
            "--profile: local_sgd@gloo takes 8 steps in a turn, expected one");
  EXPECT_EQ(RefusalOf({"--variants=core,zero1:gather=forward", "--trace"}),
            "--trace: zero1:gather=forward@gloo takes 4 steps in a turn, expected one");
  EXPECT_EQ(Parse({"--variants=local_sgd:period=1,zero1", "--profile"}).variants.size(), 2u);
}

TEST(OptionsTest, RangesForProfilersNeedTheToolkit) {
  if (HaveNvtx()) GTEST_SKIP() << "built with NVTX";
  EXPECT_THAT(RefusalOf({"--nvtx"}),
              StartsWith("--nvtx: this program was built without NVTX: build it with CUDA's toolkit"));
}

TEST(OptionsTest, LaunchesShareTheTime) {
  EXPECT_EQ(Parse({"--time=3m"}).launch_time(), std::chrono::minutes(3));
  const TrainingPlan options = Parse({"--time=2m", "--precision=2%"});
  EXPECT_EQ(options.ranks.num_launches(), 4);
  EXPECT_EQ(options.time, std::chrono::minutes(2));
  EXPECT_EQ(options.launch_time(), std::chrono::seconds(30));
  Record record;
  options.Describe(options.variants.front(), record);
  EXPECT_EQ(record.config.StringOr("time", ""), "30s");
  EXPECT_EQ(Parse({"--time=3m", "--repeats=2"}).launch_time(), std::chrono::seconds(90));
  EXPECT_EQ(options.time_in_turn(), std::chrono::seconds(30));
  EXPECT_EQ(Parse({"--time=2m", "--order=blocks", "--strategies=none,core,flat"}).time_in_turn(),
            std::chrono::seconds(40));
  EXPECT_EQ(RefusalOf({"--precision=2%", "--repeats=2"}),
            "--precision: ends between launches, expected --repeats of 3 or more, found 2");
}

TEST(OptionsTest, AChoiceNeedsLaunchesAfterIt) {
  const TrainingPlan options = Parse({"--choose", "--time=3m"});
  EXPECT_EQ(options.ranks.num_launches(), 3);
  EXPECT_EQ(options.launch_time(), std::chrono::minutes(1));
  EXPECT_EQ(Parse({"--choose", "--repeats=5"}).ranks.num_launches(), 5);
  for (const char* const flag : {"--repeats=1", "--precision=2%", "--order=blocks"}) {
    EXPECT_EQ(RefusalOf({"--choose", flag}),
              "--choose: expected --repeats of 2 or more, --order=interleaved and no --precision");
  }
}

// A later launch of --choose, and a command for two rows, keep the other flags.
TEST(OptionsTest, FlagsSayWhatTheyAreFor) {
  const auto given = [](TrainingOptions options, std::vector<const char*> arguments, FlagMarks except) {
    FlagTable flags("program", "");
    options.AddTo(flags);
    arguments.insert(arguments.begin(), "program");
    flags.Parse(static_cast<int>(arguments.size()), arguments.data());
    return flags.Given(except);
  };
  const std::vector<const char*> ddp = {"--d_ff=8",
                                        "--batch_size=2,4",
                                        "--accumulation_steps=2",
                                        "--seq_len=8",
                                        "--variants=core",
                                        "--strategies=core",
                                        "--backend=shm",
                                        "--bucket_bytes=1MiB",
                                        "--steps=3",
                                        "--time=3s",
                                        "--precision=2%",
                                        "--choose",
                                        "--order=interleaved",
                                        "--repeats=3",
                                        "--out=x",
                                        "--seed=3",
                                        "--verify",
                                        "--with_peers=pytorch",
                                        "--peer_modes=eager",
                                        "--peer_python=x"};
  EXPECT_THAT(given(TrainingOptions(), ddp, kChoosesRun),
              ElementsAre("--d_ff=8", "--order=interleaved", "--seed=3", "--verify=true"));
  EXPECT_THAT(
      given(TrainingOptions(), ddp, kChoosesRows),
      ElementsAre("--d_ff=8", "--batch_size=2,4", "--accumulation_steps=2", "--seq_len=8", "--precision=2%",
                  "--choose=true", "--order=interleaved", "--repeats=3", "--seed=3", StartsWith("--out="),
                  "--verify=true", "--with_peers=pytorch", "--peer_modes=eager", "--peer_python=x"));
  EXPECT_THAT(given(CompareDefaults(), {"--width=8", "--buffer_elements=1Mi", "--units=bytes"}, kChoosesRows),
              ElementsAre("--width=8"));
  // All that --max_memory reads.
  EXPECT_TRUE(Parse({"--max_memory=1GiB", "--num_layers=1", "--d_model=8", "--d_ff=8", "--num_heads=2",
                     "--vocab_size=16", "--batch_size=1", "--seq_len=8", "--accumulation_steps=2",
                     "--dtype=f32", "--optimizer=sgd", "--strategies=core", "--backend=shm",
                     "--bucket_bytes=1MiB", "--world_size=2", "--device=cpu", "--timeout=1s"})
                  .max_memory.has_value());
  EXPECT_TRUE(
      PlanOf(CompareDefaults(), {"--max_memory=1GiB", "--preset=published", "--model=resnet50", "--width=16",
                                 "--image_size=80", "--buffer_elements=1Mi", "--units=bytes"})
          .max_memory.has_value());
}

TEST(OptionsTest, ImagesAreAModelLikeAnyOther) {
  const TrainingPlan options = Parse({"--model=resnet50", "--width=8", "--image_size=64"});
  EXPECT_TRUE(options.on_images());
  EXPECT_EQ(options.resnet_config().width, 8);
  EXPECT_EQ(options.variants.size(), ddp::AllReduceStrategyNames().size());
  EXPECT_EQ(RefusalOf({"--model=resnet50", "--seq_len=128"}),
            "--seq_len: --model=resnet50 takes no sequences");
  EXPECT_EQ(RefusalOf({"--model=resnet50", "--d_model=8"}),
            "--d_model: --model=resnet50 takes no sizes of a transformer");
  EXPECT_EQ(RefusalOf({"--model=tiny", "--image_size=96"}), "--image_size: --model=tiny takes no images");
  EXPECT_EQ(RefusalOf({"--model=tiny", "--width=8"}), "--width: --model=tiny takes no width");
}

TEST(CompareTest, DefaultsAreTheScaledPreset) {
  const TrainingPlan options = ParseCompare({});
  EXPECT_THAT(options.strategies, ElementsAre("core", "bucketed_async", "bucketed_sync"));
  EXPECT_EQ(options.model, "resnet50");
  EXPECT_THAT(options.optimizers, ElementsAre(OptimizerKind::kSgd));
  EXPECT_TRUE(options.interleaved());
  EXPECT_LT(options.image_size, 224);
  ASSERT_EQ(options.variants.size(), 12u);
  EXPECT_EQ(options.steps % RoundsPerBlock(12), 0);
  EXPECT_EQ(options.variants[0].name(), "core:bucket_elements=3Mi,small_first=0,small_last=0@gloo");
  EXPECT_EQ(options.variants[1].name(), "bucketed_async:bucket_elements=3Mi@gloo");
  // The last size holds all 24.37 Mi elements of the model in one bucket, as in the original.
  EXPECT_EQ(options.variants[11].name(), "bucketed_sync:bucket_elements=27Mi@gloo");
}

TEST(CompareTest, ThePublishedPresetIsTheOriginal) {
  const TrainingPlan options = ParseCompare({"--preset=published", "--units=published"});
  EXPECT_EQ(options.variants.size(), 75u);
  EXPECT_EQ(options.variants.front().name(), "core:published_size=3Mi@gloo");
  EXPECT_EQ(options.variants.back().name(), "bucketed_sync:published_size=27Mi@gloo");
  EXPECT_EQ(options.variants.back().bucket_bytes, 108 * kMebi);
  EXPECT_THAT(options.batch_sizes, ElementsAre(32));
  EXPECT_EQ(options.image_size, 224);
  EXPECT_EQ(options.warmup_steps, 20);
  EXPECT_EQ(options.steps, 20);
}

TEST(CompareTest, FlagsOverrideThePreset) {
  const TrainingPlan options = ParseCompare({"--batch_size=2", "--preset=published", "--steps=100",
                                             "--buffer_elements=512Ki,3Mi", "--strategies=core,flat"});
  EXPECT_THAT(options.batch_sizes, ElementsAre(2));
  EXPECT_EQ(options.steps, 100);
  EXPECT_EQ(options.image_size, 224);
  // Without buckets there is one size.
  EXPECT_THAT(NamesOf(options),
              ElementsAre("core:bucket_elements=512Ki@gloo", "flat@gloo", "core:bucket_elements=3Mi@gloo"));
}

// Gradients are f32 under bf16, too.
TEST(CompareTest, ElementsAreThoseOfGradients) {
  const auto bytes = [](const char* dtype) { return ParseCompare({dtype}).variants.front().bucket_bytes; };
  EXPECT_EQ(bytes("--dtype=f32"), 12 * kMebi);
  EXPECT_EQ(bytes("--dtype=bf16"), 12 * kMebi);
  EXPECT_EQ(bytes("--dtype=f64"), 24 * kMebi);
}

// Before anything is started.
TEST(OptionsTest, MuonTakesWholeMatrices) {
  for (const std::string strategy : {"zero1", "zero2", "zero3"}) {
    const std::string variants = "--variants=core," + strategy;
    EXPECT_EQ(RefusalOf({"--optimizer=muon", variants.c_str()}),
              "--optimizer=muon: " + strategy +
                  "@gloo divides matrices among ranks, and Muon updates whole ones; expected owned, or a "
                  "strategy that shards nothing");
  }
  EXPECT_EQ(RefusalOf({"--optimizer=muon", "--model=resnet50"}),
            "--optimizer=muon: --model=resnet50 has no matrices, only convolutions");
  EXPECT_EQ(RefusalOf({"--optimizer=adamw,muon"}), "--optimizer: expected one");
  EXPECT_EQ(
      RefusalOf({"--variants=core:optimizer=muon"}),
      "--variants: core:optimizer=muon@gloo: only //bench:convergence takes optimizer, expected --optimizer");
  const TrainingPlan plan = Parse({"--optimizer=muon", "--variants=core,owned,owned:gather=forward,diloco"});
  EXPECT_EQ(plan.OptimizerOf(plan.variants.front()), OptimizerKind::kMuon);
  EXPECT_EQ(Parse({"--variants=zero1,owned"}).variants.size(), 2u);  // with AdamW
}

TEST(OptionsTest, BatchNormsNeedTwoPixels) {
  Parse({"--model=resnet50", "--batch_size=2", "--image_size=32"});
  Parse({"--model=resnet50", "--batch_size=1", "--image_size=33"});
  EXPECT_THAT(RefusalOf({"--model=resnet50", "--batch_size=4,1", "--image_size=32"}),
              StartsWith("--batch_size=1: the last layers see one pixel of images of 32 x 32"));
}

TEST(OptionsTest, PeersTrainInF32OrBF16) {
  EXPECT_THAT(
      NamesOf(ParseCompare({"--with_peers=pytorch", "--buffer_elements=3Mi", "--model=tiny"})),
      ElementsAre("core:bucket_elements=3Mi,small_first=0,small_last=0@gloo",
                  "bucketed_async:bucket_elements=3Mi@gloo", "bucketed_sync:bucket_elements=3Mi@gloo",
                  "pytorch_ddp_view:bucket_elements=3Mi@gloo", "pytorch_ddp:bucket_elements=3Mi@gloo"));
  EXPECT_EQ(RefusalOf({"--with_peers=pytorch", "--model=resnet50", "--strategies=core,zero3"}),
            "--with_peers: PyTorch's fully_shard takes no weights in the layout that is fastest for images, "
            "expected no zero3");
  Parse({"--with_peers=pytorch", "--model=resnet50", "--strategies=core,zero2", "--comm_threads=2"});
  EXPECT_EQ(RefusalOf({"--with_peers=pytorch", "--dtype=f64"}),
            "--dtype=f64: --with_peers takes f32 or bf16");
}

}  // namespace
}  // namespace gradsync::bench
