#include "bench/records/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <variant>

#include "bench/records/schema.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

Record Sample() {
  Record record;
  record.experiment = "ddp";
  record.run_id = "20261121T101500-4f2a";
  record.time_utc = "2026-11-21T10:15:00Z";
  record.rank = 1;
  record.world_size = 2;
  record.variant = {.strategy = "core", .options = {{"rank", "4"}}, .backend = "shm", .tuned = true};
  record.config.Set("model", "small");
  record.config.Set("seed", 7);
  record.config.Set("batch_size", 2);
  record.config.Set("learning_rate", 0.5);
  record.config.Set("precision", 3.0);
  record.config.Set("traced", false);
  record.samples["step_ns"] = {1, 2, std::numeric_limits<int64_t>::max()};
  record.samples["position"] = {0, 3, 4};
  record.buckets = {{1024, 3}, {8, 1}};
  record.checks.Set("grad_rel_error", 1e-7);
  record.facts.Set("num_parameters", int64_t{1998235200});
  record.provenance.host = "a \"quoted\" host\n";
  record.provenance.cpu_count = 2;
  record.provenance.dirty = true;
  record.provenance.libraries.Set("gloo", "0.5.0");
  record.link.Set("limit_bytes_per_second", int64_t{8000000000});
  return record;
}

// A record, or the reason why the line is none.
using ParseResult = std::variant<Record, std::string>;

ParseResult ParseRecord(std::string_view line) {
  std::vector<Record> records;
  const std::string fault = AddLine(line, &records);
  return fault.empty() ? ParseResult(records.at(0)) : fault;
}

std::string ReasonFor(std::string_view line) {
  std::vector<Record> records;
  return AddLine(line, &records);
}

