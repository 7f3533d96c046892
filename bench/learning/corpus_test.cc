#include "bench/learning/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "comm/testing/errors.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMax = int64_t{1} << 20;

std::string FreshDirectory(const std::string& name) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  fs::remove_all(path);
  fs::create_directories(path / "b");
  return path.string();
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(CorpusTest, HoldsOutTheLastTenthOfAFile) {
  const std::string path = FreshDirectory("file") + "/text";
  Write(path, std::string(90, 'a') + std::string(10, 'b'));
  const Corpus text = ReadCorpus(path, kMax, 4);
  EXPECT_EQ(text.training, std::string(90, 'a'));
  EXPECT_EQ(text.held_out, std::string(10, 'b'));
  EXPECT_EQ(text.name, "text");
  // The hash is that of "90\n", 90 times a and 10 times b, by printf and sha256sum.
  EXPECT_EQ(text.sha256, "b6ad300a539a5e44c84c71df0b367e65824ff9f6cf9d2e6a693b84fe37337833");
  EXPECT_EQ(ReadCorpus(path, 50, 4).training.size(), 45);
}

TEST(CorpusTest, HoldsOutWholeFilesOfADirectory) {
  const std::string path = FreshDirectory("directory");
  for (char c = 'a'; c < 'a' + 22; ++c) Write(path + (c < 'l' ? "/a" : "/b/") + c, std::string(3, c));
  std::filesystem::create_symlink("nowhere", path + "/link");
  const Corpus text = ReadCorpus(path, kMax, 4);
  EXPECT_EQ(text.held_out, "jjjttt");
  EXPECT_EQ(text.training.substr(0, 9), "aaabbbccc");
  EXPECT_EQ(text.training.size(), 60);
  // Whole files, until there is enough.
  EXPECT_EQ(ReadCorpus(path, 31, 2).training.size(), 30);
  EXPECT_EQ(ReadCorpus(path, 31, 2).held_out, "jjj");
}

TEST(CorpusTest, OtherTextHasAnotherSha) {
  const std::string path = FreshDirectory("other");
  Write(path + "/1", std::string(100, 'a'));
  Write(path + "/2", Join(std::string(99, 'a'), "b"));
  // The same bytes, parted elsewhere.
  EXPECT_NE(ReadCorpus(path + "/1", kMax, 4).sha256, ReadCorpus(path + "/2", kMax, 4).sha256);
  EXPECT_NE(ReadCorpus(path + "/1", kMax, 4).sha256, ReadCorpus(path + "/1", 90, 4).sha256);
  EXPECT_EQ(ReadCorpus(path + "/1", kMax, 4).sha256, ReadCorpus(path + "/1", kMax, 4).sha256);
}

TEST(CorpusTest, RefusesInOneLine) {
  const std::string path = FreshDirectory("refused");
  Write(path + "/short", "0123456789");
  EXPECT_THAT(comm::ErrorOf<InvalidInput>([&] { ReadCorpus(path + "/missing", kMax, 4); }),
              AllOf(HasSubstr("--corpus"), HasSubstr("missing: cannot be read")));
  EXPECT_THAT(comm::ErrorOf<InvalidInput>([&] { ReadCorpus(std::string(300, 'x'), kMax, 4); }),
              HasSubstr("x: cannot be read"));  // too long a name
  EXPECT_THAT(
      comm::ErrorOf<InvalidInput>([&] { ReadCorpus(path + "/short", kMax, 4); }),
      HasSubstr("found 9 bytes to train on and 1 to hold out, expected more than the 4 of a sequence"));
  for (char c = 'a'; c < 'a' + 12; ++c) Write(path + "/b/" + c, std::string(20, c));
  EXPECT_THAT(comm::ErrorOf<InvalidInput>([&] { ReadCorpus(path + "/b", 70, 4); }),
              AllOf(HasSubstr("found 80 bytes to train on and 0 to hold out"),
                    HasSubstr("every tenth file is held out, of those that --text_bytes=70 reaches")));
}

TEST(CorpusTest, CompilersHeadersAreThere) {
  const Corpus text = ReadCorpus("", kMax, 64);
  EXPECT_GT(text.training.size(), kMax / 2);
  EXPECT_GT(text.held_out.size(), kMax / 100);
  EXPECT_THAT(text.name, HasSubstr("C++ headers"));
}

}  // namespace
}  // namespace gradsync::bench
