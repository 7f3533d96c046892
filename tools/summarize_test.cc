#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/measurements/test_records.h"
#include "tools/summarize_cli.h"
#include "tools/test_summarize.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMs = 1000000;

json TableNamed(const Outcome& outcome, std::string_view name) {
  const json report = json::parse(outcome.out);
  for (const json& table : report.at("tables")) {
    if (table.at("name") == name) return table;
  }
  return nullptr;
}

json CellOf(const json& table, size_t row, std::string_view column) {
  for (size_t i = 0; i < table.at("columns").size(); ++i) {
    if (table.at("columns")[i] == column) return table.at("rows").at(row).at(i);
  }
  return "no such column";
}

std::vector<std::string> ColumnValues(const json& table, std::string_view column) {
  std::vector<std::string> values;
  for (size_t row = 0; row < table.at("rows").size(); ++row) values.push_back(CellOf(table, row, column));
  return values;
}

// A run of three strategies on two ranks, and an all-reduce.
std::string SampleDir(std::string_view name) {
  std::string dir = FreshTestDir(name);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string suffix = ".rank" + std::to_string(rank) + ".jsonl";
    WriteLines(dir + "/ddp.20261121T101500-4f2a" + suffix,
               {DdpRecord("none", rank, Repeat(10 * kMs, 12)), DdpRecord("naive", rank, Repeat(20 * kMs, 12)),
                DdpRecord("flat", rank, Repeat(30 * kMs, 12))});
    WriteLines(
        dir + "/all_reduce.20261121T101400-4f2a" + suffix,
        {AllReduceRecord(1 << 20, rank, Repeat(kMs, 12)), AllReduceRecord(10 << 20, rank, Repeat(kMs, 12))});
  }
  return dir;
}

TEST(SummarizeTest, PrintsTablesForPeople) {
  const Outcome outcome = RunWith({SampleDir("markdown")});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("# gradsync: results\n"));
  EXPECT_THAT(outcome.out, HasSubstr("host bench1, 8 x Some CPU, 16 GiB, Debian GNU/Linux 12 (bookworm)"));
  EXPECT_THAT(outcome.out, HasSubstr("gradsync 0123456789ab (opt, gcc 12.2.0), gloo 0.5.0"));
  EXPECT_THAT(outcome.out, HasSubstr("`./bazelw run //bench:ddp -- --model=small`"));
  EXPECT_THAT(outcome.out, HasSubstr("| backend | data_size | time    |"));
  EXPECT_THAT(outcome.out,
              ContainsRegex("\n[|] variant +[|] step .ms. [|] +delta .%. [|] +sync_cost .ms. [|]"));
  EXPECT_THAT(outcome.out, ContainsRegex("\\| \\*\\*naive@gloo\\*\\* \\| +20\\.00 \\| +0\\.0 \\|"));
  EXPECT_THAT(outcome.out, HasSubstr("+50.0 [50.0, 50.0]"));
  EXPECT_THAT(outcome.out, HasSubstr("**Against naive: slower by 50.0 to 50.0 %: flat"));
  EXPECT_THAT(outcome.out, HasSubstr("- `one-launch`: one launch"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("outliers")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("p99_step")));
}

// Steps that never vary leave no doubt. If there are several runs, the latest counts.
TEST(SummarizeTest, TheStatusSaysWhetherDifferencesAreKnownToAPrecision) {
  const std::string dir = FreshTestDir("precision");
  const auto status_after = [&](const std::string& run, int64_t varies_ns) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::vector<int64_t> steps = Repeat(20 * kMs, 12);
      for (size_t i = 0; i < steps.size(); i += 2) steps[i] += varies_ns;
      std::vector<bench::Record> records = {DdpRecord("naive", rank, Repeat(20 * kMs, 12)),
                                            DdpRecord("flat", rank, steps)};
      for (bench::Record& record : records) {
        record.run_id = run;
        record.facts.Set("launch_set", run);
      }
      WriteLines(dir + "/ddp." + run + ".rank" + std::to_string(rank) + ".jsonl", records);
    }
    const Outcome outcome = RunWith({dir, "--precision=2%"});
    EXPECT_EQ(outcome.out, "");
    if (outcome.status == 0) {
      EXPECT_EQ(outcome.err, "");
    } else {
      EXPECT_THAT(outcome.err, StartsWith("summarize: --precision=2%: "));
      EXPECT_THAT(outcome.err, HasSubstr("the widest interval is +- "));
    }
    return outcome.status;
  };
  EXPECT_EQ(status_after("20261121T101500-4f2a", 10 * kMs), 3);
  EXPECT_EQ(status_after("20261121T101600-0001", 0), 0);
  EXPECT_EQ(status_after("20261121T101700-0002", 10 * kMs), 3);
}

