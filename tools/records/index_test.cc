#include "tools/records/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "model/error.h"
#include "tools/records/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;

std::vector<std::string> LinesOf(const std::string& path) {
  const InputFile file(path);
  std::vector<std::string> lines;
  for (LineReader reader(file); reader.Next();) {
    lines.push_back(reader.too_long() ? "too long" : std::string(reader.line()));
    std::string again(reader.line().size(), '?');
    EXPECT_EQ(file.Read(reader.offset(), again.data(), again.size()), again.size());
    EXPECT_EQ(again, reader.line());
    EXPECT_EQ(reader.number(), static_cast<int64_t>(lines.size()));
  }
  return lines;
}

TEST(LineReaderTest, ReadsLinesOfEveryLength) {
  const std::string path = FreshTestDir("lines") + "/file";
  const std::string long_line(3 << 20, 'x');
  std::ofstream(path) << "a\n\n" << long_line << "\nb\n" << std::string((1 << 20) - 1, 'y') << "\nlast";
  EXPECT_EQ(LinesOf(path),
            (std::vector<std::string>{"a", "", long_line, "b", std::string((1 << 20) - 1, 'y'), "last"}));
  std::ofstream(path) << "";
  EXPECT_THAT(LinesOf(path), ElementsAre());
  std::ofstream(path) << "\n";
  EXPECT_THAT(LinesOf(path), ElementsAre(""));
}

TEST(LineReaderTest, DoesNotFillTheMemoryWithOneLine) {
  const std::string path = FreshTestDir("long_line") + "/file";
  {
    std::ofstream file(path);
    file << "a\n" << std::string(LineReader::kMaxLineBytes, 'x') << "\n";
    for (int i = 0; i < 40; ++i) file << std::string(1 << 20, 'y');
    file << "\nb\n" << std::string(LineReader::kMaxLineBytes + 1, 'z');
  }
  const std::vector<std::string> lines = LinesOf(path);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1].size(), LineReader::kMaxLineBytes);
  EXPECT_EQ(lines[2], "too long");
  EXPECT_EQ(lines[3], "b");
  EXPECT_EQ(lines[4], "too long");
}

// Read from anywhere, every line is read by the reader that begins at or before it, and by no later one.
TEST(LineReaderTest, BeginsWithTheFirstLineFromAnOffsetOn) {
  const std::string path = FreshTestDir("from") + "/file";
  std::ofstream(path) << "ab\n\ncde\nf";
  const InputFile file(path);
  EXPECT_EQ(file.size(), 9u);
  const auto lines_from = [&](uint64_t offset) {
    std::string lines;
    for (LineReader reader(file, offset); reader.Next();) {
      lines += std::to_string(reader.number()) + "@" + std::to_string(reader.offset()) + " ";
    }
    return lines;
  };
  EXPECT_EQ(lines_from(0), "1@0 2@3 3@4 4@8 ");
  EXPECT_EQ(lines_from(1), "1@3 2@4 3@8 ");
  EXPECT_EQ(lines_from(3), "1@3 2@4 3@8 ");
  EXPECT_EQ(lines_from(4), "1@4 2@8 ");
  EXPECT_EQ(lines_from(7), "1@8 ");
  EXPECT_EQ(lines_from(8), "1@8 ");
  EXPECT_EQ(lines_from(9), "");
}

TEST(LineReaderTest, RefusesWhatIsNoFile) {
  EXPECT_THROW(InputFile("/nowhere/at/all"), std::runtime_error);
  EXPECT_THROW(InputFile("/tmp"), std::runtime_error);
  EXPECT_THROW(InputFile("/dev/null"), std::runtime_error);
}

