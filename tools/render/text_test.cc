#include "tools/render/text.h"

#include <gtest/gtest.h>

#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

TEST(TextTest, WritesForPeople) {
  EXPECT_EQ(Listed({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(Shortened("αβγδ", 3), "αβ…");
  EXPECT_EQ(Brief("tiny, batch 2, sequence 64, 1 rank"), "tiny b2 s64, 1 rank");
  EXPECT_EQ(Brief("batch 16"), "b16");
  EXPECT_EQ(Brief("tiny, batch 8, accumulation 2, sequence 64"), "tiny b8 a2 s64");
  EXPECT_EQ(Brief("accumulation 4, run published-cs336-2025"), "a4, cs336-2025");
  EXPECT_EQ(TimeText(7.07e-7), "0.707 us");
  EXPECT_EQ(TimeText(0.00099), "990 us");
  EXPECT_EQ(TimeText(0.001), "1.00 ms");
  EXPECT_EQ(TimeText(-0.0123), "-12.3 ms");
  EXPECT_EQ(TimeText(1.04), "1.0 s");
}

}  // namespace
}  // namespace gradsync::tools
