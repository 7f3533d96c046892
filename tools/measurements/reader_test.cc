#include "tools/measurements/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "model/base/error.h"
#include "tools/measurements/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProblemsTest, NeighboursWithOneReasonAreOneLine) {
  Problems problems;
  problems.AddLine("b", 1, "bad");
  for (int line = 3; line <= 6; ++line) problems.AddLine("a", line, "bad");
  problems.AddLine("a", 7, "worse");
  problems.AddLine("a", 9, "worse");
  problems.AddFile("a", "cannot read");
  EXPECT_EQ(problems.count(), 8);
  std::ostringstream out;
  problems.Print(out);
  EXPECT_EQ(out.str(),
            "a: cannot read\n"
            "a:3-6: bad (4 lines)\n"
            "a:7: worse\n"
            "a:9: worse\n"
            "b:1: bad\n");
}

class ReaderTest : public ::testing::Test {
 protected:
  void Read(const std::vector<std::string>& inputs) {
    const auto why_unusable = [](const Record& record) { return record.samples.empty() ? "no samples" : ""; };
    records_ = ReadRecords(inputs, why_unusable, &problems_);
  }

  std::string ProblemText() {
    std::ostringstream out;
    problems_.Print(out);
    return out.str();
  }

  // "strategy:ranks" of every measurement, a "|" where a group ends.
  std::string Order() {
    std::string text;
    for (const Group& group : records_.groups) {
      if (!text.empty()) text += "|";
      for (const Measurement& measurement : group) {
        text += (&measurement == &group.front() ? "" : ",") + measurement.strategy() + ":" +
                std::to_string(measurement.num_ranks);
      }
    }
    return text;
  }

  Problems problems_;
  RecordSet records_;
};

Record WithBatch(std::string_view strategy, int64_t rank, int64_t batch_size) {
  Record record = DdpRecord(strategy, rank, {1000});
  record.config.Set("batch_size", batch_size);
  return record;
}

// The line of a record that is spoilt behind its configuration.
std::string SpoiltLine(const Record& record) {
  std::string line = ToJsonLine(record);
  return line.replace(line.find("\"samples\":{"), 11, "\"samples\":[{");
}

TEST_F(ReaderTest, PutsRanksAndStrategiesTogether) {
  const std::string dir = FreshTestDir("reader");
  std::filesystem::create_directories(dir + "/below");
  WriteLines(dir + "/a.jsonl", {WithBatch("none", 0, 2), WithBatch("naive", 0, 2), WithBatch("none", 0, 4)});
  Record slow = WithBatch("naive", 1, 2);
  SetStep(slow, 0, 3000);
  WriteLines(dir + "/b.jsonl", {slow, WithBatch("none", 1, 4), WithBatch("none", 1, 2)});
  WriteLines(dir + "/ignored.json", {WithBatch("flat", 1, 2)});
  WriteLines(dir + "/below/ignored.jsonl", {WithBatch("flat", 1, 2)});
  Read({dir, dir + "/a.jsonl"});
  EXPECT_EQ(Order(), "none:2,naive:2|none:2");
  EXPECT_EQ(problems_.count(), 0);
  EXPECT_EQ(records_.num_records, 6);
  const Measurement& naive = records_.groups[0][1];
  EXPECT_EQ(naive.record.rank, 0);
  EXPECT_THAT(naive.Find("step_ns")->rank_means, ElementsAre(DoubleEq(1e-6), DoubleEq(3e-6)));
}

TEST_F(ReaderTest, RanksComeInTheirOrder) {
  const std::string path = FreshTestDir("order") + "/a.jsonl";
  Record first = WithBatch("none", 0, 2);
  SetStep(first, 0, 2000);
  WriteLines(path, {WithBatch("none", 1, 2), first});
  Read({path});
  EXPECT_EQ(Order(), "none:2");
  EXPECT_EQ(records_.groups[0][0].record.rank, 0);
  EXPECT_THAT(records_.groups[0][0].Find("step_ns")->rank_means, ElementsAre(DoubleEq(2e-6), DoubleEq(1e-6)));
}

TEST_F(ReaderTest, WhatDiffersIsApart) {
  const std::string path = FreshTestDir("apart") + "/a.jsonl";
  Record other_run = WithBatch("none", 0, 2);
  other_run.run_id = "another";
  Record other_buckets = WithBatch("none", 0, 2);
  other_buckets.variant.options["bucket_bytes"] = "5";
  Record other_seed = WithBatch("none", 1, 2);
  other_seed.config.Set("seed", 9);
  WriteLines(path, {WithBatch("none", 0, 2), other_run, other_buckets, other_seed});
  Read({path});
  EXPECT_EQ(Order(), "none:2,none:1|none:1");
}