// Wherever a file is cut, the pieces have what the whole has.
TEST(RecordScannerTest, PiecesOfAFileMakeTheWhole) {
  const std::string path = FreshTestDir("pieces") + "/a.jsonl";
  const std::string first = ToJsonLine(DdpRecord("none", 0, {1000}));
  const std::string second = ToJsonLine(DdpRecord("naive", 1, {1000}));
  std::ofstream(path) << first << "\nno record\n\n" << second << "\n" << second.substr(0, 100);
  const uint64_t size = std::filesystem::file_size(path);
  const auto describe = [&](const std::vector<uint64_t>& cuts) {
    std::ostringstream text;
    RecordScanner scanner;
    int64_t lines = 0;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      scanner.Scan(path, cuts[i], cuts[i + 1]);
      EXPECT_EQ(scanner.failure(), "");
      for (const auto& found : scanner.found()) {
        text << lines + found.line << "@" << found.offset << "+" << found.length << " "
             << scanner.strategies().text(found.strategy) << "/" << found.rank << "\n";
      }
      for (const auto& [line, reason] : scanner.bad_lines()) text << lines + line << " " << reason << "\n";
      lines += scanner.num_lines();
    }
    text << lines << " lines\n";
    return text.str();
  };
  const std::string whole = describe({0, size});
  EXPECT_THAT(whole, ::testing::HasSubstr("none/0"));
  EXPECT_THAT(whole, ::testing::HasSubstr("5 lines"));
  const std::string text = ReadTestFile(path);
  for (uint64_t cut = 1; cut < size; ++cut) {
    const bool is_near_a_line_end = text.substr(cut - 1, 3).find('\n') != std::string::npos;
    if (!is_near_a_line_end && cut % 37 != 0) continue;
    // What is found comes before what is not, in every piece: the order of lines within a piece apart, it is
    // the same.
    std::multiset<std::string> lines_of_whole, lines_of_parts;
    std::istringstream whole_text(whole), parts_text(describe({0, cut, std::min(cut + 7, size), size}));
    for (std::string line; std::getline(whole_text, line);) lines_of_whole.insert(line);
    for (std::string line; std::getline(parts_text, line);) lines_of_parts.insert(line);
    ASSERT_EQ(lines_of_parts, lines_of_whole) << "cut at " << cut;
  }
}

TEST(RecordScannerTest, SaysWhyAFileCannotBeRead) {
  RecordScanner scanner;
  scanner.Scan("/nowhere/at/all", 0, 10);
  EXPECT_EQ(scanner.failure(), "No such file or directory");
  EXPECT_EQ(scanner.num_lines(), 0);
}

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

class RecordIndexTest : public ::testing::Test {
 protected:
  std::string ProblemText() {
    std::ostringstream out;
    problems_.Print(out);
    return out.str();
  }

  // "strategy/rank" of every entry, a "|" where a cell ends and a "," where a measurement does.
  std::string Order() {
    std::string text;
    std::span<const RecordIndex::Entry> rest = index_.entries();
    const RecordIndex::Entry* last = nullptr;
    for (const RecordIndex::Entry& entry : rest) {
      if (last != nullptr)
        text += last->cell != entry.cell ? "|" : last->measurement != entry.measurement ? "," : " ";
      text += index_.strategies()[entry.strategy] + "/" + std::to_string(entry.rank);
      last = &entry;
    }
    return text;
  }

  Problems problems_;
  RecordIndex index_{&problems_};
};

Record WithBatch(std::string_view strategy, int64_t rank, int64_t batch_size) {
  Record record = DdpRecord(strategy, rank, {1000});
  record.config.Set("batch_size", batch_size);
  return record;
}

TEST_F(RecordIndexTest, PutsRanksAndStrategiesTogether) {
  const std::string dir = FreshTestDir("index");
  std::filesystem::create_directories(dir + "/below");
  WriteLines(dir + "/a.jsonl", {WithBatch("none", 0, 2), WithBatch("naive", 0, 2), WithBatch("none", 0, 4)});
  WriteLines(dir + "/b.jsonl", {WithBatch("naive", 1, 2), WithBatch("none", 1, 4), WithBatch("none", 1, 2)});
  WriteLines(dir + "/ignored.json", {WithBatch("flat", 1, 2)});
  WriteLines(dir + "/below/ignored.jsonl", {WithBatch("flat", 1, 2)});
  index_.Add(dir);
  index_.Add(dir + "/a.jsonl");
  index_.Finish();
  EXPECT_EQ(Order(), "none/0 none/1,naive/0 naive/1|none/0 none/1");
  EXPECT_EQ(problems_.count(), 0);
  EXPECT_EQ(index_.files().size(), 2u);
  Record record;
  ASSERT_EQ(RecordReader(index_).Load(index_.entries()[3], &record), "");
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.config.StringOr("strategy", ""), "naive");
}

TEST_F(RecordIndexTest, WhatDiffersIsApart) {
  const std::string path = FreshTestDir("apart") + "/a.jsonl";
  Record other_run = WithBatch("none", 0, 2);
  other_run.run_id = "another";
  Record other_buckets = WithBatch("none", 0, 2);
  other_buckets.config.Set("bucket_bytes", 5);
  Record other_place = WithBatch("none", 1, 2);
  other_place.config.Set("placement", "cpu 1");
  WriteLines(path, {WithBatch("none", 0, 2), other_run, other_buckets, other_place});
  index_.Add(path);
  index_.Finish();
  EXPECT_EQ(Order(), "none/0 none/1,none/0|none/0");
}