// The line of Sample() with `from` replaced, once.
std::string Changed(std::string_view from, std::string_view to) {
  std::string line = ToJsonLine(Sample());
  const size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return line.replace(at, from.size(), to);
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string FreshDir(const std::string& name) {
  std::string dir = ::testing::TempDir() + "record_test_" + name;
  std::filesystem::remove_all(dir);
  return dir;
}

TEST(FieldsTest, KeepsOrderTypesAndReplaces) {
  Fields fields;
  fields.Set("b", 1);
  fields.Set("a", "text");
  fields.Set("b", 2.5);
  fields.Set("c", true);
  fields.Set("d", size_t{7});
  EXPECT_EQ(fields.begin()->first, "b");
  EXPECT_EQ(fields.DoubleOr("b", 0), 2.5);
  EXPECT_EQ(fields.StringOr("a", ""), "text");
  EXPECT_TRUE(fields.BoolOr("c", false));
  EXPECT_EQ(fields.IntOr("d", 0), 7);
  EXPECT_EQ(fields.DoubleOr("d", 0), 7.0);
  EXPECT_EQ(fields.IntOr("a", -1), -1);
  EXPECT_EQ(fields.IntOr("missing", -1), -1);
  EXPECT_EQ(fields.Find("missing"), nullptr);
}

TEST(RecordTest, RoundTrips) {
  const std::string line = ToJsonLine(Sample());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(line.starts_with(R"({"schema":"gradsync.record/5","experiment":"ddp",)")) << line;
  const ParseResult result = ParseRecord(line);
  ASSERT_TRUE(std::holds_alternative<Record>(result)) << std::get<std::string>(result);
  const Record& record = std::get<Record>(result);
  EXPECT_EQ(ToJsonLine(record), line);
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.variant, Sample().variant);
  EXPECT_THAT(line, HasSubstr(R"("run":{"seed":7,"precision":3.0})"));
  EXPECT_THAT(line, HasSubstr(R"("cell":{"model":"small","batch_size":2,)"));
  EXPECT_EQ(record.samples.at("step_ns").back(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(record.buckets.at(0).bytes, 1024);
  EXPECT_EQ(record.provenance.host, "a \"quoted\" host\n");
  // A double stays one, even without a fraction.
  EXPECT_TRUE(std::holds_alternative<double>(*record.config.Find("precision")));
  EXPECT_TRUE(std::holds_alternative<int64_t>(*record.config.Find("batch_size")));
}

TEST(RecordTest, PublishedStatisticsRoundTrip) {
  Record record = Sample();
  EXPECT_EQ(ToJsonLine(record).find("published"), std::string::npos);
  record.samples.clear();
  record.published["step_ns"].Set("mean_ns", 408564000.0);
  record.published["step_ns"].Set("n", 20);
  const std::string line = ToJsonLine(record);
  EXPECT_THAT(line, HasSubstr(R"("published":{"step_ns":{"mean_ns":408564000.0,"n":20}})"));
  const ParseResult result = ParseRecord(line);
  ASSERT_TRUE(std::holds_alternative<Record>(result)) << std::get<std::string>(result);
  EXPECT_EQ(ToJsonLine(std::get<Record>(result)), line);
  EXPECT_EQ(ReasonFor(line.substr(0, line.find(",\"published\"")) + R"(,"published":[1]})"),
            "\"published\" is an array, expected an object");
}

TEST(RecordTest, NumbersThatAreNotFiniteAreNull) {
  Record record = Sample();
  record.checks.Set("grad_rel_error", std::numeric_limits<double>::quiet_NaN());
  record.checks.Set("param_rel_error", std::numeric_limits<double>::infinity());
  const std::string line = ToJsonLine(record);
  EXPECT_THAT(line, HasSubstr(R"("grad_rel_error":null,"param_rel_error":null)"));
  const ParseResult result = ParseRecord(line);
  EXPECT_TRUE(std::isnan(std::get<Record>(result).checks.DoubleOr("grad_rel_error", 0)));
}

TEST(RecordTest, BytesThatAreNotTextDoNotSpoilTheLine) {
  Record record = Sample();
  record.provenance.command_line = "--out=\xff\xfe";
  EXPECT_EQ(ReasonFor(ToJsonLine(record)), "");
}

// Python's json sorts keys if asked, and puts spaces between them.
TEST(RecordTest, TheOrderOfNamesDoesNotMatter) {
  const std::string line =
      R"({ "cell": {"learning_rate": null}, "run": {}, "variant": {}, "experiment": "ddp", "rank": 0, "run_id": "a", "samples": {"step_ns": [ ]}, )"
      R"("schema": "gradsync.record/5", "world_size": 1 })";
  const ParseResult result = ParseRecord(line);
  ASSERT_TRUE(std::holds_alternative<Record>(result)) << std::get<std::string>(result);
  EXPECT_EQ(std::get<Record>(result).run_id, "a");
  EXPECT_TRUE(std::get<Record>(result).samples.at("step_ns").empty());
}

TEST(RecordTest, UnknownNamesAreSkipped) {
  EXPECT_EQ(ReasonFor(Changed(R"("rank":1)", R"("new":{"a":[1]},"rank":1)")), "");
}

// What looks like a part of a record, and is somewhere else.
TEST(RecordTest, PartsAreFoundWhereTheyAre) {
  const auto parsed = [](const std::string& line) {
    const ParseResult result = ParseRecord(line);
    const auto* const record = std::get_if<Record>(&result);
    return record == nullptr ? std::get<std::string>(result) : ToJsonLine(*record);
  };
  const std::string line = ToJsonLine(Sample());
  // In a field that is not in the schema.
  EXPECT_EQ(parsed(Changed(R"("rank":1)", R"("x":{"y":0,"config":{"model":"z"}},"rank":1)")), line);
  EXPECT_EQ(parsed(Changed(R"("buckets")", R"("x":{"y":0,"facts":{"z":1}},"buckets")")), line);
  EXPECT_EQ(parsed(Changed(R"("cell")", R"("x":[{"y":0,"samples":{"z":[1]}}],"cell")")), line);
  // In texts.
  EXPECT_EQ(parsed(Changed(R"("rank":1)", R"("x":",\"config\":{\"a\":1}","rank":1)")), line);
  EXPECT_THAT(parsed(Changed(R"("rank":1)", R"("x":"a,"config":{"b":1},"rank":1)")), HasSubstr("not JSON"));
  EXPECT_THAT(parsed(Changed(R"("rank":1)", R"("x":"a\,"config":{"b":1},"rank":1)")), HasSubstr("not JSON"));
  // Twice: the later one holds.
  Record twice = Sample();
  twice.facts = {};
  twice.facts.Set("launch", 1);
  EXPECT_EQ(parsed(Changed(R"("provenance")", R"("facts":{"launch":1},"provenance")")), ToJsonLine(twice));
  twice = Sample();
  twice.config = {};
  twice.config.Set("seed", 1);
  EXPECT_EQ(parsed(line.substr(0, line.size() - 1) + R"(,"run":{"seed":1},"cell":{}})"), ToJsonLine(twice));
  // In another order.
  const size_t facts = line.find(R"(,"facts")");
  const size_t provenance = line.find(R"(,"provenance")");
  const size_t link = line.find(R"(,"link")");
  const std::string begin = line.substr(0, facts);
  const std::string facts_text = line.substr(facts, provenance - facts);
  const std::string provenance_text = line.substr(provenance, link - provenance);
  const std::string link_text = line.substr(link, line.size() - 1 - link);
  EXPECT_EQ(parsed(begin + link_text + provenance_text + facts_text + "}"), line);
  EXPECT_EQ(parsed(begin + provenance_text + facts_text + link_text + "}"), line);
  EXPECT_EQ(parsed(begin + provenance_text + link_text + facts_text + "}"), line);
  // Others behind the facts, and none.
  EXPECT_EQ(parsed(Changed(R"("provenance")", R"("x":[1],"provenance")")), line);
  EXPECT_THAT(parsed(begin + R"(,"run":{},"cell":{}})"), HasSubstr("\"run_id\":\"" + Sample().run_id));
  EXPECT_THAT(parsed(line + "}"), HasSubstr("not JSON"));
  EXPECT_THAT(parsed(Changed("\"libraries\":{", "\"libraries\":[")), HasSubstr("not JSON"));
}

TEST(RecordTest, SaysWhyALineIsNoRecord) {
  const std::string line = ToJsonLine(Sample());
  EXPECT_EQ(ReasonFor(line.substr(0, 100)), "cut off after 100 bytes");
  EXPECT_THAT(ReasonFor("hello"), HasSubstr("not JSON"));
  EXPECT_THAT(ReasonFor(""), HasSubstr("not JSON"));
  EXPECT_EQ(ReasonFor("[1]"), "not a JSON object but an array");
  EXPECT_THAT(ReasonFor(line + line), HasSubstr("not JSON"));
  EXPECT_THAT(ReasonFor(line + '\0' + line), HasSubstr("not JSON"));
  EXPECT_THAT(ReasonFor(Changed(R"("learning_rate":0.5)", R"("learning_rate":1e999)")),
              HasSubstr("not JSON"));
  EXPECT_THAT(ReasonFor(Changed(R"("rank":1,)", R"("rank":1,,)")), HasSubstr("not JSON"));
  EXPECT_THAT(ReasonFor(Changed(R"("traced":false)", R"("traced":flase)")), HasSubstr("not JSON"));
  EXPECT_EQ(ReasonFor(R"({"a":1})"), "no \"schema\": not a gradsync record");
  EXPECT_EQ(ReasonFor(Changed("gradsync.record/5", "gradsync.record/3")),
            "schema \"gradsync.record/3\", expected \"gradsync.record/5\": measure again with this version");
  EXPECT_EQ(ReasonFor(Changed(R"("batch_size":2)", R"("batch_size":"2")")),
            "\"batch_size\" is a text, expected a whole number");
  EXPECT_EQ(ReasonFor(Changed(R"("rank":1)", R"("rank":"one")")),
            "\"rank\" is a string, expected a whole number");
  EXPECT_EQ(ReasonFor(Changed(R"("rank":1)", R"("rank":9223372036854775808)")),
            "\"rank\" is a number, expected a whole number");
  EXPECT_EQ(ReasonFor(Changed(R"("rank":1)", R"("rank":2)")), "rank 2 of world size 2");
  EXPECT_EQ(ReasonFor(Changed(R"("run_id")", R"("id")")), "no \"run_id\"");
  EXPECT_EQ(ReasonFor(Changed(R"("batch_size":2)", R"("batch_size":[2])")),
            "\"batch_size\" is an array, expected a plain value");
  EXPECT_EQ(ReasonFor(Changed(R"("strategy":"core")", R"("strategy":1)")),
            "\"strategy\" is a number, expected a string");
  EXPECT_EQ(ReasonFor(Changed(R"("rank":"4")", R"("rank":4)")), "\"rank\" is a number, expected a string");
  EXPECT_EQ(ReasonFor(Changed(R"("tuned":true)", R"("tuned":1)")),
            "\"tuned\" is a number, expected true or false");
  EXPECT_EQ(ReasonFor(Changed(R"("gloo":"0.5.0")", R"("gloo":{})")),
            "\"gloo\" is an object, expected a plain value");
  EXPECT_EQ(ReasonFor(Changed(R"("bytes":1024)", R"("bytes":1.5)")),
            "\"bytes\" is a number, expected a whole number");
  EXPECT_EQ(ReasonFor(Changed("[0,3,4]", "[0,3]")), "samples \"step_ns\" has 3 entries, the others have 2");
  EXPECT_EQ(ReasonFor(Changed("[0,3,4]", "[0,3,4.5]")), "\"position\" is a number, expected a whole number");
}

TEST(SchemaTest, NamesOfAConfigurationHaveScopes) {
  EXPECT_EQ(ScopeOf("model"), Scope::kSetting);
  EXPECT_EQ(ScopeOf("seed"), Scope::kRun);
  EXPECT_EQ(ScopeOf("time"), Scope::kRun);
  EXPECT_EQ(ScopeOf("trial_seed"), Scope::kTrial);
  EXPECT_EQ(ScopeOf("what is new"), Scope::kSetting);
}

TEST(SchemaTest, NamesWhatIsNotInItWhatIsMissingAndWhatIsOfAnotherType) {
  Record record = Sample();
  record.config = {};
  record.link = {};
  record.config.Set(ConfigName::Of("strategie"), "core");
  record.config.Set("seed", "0");
  record.facts.Set("peak_bytes_in_use", "unknown");
  record.samples["backward.linear_ns"] = {1, 2, 3};
  const std::vector<std::string> faults = SchemaFaults(record);
  EXPECT_THAT(faults, Contains("\"strategie\" is not in the schema"));
  EXPECT_THAT(faults, Contains("\"seed\" is a text, expected a whole number"));
  EXPECT_THAT(faults, Contains("no \"device\""));
  EXPECT_THAT(faults, Contains("no \"forward_ns\""));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("linear"))));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("peak_bytes_in_use"))));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("time_ns"))));
  EXPECT_THAT(WrongTypes(record), ElementsAre("\"seed\" is a text, expected a whole number"));
}