TEST_F(ReaderTest, TheOrderOfFieldsDoesNotMatter) {
  const std::string path = FreshTestDir("types") + "/a.jsonl";
  Record turned = WithBatch("none", 1, 2);
  turned.config = {};
  const Record plain = WithBatch("none", 0, 2);
  for (auto field = plain.config.end(); field != plain.config.begin();) {
    --field;
    turned.config.Set(bench::ConfigName::Of(field->first), field->second);
  }
  WriteLines(path, {plain, turned});
  Read({path});
  EXPECT_EQ(Order(), "none:2");
}

TEST_F(ReaderTest, LaunchesOfASetAreOneMeasurement) {
  const std::string path = FreshTestDir("launches") + "/a.jsonl";
  const auto launch = [](const char* strategy, const char* run, const char* set, int64_t step_ns) {
    Record record = DdpRecord(strategy, 0, {step_ns});
    record.run_id = run;
    record.facts.Set("launch_set", set);
    return record;
  };
  // The second launch has one variant more, and another set none of these.
  WriteLines(path, {launch("core", "first", "set", 1000), launch("core", "other", "others", 5000),
                    launch("flat", "second", "set", 3000), launch("core", "second", "set", 2000)});
  Read({path});
  ASSERT_EQ(Order(), "core:1,flat:1|core:1");
  const Measurement& core = records_.groups[0][0];
  EXPECT_EQ(core.record.run_id, "first");
  EXPECT_EQ(core.launches, (std::vector<Launch>{{"first", 1}, {"second", 1}}));
  EXPECT_THAT(core.Find("step_ns")->max, ElementsAre(DoubleEq(1e-6), DoubleEq(2e-6)));
  EXPECT_EQ(records_.num_records, 4);
}

// What only chose the rows of the others is a group of its own.
TEST_F(ReaderTest, AChoosingLaunchIsNotPutTogetherWithThoseThatDecide) {
  const std::string path = FreshTestDir("stages") + "/a.jsonl";
  const auto launch = [](const char* strategy, const char* run, const char* stage) {
    Record record = DdpRecord(strategy, 0, {1000});
    record.run_id = run;
    record.facts.Set("launch_set", "first");
    record.facts.Set("stage", stage);
    return record;
  };
  WriteLines(path, {launch("core", "first", "choosing"), launch("flat", "first", "choosing"),
                    launch("core", "second", "deciding"), launch("core", "third", "deciding")});
  Read({path});
  ASSERT_EQ(Order(), "core:1,flat:1|core:1");
  EXPECT_EQ(records_.groups[1][0].launches, (std::vector<Launch>{{"second", 1}, {"third", 1}}));
}

TEST_F(ReaderTest, WithoutStrategiesNothingIsCompared) {
  const std::string path = FreshTestDir("alone") + "/a.jsonl";
  WriteLines(path, {AllReduceRecord(1, 0, {1}), AllReduceRecord(2, 0, {1}), AllReduceRecord(1, 1, {1})});
  Read({path});
  EXPECT_EQ(Order(), ":2|:1");
}

// Backends, sizes and how long a launch measured do not tell settings apart.
TEST_F(ReaderTest, VariantsOfASettingAreOneGroup) {
  const std::string path = FreshTestDir("find") + "/a.jsonl";
  Record later = WithBatch("naive", 0, 2);
  later.variant.options["bucket_bytes"] = "5";
  later.variant.backend = "shm";
  later.config.Set("steps", 5);
  WriteLines(path, {WithBatch("core", 0, 2), WithBatch("naive", 0, 2), later, WithBatch("core", 0, 4)});
  Read({path});
  ASSERT_EQ(Order(), "core:1,naive:1,naive:1|core:1");
}

TEST_F(ReaderTest, NamesSamplesThatARecordShouldHave) {
  const std::string path = FreshTestDir("missing") + "/a.jsonl";
  Record own = WithBatch("core", 0, 2), peer = WithBatch("pytorch_naive", 0, 2);
  own.samples.erase("comm_busy_ns");
  peer.samples.erase("comm_busy_ns");
  WriteLines(path, {WithBatch("naive", 0, 2), own, peer});
  Read({path});
  EXPECT_EQ(ProblemText(), path + ":2: no samples \"comm_busy_ns\"\n");
  EXPECT_EQ(Order(), "naive:1,pytorch_naive:1");
}

