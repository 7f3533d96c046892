#include "bench/training/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "comm/testing/errors.h"
#include "ddp/factory.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

std::vector<TrainingVariant> Make(const std::string& text, const VariantDefaults& defaults) {
  return MakeVariants("variants", Variant::Split(text), defaults);
}

std::vector<std::string> NamesOf(const std::vector<TrainingVariant>& variants) {
  std::vector<std::string> names;
  for (const TrainingVariant& variant : variants) names.push_back(variant.name());
  return names;
}

std::vector<std::string> NamesOf(const std::string& text,
                                 const VariantDefaults& defaults = {{"gloo"}, {kDefaultBucketBytes}}) {
  return NamesOf(Make(text, defaults));
}

TEST(VariantTest, IsNamedByWhatDiffersFromTheDefaults) {
  EXPECT_THAT(NamesOf("none,core@gloo,core@shm,bucketed_async:bucket_bytes=12Mi@shm"),
              ElementsAre("none", "core@gloo", "core@shm", "bucketed_async:bucket_bytes=12Mi@shm"));
  EXPECT_THAT(NamesOf("core:bucket_bytes=25MiB,core:bucket_bytes=12582912,core:bucket_bytes=4KiB@shm"),
              ElementsAre("core@gloo", "core:bucket_bytes=12Mi@gloo", "core:bucket_bytes=4Ki@shm"));
  EXPECT_THAT(NamesOf("core:bucket_elements=3Mi,bucketed_sync:published_size=3145728"),
              ElementsAre("core:bucket_elements=3Mi@gloo", "bucketed_sync:published_size=3Mi@gloo"));
}

// As --help does.
TEST(VariantTest, OptionsArePrintedAsTheyAreGiven) {
  for (const std::string& name : ddp::StrategyNames()) {
    for (const ddp::Option& option : ddp::TraitsOf(name).options) {
      const std::string by_default = PrintValue(option, option.default_value);
      EXPECT_EQ(NamesOf(Join(name, ":", option.name, "=", by_default)), NamesOf(name));
      EXPECT_EQ(option.words.empty(), by_default.find_first_not_of("0123456789.") == std::string::npos);
    }
  }
}

// What is not said is multiplied by the lists, as far as the strategy takes it.
TEST(VariantTest, TakesWhatItLeavesOutFromTheLists) {
  const VariantDefaults lists = {{"gloo", "shm"}, {kDefaultBucketBytes, 1 << 20}};
  EXPECT_THAT(NamesOf("none,naive,core", lists),
              ElementsAre("none", "naive@gloo", "naive@shm", "core@gloo", "core:bucket_bytes=1Mi@gloo",
                          "core@shm", "core:bucket_bytes=1Mi@shm"));
  EXPECT_THAT(NamesOf("core:bucket_bytes=2Mi,flat@shm,bucketed_sync@gloo", lists),
              ElementsAre("core:bucket_bytes=2Mi@gloo", "core:bucket_bytes=2Mi@shm", "flat@shm",
                          "bucketed_sync@gloo", "bucketed_sync:bucket_bytes=1Mi@gloo"));
}

TEST(VariantTest, OptionsSayHowLargeBucketsAre) {
  const auto bytes = [](const std::string& text, size_t element_bytes) {
    return Make(text, {{"gloo"}, {kDefaultBucketBytes}, element_bytes}).front().bucket_bytes;
  };
  for (const std::string strategy : {"core", "bucketed_async", "bucketed_sync"}) {
    EXPECT_EQ(bytes(strategy, 4), 25 << 20);
    EXPECT_EQ(bytes(strategy + ":bucket_bytes=3Mi", 8), 3 << 20);
    EXPECT_EQ(bytes(strategy + ":bucket_elements=3Mi", 4), 12 << 20);
    EXPECT_EQ(bytes(strategy + ":bucket_elements=3Mi", 8), 24 << 20);
    // As in the original: core gets as many MiB as the others get Mi elements.
    EXPECT_EQ(bytes(strategy + ":published_size=3Mi", 4), strategy == "core" ? 3 << 20 : 12 << 20);
  }
  EXPECT_EQ(bytes("naive", 4), 0);
}

TEST(VariantTest, RecordsSayWhatItIs) {
  Record record;
  Make("bucketed_async:bucket_elements=3Mi@shm", {{"gloo"}, {}}).front().Describe(record);
  EXPECT_EQ(record.variant.name(), "bucketed_async:bucket_elements=3Mi@shm");
  EXPECT_EQ(record.variant.qualified_strategy(), "bucketed_async");
  EXPECT_EQ(record.variant.backend, "shm");
  EXPECT_EQ(record.facts.IntOr("bucket_bytes", 0), 12 << 20);
  EXPECT_EQ(record.facts.StringOr("floor", ""), "none");
  EXPECT_EQ(record.facts.StringOr("agreement", ""), "exact");
  EXPECT_TRUE(record.facts.BoolOr("overlaps", false));
  EXPECT_EQ(record.facts.Find("peer"), nullptr);
  Record floor;
  Make("none", {{"gloo"}, {}}).front().Describe(floor);
  EXPECT_EQ(floor.variant.backend, "none");
  EXPECT_EQ(floor.facts.Find("bucket_bytes"), nullptr);
  EXPECT_EQ(floor.facts.StringOr("floor", ""), "none");
  EXPECT_EQ(floor.facts.StringOr("agreement", ""), "drifts");
}

