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
  SaveState({{{.experiment = {"a title", "ddp", {"--model=tiny", "--order=blocks"}, "traces"},
               .done = true,
               .files = {"traces/a.jsonl"}},
              {.experiment = {"another", "compare", {}, ""}}}},
            out);
  const SuiteState state = LoadState(out);
  ASSERT_EQ(state.experiments.size(), 2u);
  EXPECT_EQ(state.experiments[0].experiment.title, "a title");
  EXPECT_EQ(state.experiments[0].experiment.program, "ddp");
  EXPECT_THAT(state.experiments[0].experiment.arguments, ElementsAre("--model=tiny", "--order=blocks"));
  EXPECT_EQ(state.experiments[0].experiment.subdirectory, "traces");
  EXPECT_TRUE(state.experiments[0].done);
  EXPECT_THAT(state.experiments[0].files, ElementsAre("traces/a.jsonl"));
  EXPECT_FALSE(state.experiments[1].done);
  EXPECT_THAT(state.experiments[1].experiment.arguments, IsEmpty());
}

TEST(SuiteStateTest, WhatIsNoneIsRefused) {
  const std::string out = FreshDirectory(), path = out + "/suite.json";
  EXPECT_EQ(FaultOf(out), path + ": cannot be read, so there is no suite to go on with");
  std::ofstream(path) << R"({"schema":"gradsync.suite/9"})";
  EXPECT_EQ(FaultOf(out), path + ": schema \"gradsync.suite/9\", expected \"gradsync.suite/2\"");
  for (const char* const text :
       {"{", "[]", R"({"schema":"gradsync.suite/2"})",
        R"({"schema":"gradsync.suite/2","experiments":[{"experiment":{"title":3}}]})"}) {
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
  const SuiteState state{{{.experiment = {"a", "ddp", {}, ""}, .done = true, .files = {"done.jsonl"}},
                          {.experiment = {"b", "ddp", {}, ""}, .files = {"half.jsonl"}},
                          {.experiment = {"c", "ddp", {}, "traces"}},
                          {.experiment = {"d", "ddp", {}, "nowhere"}}}};
  SetUnfinishedAside(state, out);
  EXPECT_THAT(FilesOf(state.experiments[0].experiment, out), ElementsAre("done.jsonl"));
  EXPECT_THAT(FilesOf(state.experiments[2].experiment, out), IsEmpty());
  for (const char* const file :
       {"/tables.md", "/other/x.jsonl", "/unfinished/half.jsonl", "/unfinished/traces/half.trace.json"}) {
    EXPECT_TRUE(std::filesystem::exists(out + file)) << file;
  }
}

}  // namespace
}  // namespace gradsync::bench