TEST_F(ReaderTest, ReadsLinesOfEveryLength) {
  const std::string path = FreshTestDir("lengths") + "/a.jsonl";
  const std::vector<size_t> all_steps = {1, 50000, 2, 5000, 3};
  std::vector<Record> records;
  for (const size_t steps : all_steps) {
    records.push_back(DdpRecord("core", 0, Repeat(1000, steps)));
    records.back().config.Set("batch_size", steps);
  }
  WriteLines(path, records);
  EXPECT_GT(std::filesystem::file_size(path), uintmax_t{1} << 20);
  Read({path});
  ASSERT_EQ(records_.groups.size(), all_steps.size());
  for (size_t i = 0; i < all_steps.size(); ++i) {
    EXPECT_EQ(records_.groups[i].front().num_steps, all_steps[i]);
  }
}

// Whatever a file holds, what is a record in it is used, and everything else has a line of its own.
TEST_F(ReaderTest, NamesEveryKindOfLineThatIsNoRecord) {
  const std::string dir = FreshTestDir("hostile");
  const std::string path = dir + "/a.jsonl";
  const std::string good = ToJsonLine(WithBatch("none", 0, 2));
  std::string with_nul = good;
  with_nul[with_nul.find("\"run_id\"") + 11] = '\0';
  std::string bad_utf8_in_head = good;
  bad_utf8_in_head[bad_utf8_in_head.find("\"run_id\"") + 11] = '\xff';
  std::string bad_utf8_in_body = ToJsonLine(WithBatch("none", 0, 4));
  bad_utf8_in_body[bad_utf8_in_body.find("\"host\"") + 9] = '\xff';
  std::string deep(5000, '[');
  {
    std::ofstream file(path);
    file << with_nul << "\n"
         << std::string(3, '\0') << "\n"
         << bad_utf8_in_head << "\n"
         << bad_utf8_in_body << "\n"
         << std::string(kMaxLineBytes + 1, '{') << "\n"
         << deep << "\n"
         << good.substr(0, good.size() / 2) << "\n\r\n{\"level\":\"info\"}\n"
         << good;  // no newline
  }
  std::ofstream(dir + "/empty.jsonl") << "";
  std::filesystem::create_directories(dir + "/folder.jsonl");
  Read({dir});
  EXPECT_EQ(Order(), "none:1");
  const std::string problems = ProblemText();
  for (const char* line : {":1: ", ":2: ", ":3: ", ":4: ", ":5: longer than 16 MiB",
                           ":6: ", ":7: cut off after ", ":9: no \"schema\""}) {
    EXPECT_THAT(problems, HasSubstr(path + line)) << line;
  }
  EXPECT_THAT(problems, HasSubstr(dir + "/empty.jsonl: empty\n"));
  EXPECT_THAT(problems, HasSubstr(dir + "/folder.jsonl: cannot read: not a regular file\n"));
  EXPECT_EQ(problems_.count(), 10);
}

TEST_F(ReaderTest, DoesNotFillTheMemoryWithOneLine) {
  const std::string path = FreshTestDir("long_line") + "/a.jsonl";
  // A record of the greatest length: spaces are allowed behind it.
  std::string longest = ToJsonLine(WithBatch("none", 0, 2));
  longest.resize(kMaxLineBytes, ' ');
  {
    std::ofstream file(path);
    file << ToJsonLine(WithBatch("none", 1, 2)) << "\n" << longest << "\n";
    for (int i = 0; i < 40; ++i) file << std::string(1 << 20, 'y');
    file << "\n" << ToJsonLine(WithBatch("naive", 0, 2)) << "\n" << longest << " ";
  }
  Read({path});
  EXPECT_EQ(Order(), "none:2,naive:1");
  EXPECT_EQ(ProblemText(), path + ":3: longer than 16 MiB: not a gradsync record\n" + path +
                               ":5: longer than 16 MiB: not a gradsync record\n");
}

