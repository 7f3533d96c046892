#include "model/base/units.h"

#include <gtest/gtest.h>

namespace gradsync {
namespace {

TEST(ByteCountTest, ReadsBinaryUnits) {
  EXPECT_EQ(ParseByteCount("0"), 0);
  EXPECT_EQ(ParseByteCount("4096"), 4096);
  EXPECT_EQ(ParseByteCount("8B"), 8);
  EXPECT_EQ(ParseByteCount("64KiB"), 65536);
  EXPECT_EQ(ParseByteCount("64Ki"), 65536);
  EXPECT_EQ(ParseByteCount("1MiB"), 1048576);
  EXPECT_EQ(ParseByteCount("25MiB"), 26214400);
  EXPECT_EQ(ParseByteCount("1GiB"), 1073741824);
  EXPECT_EQ(ParseByteCount("2TiB"), int64_t{1} << 41);
}

TEST(ByteCountTest, RefusesEverythingElse) {
  for (const char* text : {"", "B", "MiB", "10XB", "8BB", "1MB", "1M", "1MiBi", "-1", "-1KiB", "1.5MiB",
                           "0x10", "1KiBMiB", "9223372036854775808", "8388608TiB", "99999999999999999999"}) {
    EXPECT_EQ(ParseByteCount(text), std::nullopt) << text;
  }
}

TEST(ByteCountTest, FormatIsExactAndReadBack) {
  EXPECT_EQ(FormatByteCount(0), "0");
  EXPECT_EQ(FormatByteCount(1000), "1000");
  EXPECT_EQ(FormatByteCount(1536 * 1024), "1536KiB");
  EXPECT_EQ(FormatByteCount(1 << 20), "1MiB");
  for (const int64_t bytes : {1LL, 1023LL, 1024LL, 1025LL, 26214400LL, 1LL << 30, 3LL << 40}) {
    EXPECT_EQ(ParseByteCount(FormatByteCount(bytes)), bytes);
  }
}

TEST(ElementCountTest, ReadsBinaryPrefixesAndWritesThem) {
  EXPECT_EQ(ParseCount("4096"), 4096);
  EXPECT_EQ(ParseCount("512Ki"), 524288);
  EXPECT_EQ(ParseCount("3Mi"), 3145728);
  EXPECT_EQ(ParseCount("1Gi"), 1073741824);
  for (const char* text : {"", "Mi", "3M", "3MiB", "-3Mi", "2.25Mi", "8388608Ti"}) {
    EXPECT_EQ(ParseCount(text), std::nullopt) << text;
  }
  EXPECT_EQ(FormatCount(3 << 20), "3Mi");
  EXPECT_EQ(FormatCount(1000), "1000");
}

TEST(ApproximateTest, KeepsThreeDigits) {
  EXPECT_EQ(ApproximateBytes(512), "512 bytes");
  EXPECT_EQ(ApproximateBytes(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(ApproximateBytes(7.44 * 1024 * 1024 * 1024), "7.44 GiB");
  EXPECT_EQ(ApproximateBytes(12.5 * 1024), "12.5 KiB");
  EXPECT_EQ(ApproximateBytes(371 * 1024), "371 KiB");
}

}  // namespace
}  // namespace gradsync
