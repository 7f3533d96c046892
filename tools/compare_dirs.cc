#include "tools/compare_dirs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/measurements/reader.h"
#include "tools/measurements/validity.h"
#include "tools/tables/parts/fields.h"

namespace gradsync::tools {
namespace {

// Warnings about percentiles, which are not compared, and warnings that the table prints in another form.
constexpr Warning kSilentWarnings[] = {Warning::kTooFewForInterval, Warning::kTooFewForP95,
                                       Warning::kTooFewForP99, Warning::kOneLaunch};

// A comparison should detect a row that is slower by this fraction.
constexpr double kShouldShow = 0.1;

enum class GateResult { kNotShown, kSlower, kFaster, kTooFew, kTooWide, kOnlyHere, kOnlyThere };
constexpr const char* kResultTexts[] = {"no difference shown",   "slower",    "faster",    "too few steps",
                                        "too wide to show 10 %", "only here", "only there"};

struct GateRow {
  std::string experiment;
  Configuration configuration;
  // Name that distinguishes the row from other rows of its experiment: "strategy=core batch_size=2".
  std::string name{};
  std::set<RowWarning> warnings{};
  bool is_wrong_here = false;
  LooseComparison steps{};  // the steps of `here` and of `there`
  Estimate difference{};    // relative to `there`
  GateResult result = GateResult::kNotShown;