TEST_F(RecordIndexTest, NamesLinesThatAreNoRecords) {
  const std::string path = FreshTestDir("bad_lines") + "/a.jsonl";
  const std::string line = ToJsonLine(WithBatch("none", 0, 2));
  std::ofstream(path) << "hello\n\n" << line << "\n{\"a\":1}\n{\"a\":1}\n" << line.substr(0, 50);
  index_.Add(path);
  index_.Finish();
  EXPECT_EQ(index_.entries().size(), 1u);
  EXPECT_EQ(problems_.count(), 4);
  EXPECT_EQ(ProblemText().substr(0, path.size() + 13), path + ":1: not JSON:");
  EXPECT_NE(ProblemText().find(path + ":4-5: no \"schema\": not a gradsync record (2 lines)\n"),
            std::string::npos);
  EXPECT_NE(ProblemText().find(path + ":6: cut off after 50 bytes\n"), std::string::npos);
}

// Whatever a file holds, what is a record in it is used, and everything else has a line of its own.
TEST_F(RecordIndexTest, NamesEveryKindOfLineThatIsNoRecord) {
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
         << std::string(LineReader::kMaxLineBytes + 1, '{') << "\n"
         << deep << "\n"
         << good.substr(0, good.size() / 2) << "\n\r\n{\"level\":\"info\"}\n"
         << good;  // no newline
  }
  std::ofstream(dir + "/empty.jsonl") << "";
  std::filesystem::create_directories(dir + "/folder.jsonl");
  index_.Add(dir);
  index_.Finish();
  RecordReader reader(index_);
  Record record;
  for (const RecordIndex::Entry& entry : index_.entries()) {
    std::string reason = reader.Load(entry, &record);
    if (!reason.empty()) index_.Reject(entry, std::move(reason));
  }
  ASSERT_EQ(index_.entries().size(), 2u);  // the good one, and the one that is spoilt behind its head
  EXPECT_EQ(index_.entries()[1].line + index_.entries()[0].line, 4u + 10u);
  const std::string problems = ProblemText();
  for (const char* line : {":1: ", ":2: ", ":3: ", ":4: ", ":5: longer than 16 MiB",
                           ":6: ", ":7: cut off after ", ":9: no \"schema\""}) {
    EXPECT_THAT(problems, ::testing::HasSubstr(path + line)) << line;
  }
  EXPECT_THAT(problems, ::testing::HasSubstr(dir + "/empty.jsonl: empty\n"));
  EXPECT_THAT(problems, ::testing::HasSubstr(dir + "/folder.jsonl: cannot read: not a regular file\n"));
  EXPECT_EQ(problems_.count(), 10);
}

TEST_F(RecordIndexTest, ASecondRecordOfARankIsLeftOut) {
  const std::string path = FreshTestDir("twice") + "/a.jsonl";
  WriteLines(path, {WithBatch("none", 0, 2), WithBatch("none", 0, 2), WithBatch("none", 1, 2)});
  index_.Add(path);
  index_.Finish();
  EXPECT_EQ(Order(), "none/0 none/1");
  EXPECT_EQ(ProblemText(), path + ":2: a second record of rank 0 for the configuration of " + path + ":1\n");
}

TEST_F(RecordIndexTest, WhatIsSpoiltBehindTheHeadShowsWhenLoaded) {
  const std::string path = FreshTestDir("spoilt") + "/a.jsonl";
  std::string line = ToJsonLine(WithBatch("none", 0, 2));
  line.replace(line.find("\"samples\":{"), 11, "\"samples\":[{");
  std::ofstream(path) << line << "\n";
  index_.Add(path);
  index_.Finish();
  ASSERT_EQ(index_.entries().size(), 1u);
  Record record;
  EXPECT_THAT(RecordReader(index_).Load(index_.entries()[0], &record), ::testing::HasSubstr("not JSON"));
}

TEST_F(RecordIndexTest, NothingThereIsAnError) {
  EXPECT_THROW(index_.Add("/nowhere/at/all"), InvalidInput);
  const std::string link = FreshTestDir("dangling") + "/a.jsonl";
  std::filesystem::create_symlink("/nowhere/at/all", link);
  index_.Add(std::filesystem::path(link).parent_path().string());
  index_.Finish();
  EXPECT_EQ(ProblemText(), link + ": cannot read: No such file or directory\n");
}

}  // namespace
}  // namespace gradsync::tools
