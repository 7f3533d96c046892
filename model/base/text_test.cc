#include "model/base/text.h"

#include <gtest/gtest.h>

namespace gradsync {
namespace {

TEST(TextTest, WritesForPeople) {
  EXPECT_EQ(Listed({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(Shortened("αβγδ", 3), "αβ…");
  EXPECT_EQ(TimeText(7.07e-7), "0.707 us");
  EXPECT_EQ(TimeText(0.00099), "990 us");
  EXPECT_EQ(TimeText(0.001), "1.00 ms");
  EXPECT_EQ(TimeText(-0.0123), "-12.3 ms");
  EXPECT_EQ(TimeText(1.04), "1.0 s");
}

}  // namespace
}  // namespace gradsync
