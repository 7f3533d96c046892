#include "bench/records/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

TEST(VariantTest, WhatIsReadIsPrinted) {
  for (const char* const text :
       {"none", "core@gloo", "core:bucket_bytes=1Mi@shm", "powersgd:clip_norm=0.5,rank=4@gloo",
        "core:a=1@hierarchical:inner=shm,outer=mpi", "pytorch_none",
        "pytorch_ddp_view_compiled:bucket_bytes=1Mi@gloo"}) {
    EXPECT_EQ(Variant::Parse(text).name(), text);
  }
}

TEST(VariantTest, PartsAreFoundInItsText) {
  const Variant own = Variant::Parse("core:a=1:b=x=y@hierarchical:inner=shm:outer=mpi");
  EXPECT_EQ(own, (Variant{.strategy = "core",
                          .options = {{"a", "1"}, {"b", "x=y"}},
                          .backend = "hierarchical",
                          .backend_options = {{"inner", "shm"}, {"outer", "mpi"}}}));
  EXPECT_EQ(own.label(), "core:a=1,b=x=y");
  const Variant peer = Variant::Parse("pytorch_ddp_compiled:a=1@gloo");
  EXPECT_EQ(peer, (Variant{.framework = "pytorch",
                           .strategy = "ddp",
                           .options = {{"a", "1"}},
                           .backend = "gloo",
                           .compiled = true}));
  EXPECT_EQ(peer.qualified_strategy(), "pytorch_ddp_compiled");
  EXPECT_EQ(Variant::Parse("none").backend, kNoBackend);
  EXPECT_FALSE(Variant::Parse("core_compiled").compiled) << "only other frameworks compile";
}

TEST(VariantTest, ACollectiveIsCalledAsItsBackend) {
  EXPECT_EQ((Variant{.backend = "gloo"}).name(), "gloo");
  EXPECT_EQ((Variant{.backend = "hierarchical", .backend_options = {{"outer", "mpi"}}}).name(),
            "hierarchical:outer=mpi");
}

TEST(VariantTest, OptionsAreTheSameInAnyOrder) {
  EXPECT_EQ(Variant::Parse("x:a=1,b=2"), Variant::Parse("x:b=2:a=1"));
  EXPECT_NE(Variant::Parse("x:a=1"), Variant::Parse("x:a=2"));
}

TEST(VariantTest, CommasAreBetweenVariantsAndBetweenOptions) {
  EXPECT_THAT(Variant::Split("diloco:period=1:outer_rate=1,naive"),
              ElementsAre("diloco:period=1:outer_rate=1", "naive"));
  EXPECT_THAT(Variant::Split("diloco:period=1,outer_rate=1:outer_momentum=0@shm,core:a=1,none"),
              ElementsAre("diloco:period=1,outer_rate=1:outer_momentum=0@shm", "core:a=1", "none"));
  EXPECT_THAT(Variant::Split("core@hierarchical:outer=mpi,core@gloo"),
              ElementsAre("core@hierarchical:outer=mpi", "core@gloo"));
  EXPECT_THAT(Variant::Split("a=1,b=2"), ElementsAre("a=1,b=2"));
}

TEST(VariantTest, NumbersMayBeCounts) {
  const Variant variant = Variant::Parse("x:a=0.5,b=3Mi,c=wait,d=1e3");
  EXPECT_EQ(variant.NumberOr("a", 0), 0.5);
  EXPECT_EQ(variant.NumberOr("b", 0), 3 << 20);
  EXPECT_EQ(variant.NumberOr("c", -1), -1);
  EXPECT_EQ(variant.NumberOr("d", 0), 1000);
  EXPECT_EQ(variant.NumberOr("e", -1), -1);
}

TEST(VariantTest, SaysWhatIsWrong) {
  const auto parse = [](const char* text) { return [text] { Variant::Parse(text); }; };
  EXPECT_THAT(parse("x:a"), ThrowsMessage<InvalidInput>("'a': expected option=value"));
  EXPECT_THAT(parse("x:"), ThrowsMessage<InvalidInput>("'': expected option=value"));
  EXPECT_THAT(parse("x:a=1:a=2"), ThrowsMessage<InvalidInput>("a is given twice"));
  EXPECT_THAT(parse("x@mpi:progress"), ThrowsMessage<InvalidInput>("'progress': expected option=value"));
}

}  // namespace
}  // namespace gradsync::bench
