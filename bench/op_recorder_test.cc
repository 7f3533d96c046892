#include "bench/op_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;

TEST(OpRecorderTest, KeepsNesting) {
  OpRecorder recorder;
  recorder.Begin("outer");
  recorder.Begin("inner");
  recorder.End();
  recorder.End();
  recorder.Begin("next");
  recorder.End();
  const std::vector<TracedOp>& ops = recorder.ops();
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].name, "outer");
  EXPECT_EQ(ops[0].parent, -1);
  EXPECT_EQ(ops[1].name, "inner");
  EXPECT_EQ(ops[1].parent, 0);
  EXPECT_EQ(ops[2].parent, -1);
  EXPECT_LE(ops[0].begin_ns, ops[1].begin_ns);
  EXPECT_LE(ops[1].end_ns, ops[0].end_ns);
  EXPECT_LE(ops[0].end_ns, ops[2].begin_ns);
  recorder.Clear();
  EXPECT_TRUE(recorder.ops().empty());
}

TEST(OpProfileTest, CountsOwnTimeOnce) {
  OpProfile profile;
  for (int step = 0; step < 2; ++step) {
    profile.Add({{"layer", 0, 10'000'000, -1},
                 {"matmul", 1'000'000, 7'000'000, 0},
                 {"matmul", 20'000'000, 22'000'000, -1}});
  }
  const std::string table = profile.ToString();
  EXPECT_THAT(table, HasSubstr("matmul                              2.0        8.000    66.7%"));
  EXPECT_THAT(table, HasSubstr("layer                               1.0        4.000    33.3%"));
  EXPECT_LT(table.find("matmul"), table.find("layer"));
}

}  // namespace
}  // namespace gradsync::bench