  bool has_one_launch() const { return steps.own.launches.size() == 1 || steps.base.launches.size() == 1; }
};

// Facts that may explain a difference, other than the program: values by name.
using Circumstances = std::map<std::string, std::set<std::string>>;

void NoteCircumstances(const bench::Record& record, Circumstances* all) {
  const bench::Provenance& provenance = record.provenance;
  (*all)["host"].insert(provenance.host);
  (*all)["processor"].insert(Join(provenance.cpu_count, " x ", provenance.cpu_model));
  (*all)["build"].insert(Join(provenance.build, ", ", provenance.compiler));
  (*all)["link"].insert(
      Join(record.link.StringOr("kind", "unknown"), " ", record.link.StringOr("interface", "")));
}

// Returns lines such as "host differs: here a, there b and c".
std::vector<std::string> DifferencesBetween(const Circumstances& here, const Circumstances& there) {
  std::vector<std::string> warnings;
  for (const auto& [name, values] : here) {
    const auto other = there.find(name);
    if (other == there.end() || other->second == values) continue;
    warnings.push_back(Join("warning: ", name, " differs: here ", Listed({values.begin(), values.end()}),
                            ", there ", Listed({other->second.begin(), other->second.end()})));
  }
  return warnings;
}

std::string WhyIncomparable(const bench::Record& record) {
  std::string reason = WhyUnusable(record);
  return reason.empty() && record.samples.empty() ? "no samples to compare" : reason;
}

void AddMeasurement(const Measurement& measurement, bool is_here, GateRow* row) {
  const Series& times = MainTimes(measurement);
  LooseSample& sample = is_here ? row->steps.own : row->steps.base;
  sample.values.insert(sample.values.end(), times.max.begin(), times.max.end());
  for (const Launch& launch : measurement.launches) sample.launches.push_back(launch.num_steps);
  for (const RowWarning& warning : FindWarnings({measurement, times})) {
    row->is_wrong_here |= is_here && (warning.kind == Warning::kWrong || warning.kind == Warning::kUnequal);
    if (std::ranges::count(kSilentWarnings, warning.kind) == 0) row->warnings.insert(warning);
  }
}

// Reads the rows, in the order in which they were first read.
std::vector<GateRow> ReadRows(const std::vector<std::string>& here, const std::string& there,
                              Summary* summary) {
  std::vector<GateRow> rows;
  std::map<std::pair<std::string, Configuration>, size_t> numbers;
  Circumstances of_here, of_there;
  for (const bool is_here : {true, false}) {
    const RecordSet records =
        ReadRecords(is_here ? here : std::vector{there}, WhyIncomparable, &summary->problems);
    if (is_here) summary->num_records = records.num_records;
    for (const Group& group : records.groups) {
      for (const Measurement& measurement : group) {
        NoteCircumstances(measurement.record, is_here ? &of_here : &of_there);
        Configuration configuration = ConfigurationOf(measurement.record);
        configuration["world_size"] = Join(measurement.world_size());
        const auto [entry, is_new] =
            numbers.try_emplace({measurement.record.experiment, configuration}, rows.size());
        if (is_new) rows.push_back({measurement.record.experiment, std::move(configuration)});
        AddMeasurement(measurement, is_here, &rows[entry->second]);
      }
    }
  }
  summary->remarks = DifferencesBetween(of_here, of_there);
  return rows;
}

// Returns one line for each experiment, with the values that all its rows have in common.
std::vector<std::string> NameRows(std::vector<GateRow>* rows) {
  std::map<std::string, std::vector<GateRow*>> by_experiment;
  for (GateRow& row : *rows) by_experiment[row.experiment].push_back(&row);
  std::vector<std::string> lines;
  for (const auto& [experiment, own] : by_experiment) {
    std::set<std::string> fields;
    for (const GateRow* const row : own) {
      for (const auto& [field, value] : row->configuration) fields.insert(field);
    }
    std::string common;
    for (const std::string& field : fields) {
      const auto value_in = [&field](const GateRow* row) {
        const auto found = row->configuration.find(field);
        return found == row->configuration.end() ? "" : found->second;
      };
      if (std::ranges::count(own, value_in(own[0]), value_in) == std::ssize(own)) {
        common += Join(common.empty() ? "" : ", ", field, " ", value_in(own[0]));
        continue;
      }
      for (GateRow* const row : own) {
        if (const std::string value = value_in(row); !value.empty())
          row->name += Join(row->name.empty() ? "" : " ", field, "=", value);
      }
    }
    if (own.size() == 1) own[0]->name = "the only row";
    lines.push_back(Join("All rows of ", experiment, ": ", common, "."));
  }
  return lines;
}

GateResult Judge(const GateRow& row) {
  const size_t here = row.steps.own.values.size(), there = row.steps.base.values.size();
  if (there == 0) return GateResult::kOnlyHere;
  if (here == 0) return GateResult::kOnlyThere;
  if (std::min(here, there) < kFewestForInterval) return GateResult::kTooFew;
  if (row.difference.interval.low > 0) return GateResult::kSlower;
  if (row.difference.interval.high < 0) return GateResult::kFaster;
  return row.difference.value - row.difference.interval.low > kShouldShow ? GateResult::kTooWide
                                                                          : GateResult::kNotShown;
}

Warnings WarningsAbout(const GateRow& row) {
  Warnings warnings(row.warnings.begin(), row.warnings.end());
  if (row.has_one_launch()) warnings.push_back({Warning::kOneLaunch});
  if (row.result == GateResult::kTooFew)
    warnings.insert(warnings.begin(), {Warning::kTooFewForInterval, "cannot-fail"});
  return warnings;
}

std::vector<Field<GateRow>> Fields() {
  return {
      {{.name = "experiment"}, &GateRow::experiment},
      {{.name = "row"}, &GateRow::name},
      {{.name = "here (s)"}, [](const GateRow& row) { return TrimmedMean(row.steps.own.values); }},
      {{.name = "there (s)"}, [](const GateRow& row) { return TrimmedMean(row.steps.base.values); }},
      {{.name = "difference (%)", .kind = Kind::kPercent},
       [](const GateRow& row) { return Scaled(row.difference, 100); }},
      {{.name = "steps here"}, [](const GateRow& row) { return row.steps.own.values.size(); }},
      {{.name = "steps there"}, [](const GateRow& row) { return row.steps.base.values.size(); }},
      {{.name = "verdict"}, [](const GateRow& row) { return kResultTexts[static_cast<size_t>(row.result)]; }},
      {{.name = "warnings"}, WarningsAbout},
  };
}

// Counts rows, and adds remarks that explain the table.
void Annotate(const std::vector<GateRow>& rows, const std::vector<std::string>& constants,
              const std::string& there, Table* table, ComparedDirs* compared) {
  std::map<GateResult, int64_t> count;
  int64_t num_one_launch = 0, num_wrong = 0;
  for (const GateRow& row : rows) {
    ++count[row.result];
    num_one_launch += row.result == GateResult::kSlower && row.has_one_launch();
    num_wrong += row.is_wrong_here;
  }
  const int64_t num_slower = count[GateResult::kSlower], num_vanished = count[GateResult::kOnlyThere];
  const int64_t num_wide = count[GateResult::kTooWide], num_too_few = count[GateResult::kTooFew];
  compared->num_matched = std::ssize(rows) - count[GateResult::kOnlyHere] - num_vanished;
  compared->num_compared = compared->num_matched - num_too_few;
  table->AddFinding(Join("Of ", compared->num_compared, " rows compared, ", num_slower, " are slower and ",
                         count[GateResult::kFaster], " are faster. Of the others no difference is shown."));
  if (num_slower > num_one_launch)
    compared->complaints.push_back({true, Join("slower than ", there, ": ", num_slower - num_one_launch,
                                               " of ", compared->num_compared, " rows")});
  // A complaint is for who runs the program; who reads the table finds the same sentence there.
  const auto add = [&](int64_t number, bool fails, std::string text, std::string_view advice) {
    if (number == 0) return;
    text += Join(": ", number, " rows", advice);
    compared->complaints.push_back({fails, text});
    text[0] = absl::ascii_toupper(text[0]);
    table->AddFinding(text + ".");
  };
  add(num_wide, false, "intervals too wide to show that a row is 10 % slower", "; measure longer");
  add(num_one_launch, false, Join("slower than ", there, " with one launch on a side"),
      "; launches may differ by as much, so measure with `--repeats`");
  add(num_vanished, true, Join("in ", there, ", but not here"), "");
  add(num_wrong, true, "wrong or unequal results", "");
  for (const std::string& warning : compared->summary.remarks) table->AddNote(warning + ".");
  for (const std::string& line : constants) table->AddNote(line);
  table->AddNote(
      "difference: of 20 % trimmed means, unpaired. In brackets: 95 % CI, which hold for all rows at once. "
      "If nothing changed, at most one comparison in twenty fails, as far as launches are known. A few steps "
      "that became much slower do not move a trimmed mean.");
  if (num_too_few > 0) table->AddNote("`n<10:cannot-fail`: fewer than 10 steps on a side; no verdict.");
}

}  // namespace

ComparedDirs CompareDirs(const std::vector<std::string>& here, const std::string& there) {
  ComparedDirs compared;
  Summary& summary = compared.summary;
  std::vector<GateRow> rows = ReadRows(here, there, &summary);
  const std::vector<std::string> constants = NameRows(&rows);
  std::vector<LooseComparison> family;
  for (const GateRow& row : rows) family.push_back(row.steps);
  const std::vector<Estimate> differences = EstimateLoose(family);
  TableOf<GateRow> table("regression", "Compared with " + there, Fields());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].difference = differences[i];
    rows[i].result = Judge(rows[i]);
    table.Add(rows[i]);
  }
  Annotate(rows, constants, there, &table, &compared);
  summary.report.header = {"# gradsync: comparison of results"};
  summary.report.tables.push_back(std::move(table));
  return compared;
}

}  // namespace gradsync::tools