TEST(VariantTest, PeersAreTheTwinsOfEach) {
  const std::vector<TrainingVariant> own =
      Make("none,naive@shm,core:bucket_bytes=1Mi@shm,bucketed_sync@gloo,bucketed_async@shm",
           {{"gloo"}, {kDefaultBucketBytes}});
  const std::vector<TrainingVariant> peers =
      MakePeers(own, std::vector<PeerMode>{PeerMode::kEager, PeerMode::kCompiled});
  EXPECT_THAT(NamesOf(peers),
              ElementsAre("pytorch_none", "pytorch_none_compiled", "pytorch_naive@gloo",
                          "pytorch_naive_compiled@gloo", "pytorch_ddp_view:bucket_bytes=1Mi@gloo",
                          "pytorch_ddp_view_compiled:bucket_bytes=1Mi@gloo", "pytorch_ddp@gloo",
                          "pytorch_ddp_compiled@gloo"));
  EXPECT_EQ(peers[5].peer(), "ddp_view:1048576_compiled");
  Record record;
  peers[5].Describe(record);
  EXPECT_EQ(record.facts.StringOr("peer", ""), "pytorch");
  EXPECT_EQ(record.facts.StringOr("twin", ""), "core");
  EXPECT_EQ(record.facts.StringOr("floor", ""), "pytorch_none_compiled");
  // DistributedDataParallel overlaps, as bucketed_sync does not.
  EXPECT_EQ(peers[6].traits->name, "bucketed_async");
  // The first of those that have the same.
  EXPECT_THAT(NamesOf(MakePeers(Make("core:bucket_elements=1Mi,naive,core:bucket_bytes=4Mi", {{"gloo"}, {}}),
                                std::vector<PeerMode>{PeerMode::kEager})),
              ElementsAre("pytorch_ddp_view:bucket_elements=1Mi@gloo", "pytorch_naive@gloo"));
  // On GPUs over what PyTorch has there, also of what goes over gloo.
  EXPECT_THAT(NamesOf(MakePeers(Make("none,naive@gloo,core@nccl", {{"gloo"}, {kDefaultBucketBytes}}),
                                std::vector<PeerMode>{PeerMode::kEager})),
              ElementsAre("pytorch_none", "pytorch_naive@nccl", "pytorch_ddp_view@nccl"));
}

// PyTorch's options are those by default; the edges of buckets are nothing that it is asked for.
TEST(VariantTest, OtherOptionsHaveNoTwin) {
  EXPECT_THAT(NamesOf(MakePeers(Make("core:small_first=0,small_last=0,core:views=0,core:rows=1",
                                     {{"gloo"}, {kDefaultBucketBytes}}),
                                std::vector<PeerMode>{PeerMode::kEager})),
              ElementsAre("pytorch_ddp_view@gloo"));
  const std::vector<TrainingVariant> peers = MakePeers(
      Make("bf16_wire,powersgd,local_sgd:period=3,local_sgd,zero1", {{"gloo"}, {kDefaultBucketBytes}}),
      std::vector<PeerMode>{PeerMode::kEager});
  EXPECT_THAT(NamesOf(peers),
              ElementsAre("pytorch_bf16_hook@gloo", "pytorch_post_local_sgd@gloo", "pytorch_zero1@gloo"));
  EXPECT_EQ(peers[1].period(), 8);
  EXPECT_THAT(MakePeers(Make("core:rows=1,local_sgd:period=3", {{"gloo"}, {kDefaultBucketBytes}}),
                        std::vector<PeerMode>{PeerMode::kEager}),
              ::testing::IsEmpty());
}

// A turn of one that leaves weights to the next forward has several steps behind an untimed one.
TEST(VariantTest, TurnsHaveSeveralSteps) {
  const std::vector<TrainingVariant> variants =
      Make("zero1,zero1:gather=forward,local_sgd:period=3", {{"gloo"}, {kDefaultBucketBytes}});
  std::vector<int64_t> periods, turns, recorded;
  for (const TrainingVariant& variant : variants) {
    periods.push_back(variant.period());
    turns.push_back(variant.turn_steps());
    Record record;
    variant.Describe(record);
    recorded.push_back(record.facts.IntOr("turn_steps", 0));
  }
  EXPECT_THAT(recorded, ElementsAre(0, 4, 3));
  EXPECT_THAT(periods, ElementsAre(1, 1, 3));
  EXPECT_EQ(variants[1].lead_in_steps(), 1);
  EXPECT_EQ(variants[2].lead_in_steps(), 0);
  EXPECT_THAT(turns, ElementsAre(1, 3, 3));
  EXPECT_EQ(variants[1].name(), "zero1:gather=forward@gloo");
}