TEST(SummarizeTest, DetailsHaveEveryColumn) {
  const Outcome outcome = RunWith({SampleDir("details"), "--details"});
  for (const char* const column :
       {"p99_step (ms)", "time_per_sync", "rest (ms)", "optimizer (ms)", "time_taken", "back_to_back"}) {
    EXPECT_THAT(outcome.out, HasSubstr(column));
  }
}

TEST(SummarizeTest, PrintsTheSameTablesForMachines) {
  const std::string dir = SampleDir("json");
  const Outcome outcome = RunWith({dir, "--format=json"});
  EXPECT_EQ(outcome.status, 0);
  const json ddp = TableNamed(outcome, "ddp");
  EXPECT_THAT(ColumnValues(ddp, "strategy"), ElementsAre("none", "naive", "flat"));
  EXPECT_THAT(ColumnValues(ddp, "baseline"), ElementsAre("", "naive@gloo", "naive@gloo"));
  EXPECT_TRUE(CellOf(ddp, 0, "delta (%)").is_null());
  EXPECT_NEAR(CellOf(ddp, 2, "delta (%)").get<double>(), 50, 1e-9);
  EXPECT_TRUE(CellOf(ddp, 1, "delta_low (%)").is_null());
  EXPECT_EQ(CellOf(TableNamed(outcome, "all_reduce"), 1, "data_size (MB)"), 10);

  const Outcome csv = RunWith({dir, "--format=csv"});
  EXPECT_THAT(csv.out, StartsWith("# all_reduce\r\nbackend,data_size (MB),time_taken,std_time,"));
  const std::string ddp_columns =
      "model_size,backend,time_per_step,std_time_step,time_per_sync,std_time_sync,fraction_sync,strategy,";
  EXPECT_THAT(csv.out, HasSubstr("\r\n\r\n# ddp\r\n" + ddp_columns));
  EXPECT_THAT(RunWith({dir, "--format=csv", "--table=ddp"}).out, StartsWith(ddp_columns));
}

TEST(SummarizeTest, TheBaselineCanBeChosen) {
  const std::string dir = SampleDir("baseline");
  const Outcome outcome = RunWith({dir, "--format=json", "--baseline_row=none"});
  EXPECT_NEAR(CellOf(TableNamed(outcome, "ddp"), 2, "delta (%)").get<double>(), 200, 1e-9);
  EXPECT_EQ(CellOf(TableNamed(outcome, "ddp"), 2, "baseline"), "none");
}

