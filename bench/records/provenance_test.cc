#include "bench/records/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gradsync::bench {
namespace {

using ::testing::MatchesRegex;

TEST(ProvenanceTest, DescribesThisMachine) {
  const char* argv[] = {"bench/ddp", "--model=small", "--corpus=my text's.txt", ""};
  const Provenance provenance = CollectProvenance(4, argv);
  EXPECT_FALSE(provenance.host.empty());
  EXPECT_THAT(provenance.kernel, MatchesRegex("Linux [0-9].*"));
  EXPECT_GE(provenance.cpu_count, 1);
  EXPECT_GT(provenance.memory_bytes, int64_t{1} << 20);
  EXPECT_THAT(provenance.compiler, MatchesRegex("(gcc|clang) [0-9].*"));
  EXPECT_THAT(provenance.build, MatchesRegex("(opt|dbg).*"));
  EXPECT_THAT(provenance.libraries.StringOr("gloo", ""), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(provenance.libraries.StringOr("onednn", ""), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(provenance.command_line, R"(bench/ddp --model=small '--corpus=my text'\''s.txt' '')");
}

// Where Bazel builds, as it lays it out.
TEST(ProvenanceTest, AProgramKnowsItsSourcesByWhereItWasBuilt) {
  const std::string base = ::testing::TempDir() + "output_base";
  const std::string bin = base + "/execroot/gradsync/bazel-out/k8-opt/bin/bench";
  std::filesystem::create_directories(bin);
  std::ofstream(base + "/DO_NOT_BUILD_HERE") << "/home/a b/gradsync";
  EXPECT_EQ(SourcesOf(bin + "/ddp"), "/home/a b/gradsync");
  EXPECT_EQ(SourcesOf("/usr/local/bin/ddp"), "");
  EXPECT_EQ(SourcesOf(""), "");
}

TEST(ProvenanceTest, GatheredProgramsAreToldTheCommit) {
  setenv("GRADSYNC_COMMIT", "0123456789abcdef0123456789abcdef01234567", 1);
  EXPECT_EQ(CollectProvenance(0, nullptr).gradsync_commit, "0123456789abcdef0123456789abcdef01234567");
  EXPECT_FALSE(CollectProvenance(0, nullptr).dirty);
  setenv("GRADSYNC_COMMIT", "0123456789abcdef0123456789abcdef01234567-dirty", 1);
  EXPECT_EQ(CollectProvenance(0, nullptr).gradsync_commit, "0123456789abcdef0123456789abcdef01234567");
  EXPECT_TRUE(CollectProvenance(0, nullptr).dirty);
  unsetenv("GRADSYNC_COMMIT");
}

TEST(ProvenanceTest, AWorkspaceWithoutGitHasNoCommitAndMayHaveChanges) {
  setenv("BUILD_WORKSPACE_DIRECTORY", "/proc", 1);
  EXPECT_EQ(CollectProvenance(0, nullptr).gradsync_commit, "unknown");
  EXPECT_TRUE(CollectProvenance(0, nullptr).dirty);
  unsetenv("BUILD_WORKSPACE_DIRECTORY");
}

TEST(ProvenanceTest, ReadsTheCommitOfTheWorkspace) {
  const std::string dir = ::testing::TempDir() + "provenance $test";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const std::string git = "git -c user.name=a -c user.email=b -C '" + dir + "' ";
  if (std::system((git + "init -q && " + git + "commit -q --allow-empty -m first").c_str()) != 0) {
    GTEST_SKIP() << "no git";
  }
  setenv("BUILD_WORKSPACE_DIRECTORY", dir.c_str(), 1);
  const Provenance clean = CollectProvenance(0, nullptr);
  EXPECT_THAT(clean.gradsync_commit, MatchesRegex("[0-9a-f]{40}"));
  EXPECT_FALSE(clean.dirty);
  ASSERT_EQ(std::system(("touch '" + dir + "/new'").c_str()), 0);
  EXPECT_TRUE(CollectProvenance(0, nullptr).dirty);
  unsetenv("BUILD_WORKSPACE_DIRECTORY");
}

}  // namespace
}  // namespace gradsync::bench