// As a run leaves it that was stopped in the midst of a line.
TEST_F(ReaderTest, PutsTogetherWhatSeveralLinesSayOfARecord) {
  const std::string path = FreshTestDir("continued") + "/a.jsonl";
  Record none = WithBatch("none", 0, 2), core = WithBatch("core", 0, 2);
  none.number = 0;
  core.number = 1;
  Record more;
  more.samples = none.samples;
  Record checks;
  checks.checks.Set("grads_equal", false);
  Record odd;
  odd.samples["forward_ns"] = {5};
  const std::string last = ToContinuationLine(1, more);
  std::ofstream(path) << ToJsonLine(none) << "\n"
                      << ToJsonLine(core) << "\n"
                      << ToContinuationLine(1, more) << "\n"
                      << ToContinuationLine(1, checks) << "\n"
                      << ToContinuationLine(0, odd) << "\n"
                      << ToContinuationLine(2, more) << "\n"
                      << last.substr(0, 70);
  Read({path});
  EXPECT_EQ(Order(), "none:1,core:1");
  EXPECT_EQ(records_.groups[0][0].num_steps, 1u);
  EXPECT_EQ(records_.groups[0][1].num_steps, 2u);
  EXPECT_EQ(records_.groups[0][1].grads_equal, false);
  EXPECT_THAT(ProblemText(),
              HasSubstr(path + ":5: samples \"forward_ns\" has 2 entries, the others have 1\n"));
  EXPECT_THAT(ProblemText(), HasSubstr(path + ":6: more of record 2, which is not there\n"));
  EXPECT_THAT(ProblemText(), HasSubstr(path + ":7: cut off after 70 bytes\n"));
  EXPECT_EQ(problems_.count(), 3);
}

TEST_F(ReaderTest, ASecondRecordOfARankIsLeftOut) {
  const std::string path = FreshTestDir("twice") + "/a.jsonl";
  WriteLines(path, {WithBatch("none", 0, 2), WithBatch("none", 0, 2), WithBatch("none", 1, 2)});
  Read({path});
  EXPECT_EQ(Order(), "none:2");
  EXPECT_EQ(records_.num_records, 2);
  EXPECT_EQ(ProblemText(), path + ":2: a second record of rank 0 for the configuration of " + path + ":1\n");
}

// One that cannot be used does not stand in the way of one that can.
TEST_F(ReaderTest, WhatCannotBeUsedIsLeftOut) {
  const std::string path = FreshTestDir("spoilt") + "/a.jsonl";
  Record hollow = WithBatch("flat", 0, 2);
  hollow.samples.clear();
  std::ofstream(path) << SpoiltLine(WithBatch("core", 0, 2)) << "\n"
                      << ToJsonLine(WithBatch("core", 0, 2)) << "\n"
                      << ToJsonLine(WithBatch("core", 1, 2)) << "\n"
                      << SpoiltLine(WithBatch("naive", 0, 2)) << "\n"
                      << ToJsonLine(hollow) << "\n";
  Read({path});
  EXPECT_EQ(Order(), "core:2");
  EXPECT_EQ(records_.num_records, 2);
  EXPECT_THAT(ProblemText(), HasSubstr(path + ":1: not JSON"));
  EXPECT_THAT(ProblemText(), HasSubstr(path + ":4: not JSON"));
  EXPECT_THAT(ProblemText(), HasSubstr(path + ":5: no samples\n"));
  EXPECT_EQ(problems_.count(), 3);
}

TEST_F(ReaderTest, NothingThereIsAnError) {
  EXPECT_THROW(Read({"/nowhere/at/all"}), InvalidInput);
  const std::string link = FreshTestDir("dangling") + "/a.jsonl";
  std::filesystem::create_symlink("/nowhere/at/all", link);
  Read({std::filesystem::path(link).parent_path().string()});
  EXPECT_EQ(ProblemText(), link + ": cannot read: No such file or directory\n");
  EXPECT_TRUE(records_.groups.empty());
}

void WriteCompressed(const std::string& path, const std::string& text) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "wb"), gzclose);
  ASSERT_EQ(gzwrite(file.get(), text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
}

TEST_F(ReaderTest, ReadsCompressedFiles) {
  const std::string dir = FreshTestDir("compressed"), plain = dir + "/r.jsonl";
  WriteLines(plain, {WithBatch("core", 0, 2), WithBatch("core", 1, 2)});
  WriteCompressed(plain + ".gz", ReadTestFile(plain));
  // Both are there after `gunzip --keep`, and only one of them counts.
  Read({dir});
  EXPECT_EQ(Order(), "core:2");
  std::filesystem::remove(plain);
  Read({dir});
  EXPECT_EQ(Order(), "core:2");
  EXPECT_EQ(ProblemText(), "");
}

TEST_F(ReaderTest, ACompressedFileThatEndsTooSoonIsNamed) {
  const std::string path = FreshTestDir("cut") + "/r.jsonl.gz";
  WriteCompressed(path, ToJsonLine(WithBatch("core", 0, 2)) + "\n");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 12);
  Read({path});
  EXPECT_THAT(ProblemText(), HasSubstr(path + ": cannot read to the end: "));
}

TEST_F(ReaderTest, RefusesWhatIsNoFile) {
  Read({"/dev/null"});
  EXPECT_EQ(ProblemText(), "/dev/null: cannot read: not a regular file\n");
}

}  // namespace
}  // namespace gradsync::tools
