#include "bench/presets/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/testing/run_program.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Touch(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "a line\n";
}

std::string FaultOf(const std::string& directory) {
  try {
    LoadState(directory);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(SuiteStateTest, IsReadAsItWasWritten) {
  const std::string out = FreshDirectory();
  SaveState({}, out);
  SaveState({{"a title", "ddp", {"--model=tiny", "--order=blocks"}, "traces", true, {"traces/a.jsonl"}},
             {"another", "compare", {}, ""}},
            out);
  const std::vector<Experiment> experiments = LoadState(out);
  ASSERT_EQ(experiments.size(), 2u);
  EXPECT_EQ(experiments[0].title, "a title");
  EXPECT_EQ(experiments[0].program, "ddp");
  EXPECT_THAT(experiments[0].arguments, ElementsAre("--model=tiny", "--order=blocks"));
  EXPECT_EQ(experiments[0].subdirectory, "traces");
  EXPECT_TRUE(experiments[0].done);
  EXPECT_THAT(experiments[0].files, ElementsAre("traces/a.jsonl"));
  EXPECT_FALSE(experiments[1].done);
  EXPECT_THAT(experiments[1].arguments, IsEmpty());
}

TEST(SuiteStateTest, WhatIsNoneIsRefused) {
  const std::string out = FreshDirectory(), path = out + "/suite.json";
  EXPECT_EQ(FaultOf(out), path + ": cannot be read, so there is no suite to go on with");
  std::ofstream(path) << R"({"schema":"gradsync.suite/9"})";
  EXPECT_EQ(FaultOf(out), path + ": schema \"gradsync.suite/9\", expected \"gradsync.suite/3\"");
  for (const char* const text : {"{", "[]", R"({"schema":"gradsync.suite/3"})",
                                 R"({"schema":"gradsync.suite/3","experiments":[{"title":3}]})"}) {
    std::ofstream(path) << text;
    EXPECT_THAT(FaultOf(out), HasSubstr(path + ": not the state of a suite: ")) << text;
  }
}

TEST(SuiteStateTest, WhatIsUnfinishedIsSetAside) {
  const std::string out = FreshDirectory();
  for (const char* const file :
       {"/done.jsonl", "/half.jsonl", "/tables.md", "/traces/half.trace.json", "/other/x.jsonl"}) {
    Touch(out + file);
  }
  const std::vector<Experiment> experiments = {{"a", "ddp", {}, "", true, {"done.jsonl"}},
                                               {"b", "ddp", {}, "", false, {"half.jsonl"}},
                                               {"c", "ddp", {}, "traces"},
                                               {"d", "ddp", {}, "nowhere"}};
  SetUnfinishedAside(experiments, out);
  EXPECT_THAT(FilesOf(experiments[0], out), ElementsAre("done.jsonl"));
  EXPECT_THAT(FilesOf(experiments[2], out), IsEmpty());
  for (const char* const file :
       {"/tables.md", "/other/x.jsonl", "/unfinished/half.jsonl", "/unfinished/traces/half.trace.json"}) {
    EXPECT_TRUE(std::filesystem::exists(out + file)) << file;
  }
}

}  // namespace
}  // namespace gradsync::bench