// They would train unclipped beside it.
TEST(VariantTest, PeersDoNotClip) {
  const std::vector<PeerMode> modes = {PeerMode::kEager};
  const auto refusal_of = [&](const char* text) {
    return comm::ErrorOf<InvalidInput>([&] {
      MakePeers(Make(text, {{"gloo"}, {kDefaultBucketBytes}}), modes);
    });
  };
  EXPECT_EQ(refusal_of("naive,core:clip_norm=1"),
            "--with_peers: PyTorch's twin of core:clip_norm=1@gloo does not clip gradients, expected no "
            "clip_norm");
  EXPECT_THAT(refusal_of("core:learning_rate=1"), ::testing::HasSubstr("expected no learning_rate"));
  EXPECT_THAT(NamesOf(MakePeers(Make("naive,topk:clip_norm=1", {{"gloo"}, {kDefaultBucketBytes}}), modes)),
              ElementsAre("pytorch_naive@gloo"));
}

TEST(VariantTest, TheLargestNormIsAnOptionOfEveryVariant) {
  const std::vector<TrainingVariant> variants =
      Make("naive,zero1:clip_norm=0.5", {{"gloo"}, {kDefaultBucketBytes}});
  EXPECT_TRUE(std::isinf(variants[0].clip_norm()));
  EXPECT_EQ(variants[1].name(), "zero1:clip_norm=0.5@gloo");
  EXPECT_EQ(variants[1].clip_norm(), 0.5);
  EXPECT_TRUE(variants[1].strategy_options().values.empty());
}

class BadVariantTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST(VariantTest, WhatWasPerhapsMeantIsSuggested) {
  for (const auto& [text, meant] : {std::pair{"cor", "core"},
                                    {"core@glo", "gloo"},
                                    {"bucketed_async:bucket_byte=1Mi", "bucket_bytes"},
                                    {"buckted_sync", "bucketed_sync"}}) {
    EXPECT_THAT(comm::ErrorOf<InvalidInput>([&] { NamesOf(text); }),
                ::testing::EndsWith(Join("; did you mean ", meant, "?")))
        << text;
  }
}

TEST_P(BadVariantTest, IsOneLineThatNamesTheFlag) {
  const std::string line = comm::ErrorOf<InvalidInput>([] { NamesOf(GetParam().first); });
  EXPECT_THAT(line, ::testing::StartsWith(GetParam().second));
  EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadVariantTest,
    ::testing::Values(
        std::pair{"magic", "--variants=magic: unknown strategy 'magic', expected none, naive, "},
        std::pair{"core,", "--variants=: unknown strategy '', expected none, naive, "},
        std::pair{
            "cor",
            "--variants=cor: unknown strategy 'cor', expected none, naive, flat, overlap, bucketed_sync, "
            "bucketed_async, core, core_update, zero1, "},
        std::pair{"core@smoke", "--variants=core@smoke: unknown backend 'smoke', expected "},
        std::pair{"core@", "--variants=core@: unknown backend '', expected "},
        std::pair{"core@gloo:inner=shm",
                  "--variants=core@gloo:inner=shm: backend gloo has no option 'inner'"},
        std::pair{"core@gloo:rows=1",
                  "--variants=core@gloo:rows=1: options of core stand before the @: core:rows=1@gloo"},
        std::pair{"pytorch_naive", "--variants=pytorch_naive: unknown strategy 'pytorch_naive', expected "},
        std::pair{"none@gloo", "--variants=none@gloo: none sends nothing, and takes no backend"},
        std::pair{"naive:bucket_bytes=1Mi",
                  "--variants=naive:bucket_bytes=1Mi: naive has no option 'bucket_bytes', expected "
                  "optimizer, clip_norm or learning_rate"},
        std::pair{"bucketed_async:size=3",
                  "--variants=bucketed_async:size=3: bucketed_async has no option 'size', expected "
                  "optimizer, clip_norm, learning_rate, bucket_bytes, bucket_elements "},
        std::pair{"core_update:clip_norm=1",
                  "--variants=core_update:clip_norm=1: core_update updates weights before it knows all "
                  "gradients, and cannot clip them"},
        std::pair{"core:clip_norm=-1",
                  "--variants=core:clip_norm=-1: clip_norm: found -1, expected a number from 0 "},
        std::pair{"powersgd:rank=0",
                  "--variants=powersgd:rank=0: rank: found 0, expected a whole number from 1 to 1048576"},
        std::pair{"core:bucket_bytes", "--variants=core:bucket_bytes: 'bucket_bytes': expected option=value"},
        std::pair{"core:bucket_bytes=0", "--variants=core:bucket_bytes=0: bucket_bytes: expected "},
        std::pair{"core:bucket_bytes=1,bucket_elements=1",
                  "--variants=core:bucket_bytes=1,bucket_elements=1: expected one of bucket_bytes and "},
        std::pair{"core,core@gloo", "--variants=core@gloo: core@gloo is given twice"}));

}  // namespace
}  // namespace gradsync::bench