// Two records that take turns, line by line.
TEST(ContinuationTest, RecordsGrow) {
  std::vector<Record> records;
  Record first = Sample(), second = Sample();
  first.number = 3;
  second.number = 4;
  first.samples = {{"position", {0}}, {"step_ns", {10}}};
  EXPECT_EQ(AddLine(ToJsonLine(first), &records), "");
  EXPECT_EQ(AddLine(ToJsonLine(second), &records), "");
  Record more;
  more.samples = {{"position", {2, 4}}, {"step_ns", {30, 50}}};
  EXPECT_EQ(AddLine(ToContinuationLine(3, more), &records), "");
  Record end;
  end.samples["forward_ns"] = {7, 8, 9};  // of all steps at once
  end.checks.Set("grad_rel_error", 0.5);
  end.facts.Set("num_tensors", 2);
  end.buckets = {{4, 1}};
  const std::string line = ToContinuationLine(3, end);
  EXPECT_EQ(
      line,
      R"({"schema":"gradsync.record/5","of":3,"samples":{"forward_ns":[7,8,9]},)"
      R"("buckets":[{"bytes":4,"tensors":1,"collective":"all_reduce"}],"checks":{"grad_rel_error":0.5},"facts":{"num_tensors":2}})");
  EXPECT_EQ(AddLine(line, &records), "");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0].samples.at("step_ns"), ElementsAre(10, 30, 50));
  EXPECT_THAT(records[0].samples.at("forward_ns"), ElementsAre(7, 8, 9));
  EXPECT_EQ(records[0].checks.DoubleOr("grad_rel_error", 0), 0.5);
  EXPECT_EQ(records[0].facts.IntOr("num_tensors", 0), 2);
  EXPECT_EQ(records[0].facts.IntOr("num_parameters", 0), 1998235200);
  EXPECT_EQ(records[0].buckets.size(), 1u);
  EXPECT_EQ(ToJsonLine(records[1]), ToJsonLine(second));
}