TEST(SummarizeTest, WhereTheBaselineIsMissingTheFirstRowTakesItsPlace) {
  const std::string dir = FreshTestDir("no_baseline");
  Record other = DdpRecord("core", 0, Repeat(kMs, 12));
  other.config.Set("batch_size", 4);
  WriteLines(dir + "/a.jsonl",
             {DdpRecord("flat", 0, Repeat(kMs, 12)), DdpRecord("core", 0, Repeat(kMs, 12)), other});
  EXPECT_THAT(ColumnValues(TableNamed(RunWith({dir, "--format=json"}), "ddp"), "baseline"),
              ElementsAre("core@gloo", "core@gloo", "core@gloo"));
  const Outcome outcome = RunWith({dir, "--format=json", "--baseline_row=flat"});
  EXPECT_THAT(ColumnValues(TableNamed(outcome, "ddp"), "baseline"),
              ElementsAre("flat@gloo", "flat@gloo", "core@gloo"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err,
            "--baseline_row=flat: missing from 1 of the comparisons, where the first row takes its place\n");
}

TEST(SummarizeTest, NamesWhatItCannotUse) {
  const std::string dir = SampleDir("problems");
  const std::string rank1 = dir + "/ddp.20261121T101500-4f2a.rank1.jsonl";
  std::string text = ReadTestFile(rank1);
  text.resize(text.size() - 100);
  std::ofstream(rank1) << text;
  Record foreign = AllReduceRecord(1, 0, {kMs});
  foreign.experiment = "weather";
  Record hollow = DdpRecord("core", 0, {});
  Record no_step = DdpRecord("overlap", 0, {kMs});
  no_step.samples.erase("forward_ns");
  WriteLines(dir + "/x.jsonl", {foreign, hollow, no_step});

  const Outcome outcome = RunWith({dir, "--format=json"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr(rank1 + ":3: cut off after "));
  EXPECT_THAT(outcome.err, HasSubstr(dir + "/x.jsonl:1: no table for experiment \"weather\"\n"));
  EXPECT_THAT(outcome.err, HasSubstr(dir + "/x.jsonl:2: no steps\n"));
  EXPECT_THAT(outcome.err, HasSubstr(dir + "/x.jsonl:3: no samples of whole times\n"));
  EXPECT_THAT(outcome.err, HasSubstr("summarize: used 9 records, left out 4 lines or files, named above\n"));
  const json ddp = TableNamed(outcome, "ddp");
  EXPECT_THAT(ColumnValues(ddp, "strategy"), ElementsAre("none", "naive", "flat"));
  EXPECT_EQ(CellOf(ddp, 1, "warnings"), "one-launch n<20 n<100");
  EXPECT_EQ(CellOf(ddp, 2, "warnings"), "ranks-missing:1/2 one-launch n<20 n<100");
}

TEST(SummarizeTest, NoRecordsAreAFailure) {
  const std::string dir = FreshTestDir("empty");
  EXPECT_EQ(RunWith({dir}).status, 1);
  EXPECT_EQ(RunWith({dir}).err, "summarize: " + dir + ": no records (*.jsonl) in it, it is empty\n");
  std::filesystem::create_directory(dir + "/quick-1");
  std::ofstream(dir + "/tables.md") << "x";
  EXPECT_EQ(RunWith({dir}).err, "summarize: " + dir +
                                    ": no records (*.jsonl) in it, but quick-1/, tables.md; "
                                    "directories below it are not searched: name them\n");
  for (const char* const name : {"a", "b", "c", "d"}) std::ofstream(dir + "/" + name) << "x";
  EXPECT_THAT(RunWith({dir}).err, HasSubstr("but a, b, c, d, quick-1/, 1 more; directories"));
  std::ofstream(dir + "/a.jsonl") << "hello\n";
  const Outcome outcome = RunWith({dir});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith(dir + "/a.jsonl:1: not JSON"));
  EXPECT_THAT(outcome.err, HasSubstr("summarize: " + dir + ": no record in it that could be used\n"));
}

TEST(SummarizeTest, BadArgumentsAreOneLine) {
  const std::string dir = SampleDir("bad_arguments");
  const auto refuses = [](const std::vector<std::string>& arguments, const std::string& line) {
    const Outcome outcome = RunWith(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "summarize: " + line + "\n");
  };
  refuses({dir, "--format=xml"}, "--format=xml: expected markdown, csv, latex, json, screen or choice");
  refuses({dir, "--format=cvs"},
          "--format=cvs: expected markdown, csv, latex, json, screen or choice; did you mean csv?");
  refuses({dir, "--table=dpd"},
          "--table=dpd: the records make no such table, but all_reduce and ddp; did you mean ddp?");
  refuses({dir, "--table=links"}, "--table=links: the records make no such table, but all_reduce and ddp");
  refuses({dir, "--baseline_row=flt"},
          "--baseline_row=flt: expected a strategy or a variant of the records, which have none, naive and "
          "flat; did you mean flat?");
  refuses({dir, "--out=/x/t.xls"},
          "--out=/x/t.xls: expected a name that ends in .md, .csv, .tex or .json, or --format beside it");
  refuses({dir, "--out=/x/t.csv", "--format=json"}, "--out=/x/t.csv: ends in .csv, but --format is json");
  refuses({dir, "--formats=csv"}, "--formats: summarize has no such flag; did you mean --format?");
  refuses({dir, "--precision=0"}, "--precision=0: expected a percentage, at most 100%, such as 2%");
  refuses({dir, "--run=20261121T101400-4f2a"},
          "--run=20261121T101400-4f2a: no such run, but 20261121T101500-4f2a; did you mean "
          "20261121T101500-4f2a?");
  refuses({dir, "--run=x", "--precision=1%"}, "--run=x: no such run, but 20261121T101500-4f2a");
  refuses({dir, "--run=20261121T101500-4f2a", "--table=dpd"},
          "--table=dpd: the records make no such table, but all_reduce and ddp; did you mean ddp?");
  // What would have no effect.
  for (const char* const flag : {"--baseline_row=naive", "--run=x", "--table=ddp", "--precision=1%"}) {
    const std::string name(flag, std::string_view(flag).find('='));
    refuses({dir, "--baseline=" + dir, flag}, name + ": has no effect with --baseline");
  }
  refuses({dir, "--baseline=" + dir, "--format=screen"}, "--baseline: has no effect with --format=screen");
  refuses({dir, "--format=screen", "--table=ddp"}, "--table: has no effect with --format=screen");
  for (const std::string format : {"screen", "csv", "json"})
    refuses({dir, "--format=" + format, "--details"}, "--details: has no effect with --format=" + format);
  refuses({dir, "--format=choice", "--table=ddp"}, "--table: has no effect with --format=choice");
  refuses({dir, "--precision=1%", "--out=/x/t.md"}, "--out: has no effect with --precision");
  refuses({}, "no input: takes directories or files with records, such as results/");
  refuses({"/nowhere/at/all"}, "/nowhere/at/all: no such file or directory");
  refuses({dir, "--baseline=/nowhere/at/all"}, "/nowhere/at/all: no such file or directory");
}

TEST(SummarizeTest, HelpSaysWhatItTakes) {
  const Outcome outcome = RunWith({"--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("--baseline_row"));
  EXPECT_THAT(outcome.out, HasSubstr("every *.jsonl"));
}

TEST(SummarizeTest, WritesFiles) {
  const std::string dir = SampleDir("out");
  const std::string out = FreshTestDir("out_dir");
  EXPECT_EQ(RunWith({dir, "--format=json", "--out=" + out + "/tables.json"}).out, "");
  EXPECT_EQ(ReadTestFile(out + "/tables.json"), RunWith({dir, "--format=json"}).out);
  for (const auto& [suffix, format] :
       {std::pair{"md", "markdown"}, {"csv", "csv"}, {"tex", "latex"}, {"json", "json"}}) {
    const std::string path = out + "/decided." + suffix;
    EXPECT_EQ(RunWith({dir, "--out=" + path}).err, "");
    EXPECT_EQ(ReadTestFile(path), RunWith({dir, std::string("--format=") + format}).out) << suffix;
  }
  EXPECT_EQ(RunWith({dir, "--format=screen", "--out=" + out + "/screen.txt"}).out, "");
  EXPECT_EQ(ReadTestFile(out + "/screen.txt"), RunWith({dir, "--format=screen"}).out);

  const Outcome failure = RunWith({dir, "--out=" + out + "/missing/tables.md"});
  EXPECT_EQ(failure.status, 1);
  EXPECT_EQ(failure.err,
            "summarize: " + out + "/missing/tables.md: cannot write it: No such file or directory\n");
}

TEST(SummarizeTest, AFullDiskIsAFailure) {
  const std::string dir = SampleDir("full_disk");
  for (const char* const format : {"--format=markdown", "--format=screen", "--help"}) {
    const char* const argv[] = {"summarize", dir.c_str(), format};
    std::ostringstream out, err;
    out.setstate(std::ios::badbit);
    EXPECT_EQ(RunSummarize(3, argv, out, err), 1) << format;
    EXPECT_EQ(err.str(), "summarize: cannot write to stdout\n");
  }
}

TEST(SummarizeTest, NoComparisonIsNotPrecise) {
  const std::string dir = FreshTestDir("nothing_to_compare");
  for (int64_t rank = 0; rank < 2; ++rank)
    WriteLines(dir + "/rank" + std::to_string(rank) + ".jsonl",
               {LearningRecord("naive", 1, rank, {3, 2}, kMs)});
  const Outcome outcome = RunWith({dir, "--precision=2%"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.err, "summarize: --precision=2%: the records compare nothing\n");
}

TEST(SummarizeTest, PathsCountFromWhereTheCommandWasTyped) {
  const std::string dir = SampleDir("typed");
  ASSERT_EQ(setenv("BUILD_WORKING_DIRECTORY", std::filesystem::path(dir).parent_path().c_str(), 1), 0);
  EXPECT_EQ(
      RunWith({std::filesystem::path(dir).filename().string(), "--out=gradsync_typed/tables.md"}).status, 0);
  ASSERT_EQ(unsetenv("BUILD_WORKING_DIRECTORY"), 0);
  EXPECT_TRUE(std::filesystem::exists(dir + "/tables.md"));
}

int64_t PeakMemoryKb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 20,000 records, 48 MB: a fifth of the 100,000 that must fit into 2 GiB.
TEST(SummarizeTest, ManyRecordsFitIntoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs memory of its own";
#endif
  constexpr int kRuns = 2500;
  const std::string dir = FreshTestDir("many");
  size_t bytes = 0;
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::ofstream file(dir + "/rank" + std::to_string(rank) + ".jsonl");
    for (const char* strategy : {"none", "naive", "flat", "core"}) {
      Record record = DdpRecord(strategy, rank, Repeat(10 * kMs, 40));
      for (int run = 0; run < kRuns; ++run) {
        record.run_id = "run" + std::to_string(run);
        const std::string line = ToJsonLine(record) + "\n";
        bytes += line.size();
        file << line;
      }
    }
  }
  EXPECT_GT(bytes, size_t{40} << 20);
  const int64_t before_kb = PeakMemoryKb();
  const Outcome outcome = RunWith({dir, "--format=csv", "--table=ddp"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_LT(PeakMemoryKb() - before_kb, 400 << 10);
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1 + 4 * kRuns);
}

// A row over another backend than the baseline's is not the baseline's own.
TEST(SummarizeTest, TheScreenNamesBackendsWhereOneBaselineIsForAll) {
  const std::string dir = FreshTestDir("backends");
  for (int64_t rank = 0; rank < 2; ++rank)
    WriteLines(
        dir + "/ddp.20261121T101500-4f2a.rank" + std::to_string(rank) + ".jsonl",
        {DdpRecord("core@gloo", rank, Repeat(100 * kMs, 24)),
         DdpRecord("core@shm", rank, Repeat(90 * kMs, 24)),
         DdpRecord("zero1@gloo", rank, Repeat(102 * kMs, 24)),
         DdpRecord("zero1@shm", rank, Repeat(70 * kMs, 24)), DdpRecord("none", rank, Repeat(60 * kMs, 24))});
  const std::string screen = RunWith({dir, "--format=screen", "--baseline_row=core@gloo"}).out;
  EXPECT_THAT(screen, StartsWith("small b2 s128  Use zero1@shm: 30.0 to 30.0 % faster than core@gloo\n"));
  EXPECT_THAT(screen, ContainsRegex("\nzero1@shm  .* -30[.]0 .*[*] "));
  EXPECT_THAT(screen, ContainsRegex("\nzero1@gloo .* [+]2[.]0 "));
  EXPECT_THAT(screen, ContainsRegex("\ncore@gloo  .* baseline "));
  EXPECT_THAT(screen, HasSubstr("\ncore@shm "));
  // In columns, of two settings.
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<Record> records = {DdpRecord("core@gloo", rank, Repeat(50 * kMs, 24)),
                                   DdpRecord("zero1@shm", rank, Repeat(60 * kMs, 24))};
    for (Record& record : records) record.config.Set("batch_size", 1);
    WriteLines(dir + "/ddp.20261121T101500-4f2a.b1.rank" + std::to_string(rank) + ".jsonl", records);
  }
  const std::string columns = RunWith({dir, "--format=screen", "--baseline_row=core@gloo"}).out;
  EXPECT_THAT(columns, ContainsRegex("\n +b1 core@gloo +b2 core@gloo\n"));
  EXPECT_THAT(columns, ContainsRegex("\nzero1@shm +[+]20[.]0 .* -30[.]0 .*[*]\n"));
  EXPECT_THAT(
      RunWith({dir, "--baseline_row=core@gloo"}).out,
      HasSubstr(
          "against core@gloo: slower by 2.0 to 2.0 %: zero1@gloo; faster by at least 10 %: core@shm and "
          "zero1@shm."));
  // One baseline over each: nothing needs a backend.
  EXPECT_THAT(RunWith({dir, "--format=screen"}).out, ContainsRegex("\nzero1  .*[+]2[.]0 .* -22[.]2 "));
  // Many settings are counted.
  for (int64_t batch_size = 3; batch_size <= 9; ++batch_size) {
    std::vector<Record> records = {DdpRecord("core@gloo", 0, Repeat(50 * kMs, 24)),
                                   DdpRecord("zero1@shm", 0, Repeat(60 * kMs, 24))};
    for (Record& record : records) record.config.Set("batch_size", batch_size);
    WriteLines(dir + "/b" + std::to_string(batch_size) + ".jsonl", records);
  }
  EXPECT_THAT(RunWith({dir, "--format=screen", "--baseline_row=core@gloo"}).out,
              HasSubstr("best: core@gloo in 1, zero1@shm in 1 of 9"));
}

// Cells of learning, more than there are lines, do not push it out.
TEST(SummarizeTest, TheScreenEndsWithWhatIsWrong) {
  const std::string dir = FreshTestDir("wrong");
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<Record> records;
    for (const char* const strategy :
         {"none", "core", "naive", "flat", "zero1", "zero2", "overlap", "core:a=1", "core:a=2", "core:a=3",
          "core:a=4", "core:a=5", "core:a=6", "core:a=7", "core:a=8", "core:a=9", "zero1:a=1", "zero1:a=2",
          "zero1:a=3"})
      records.push_back(DdpRecord(strategy, rank, Repeat((70 + std::ssize(records)) * kMs, 24)));
    records[3].checks.Set("grads_equal", false);
    records.push_back(AllReduceRecord(1 << 20, rank, Repeat(kMs, 24)));
    records.back().checks.Set("wrong_elements", rank);
    for (int64_t batch_size = 1; batch_size <= 9; ++batch_size) {
      for (const char* const strategy : {"naive", "diloco", "local_sgd", "bf16_wire"}) {
        records.push_back(LearningRecord(strategy, 1, rank, {3, 2}, kMs));
        records.back().config.Set("batch_size", batch_size);
      }
    }
    WriteLines(dir + "/ddp.20261121T101500-4f2a.rank" + std::to_string(rank) + ".jsonl", records);
  }
  const std::string screen = RunWith({dir, "--format=screen"}).out;
  EXPECT_LE(std::ranges::count(screen, '\n'), 29);
  EXPECT_THAT(screen, ContainsRegex("\ncore  .* ms "));
  EXPECT_THAT(screen, ContainsRegex("\nheld-out text, 2 ranks .*\nnaive@gloo .*\nnot shown: diloco"));
  EXPECT_THAT(
      screen,
      ContainsRegex("\nchecks      WRONG: flat@gloo [(]small, batch 2, sequence 128[)] and gloo [(]1MiB[)]; "
                    "17 of 18 rows equal a.*\n.*\nwarnings .* of 20 rows"));  // one of ddp's is the floor
  EXPECT_THAT(screen, Not(HasSubstr("every sum is right")));
}

}  // namespace
}  // namespace gradsync::tools
