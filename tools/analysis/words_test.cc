#include "tools/analysis/words.h"

#include <gtest/gtest.h>

namespace gradsync::tools {
namespace {

TEST(WordsTest, ShortensSettings) {
  EXPECT_EQ(Brief("tiny, batch 2, sequence 64, 1 rank"), "tiny b2 s64, 1 rank");
  EXPECT_EQ(Brief("batch 16"), "b16");
  EXPECT_EQ(Brief("tiny, batch 8, accumulation 2, sequence 64"), "tiny b8 a2 s64");
  EXPECT_EQ(Brief("accumulation 4, run published-cs336-2025"), "a4, cs336-2025");
}

}  // namespace
}  // namespace gradsync::tools