TEST(ContinuationTest, SaysWhyOneCannotBeUsed) {
  Record begun = Sample();
  begun.number = 0;
  std::vector<Record> records = {begun};
  Record more;
  more.samples["step_ns"] = {1};
  EXPECT_EQ(AddLine(ToContinuationLine(0, more), &records),
            "samples \"step_ns\" has 4 entries, the others have 3");
  more.samples["position"] = {1};
  EXPECT_EQ(AddLine(ToContinuationLine(1, more), &records), "more of record 1, which is not there");
  const std::string line = ToContinuationLine(0, more);
  EXPECT_EQ(AddLine(line.substr(0, 60), &records), "cut off after 60 bytes");
  EXPECT_EQ(ReasonFor(ToContinuationLine(0, {})), "more of record 0, which is not there");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(ToJsonLine(records[0]), ToJsonLine(begun));
}

TEST(RecordWriterTest, WritesWhatWasBegunAndContinued) {
  const std::string dir = FreshDir("lines") + "/below/it";
  RecordWriter writer(dir, "ddp", "20261121T101500-4f2a", 1);
  EXPECT_EQ(writer.path(), dir + "/ddp.20261121T101500-4f2a.rank1.jsonl");
  EXPECT_EQ(writer.Begin(Sample()), 0);
  Record second = Sample();
  EXPECT_EQ(writer.Begin(second), 1);
  EXPECT_EQ(ReadAll(writer.path()), "");
  writer.Write();
  second.number = 1;
  Record first = Sample();
  first.number = 0;
  const std::string lines = ToJsonLine(first) + "\n" + ToJsonLine(second) + "\n";
  EXPECT_EQ(ReadAll(writer.path()), lines);
  Record more;
  more.samples = {{"position", {5}}, {"step_ns", {6}}};
  writer.Continue(1, more);
  writer.WriteToDisk();
  EXPECT_EQ(ReadAll(writer.path()), lines + ToContinuationLine(1, more) + "\n");
  writer.WriteToDisk();
  EXPECT_EQ(ReadAll(writer.path()), lines + ToContinuationLine(1, more) + "\n");
}

TEST(RecordWriterTest, RefusesAFileThatHasSomething) {
  const std::string dir = FreshDir("taken_file");
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/ddp.id.rank0.jsonl") << "{}";
  EXPECT_THROW(RecordWriter(dir, "ddp", "id", 0), InvalidInput);
}

TEST(RecordWriterTest, NamesThePathAndTheReason) {
  const std::string dir = FreshDir("taken");
  std::ofstream(dir.c_str()) << "a file";
  try {
    RecordWriter writer(dir, "ddp", "id", 0);
    FAIL() << "a file was taken for a directory";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr(dir));
    EXPECT_THAT(error.what(), HasSubstr("irectory"));
  }
}

TEST(RunIdTest, IsTimeAndRandomDigits) {
  EXPECT_THAT(NewRunId(), MatchesRegex("[0-9]{8}T[0-9]{6}-[0-9a-f]{4}"));
  EXPECT_THAT(NowUtc(), MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"));
}

}  // namespace
}  // namespace gradsync::bench
