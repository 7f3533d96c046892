#include "tools/tables/compare_dirs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/error.h"
#include "tools/records/reader.h"
#include "tools/records/validity.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

// Flags that are about percentiles, which are not compared, or that the table says in its own way.
constexpr Flag kSilentFlags[] = {Flag::kTooFewForInterval, Flag::kTooFewForP95, Flag::kTooFewForP99,
                                 Flag::kOneLaunch};

enum class GateVerdict { kNotShown, kSlower, kFaster, kTooFew, kOnlyHere, kOnlyThere };

struct GateRow {
  std::set<FlagOfRow> flags;
  bool is_wrong_here = false;
  LooseComparison steps{};  // here, there
  Estimate difference{};    // as a part of there
  GateVerdict verdict = GateVerdict::kNotShown;

  bool has_one_launch() const { return steps.own.launches.size() == 1 || steps.base.launches.size() == 1; }
};

// By experiment and configuration, in the order in which they were first met.
class Rows {
 public:
  void Add(const Measurement& measurement, const Series& times, bool is_here) {
    Configuration configuration = ConfigurationOf(measurement.record);
    configuration["world_size"] = Join(measurement.world_size());
    auto key = std::make_pair(measurement.record.experiment, std::move(configuration));
    const auto [entry, is_new] = numbers_.try_emplace(std::move(key), rows_.size());
    if (is_new) {
      rows_.emplace_back();
      keys_.push_back(&entry->first);
    }
    GateRow& row = rows_[entry->second];
    LooseSample& sample = is_here ? row.steps.own : row.steps.base;
    sample.values.insert(sample.values.end(), times.max.begin(), times.max.end());
    sample.launches.push_back(times.max.size());
    for (const FlagOfRow& flag : FlagsOf({measurement, times})) {
      row.is_wrong_here |= is_here && (flag.flag == Flag::kWrong || flag.flag == Flag::kUnequal);
      if (std::ranges::count(kSilentFlags, flag.flag) == 0) row.flags.insert(flag);
    }
  }

  size_t size() const { return rows_.size(); }
  const GateRow& row(size_t i) const { return rows_[i]; }
  const std::string& experiment(size_t i) const { return keys_[i]->first; }

  // What tells the row from others of its experiment: "strategy=core batch_size=2".
  std::string Name(size_t i) const {
    std::string name;
    for (const auto& [field, value] : keys_[i]->second) {
      if (Varies(i, field)) name += Join(name.empty() ? "" : " ", field, "=", value);
    }
    return name.empty() ? "the only row" : name;
  }

  // What all rows of the row's experiment have in common.
  std::string Constants(size_t i) const {
    std::string text;
    for (const auto& [field, value] : keys_[i]->second) {
      if (!Varies(i, field)) text += Join(text.empty() ? "" : ", ", field, " ", value);
    }
    return text;
  }

  // Call once, when all rows are there. A row is slower, or faster, if its interval lies beyond the
  // threshold.
  void Finish(double threshold) {
    std::vector<LooseComparison> family;
    for (const GateRow& row : rows_) family.push_back(row.steps);
    const std::vector<Estimate> differences = EstimateLoose(family);
    for (size_t i = 0; i < size(); ++i) {
      rows_[i].difference = differences[i];
      rows_[i].verdict = VerdictOn(rows_[i], threshold);
    }
    for (size_t i = 0; i < size(); ++i) {
      for (const auto& [field, value] : keys_[i]->second) values_[{experiment(i), field}][value] += 1;
      num_rows_[experiment(i)] += 1;
    }
  }

 private:
  static GateVerdict VerdictOn(const GateRow& row, double threshold) {
    const size_t here = row.steps.own.values.size(), there = row.steps.base.values.size();
    if (there == 0) return GateVerdict::kOnlyHere;
    if (here == 0) return GateVerdict::kOnlyThere;
    if (std::min(here, there) < kFewestForInterval) return GateVerdict::kTooFew;
    if (row.difference.interval.low > threshold) return GateVerdict::kSlower;
    return row.difference.interval.high < -threshold ? GateVerdict::kFaster : GateVerdict::kNotShown;
  }

  bool Varies(size_t i, const std::string& field) const {
    const auto& counts = values_.at({experiment(i), field});
    return counts.size() > 1 || counts.begin()->second < num_rows_.at(experiment(i));
  }

  std::map<std::pair<std::string, Configuration>, size_t> numbers_;
  std::vector<const std::pair<std::string, Configuration>*> keys_;
  std::vector<GateRow> rows_;
  std::map<std::pair<std::string, std::string>, std::map<std::string, size_t>> values_;
  std::map<std::string, size_t> num_rows_;
};

// What may explain a difference, other than the program: values by name.
using Circumstances = std::map<std::string, std::set<std::string>>;

void NoteCircumstances(const bench::Record& record, Circumstances* all) {
  const bench::Provenance& provenance = record.provenance;
  (*all)["host"].insert(provenance.host);
  (*all)["processor"].insert(Join(provenance.cpu_count, " x ", provenance.cpu_model));
  (*all)["build"].insert(Join(provenance.build, ", ", provenance.compiler));
  (*all)["link"].insert(
      Join(record.link.StringOr("kind", "unknown"), " ", record.link.StringOr("interface", "")));
}

// "host differs: here a, there b and c"
std::vector<std::string> WarningsOf(const Circumstances& here, const Circumstances& there) {
  std::vector<std::string> warnings;
  for (const auto& [name, values] : here) {
    const auto other = there.find(name);
    if (other == there.end() || other->second == values) continue;
    warnings.push_back(Join("warning: ", name, " differs: here ", Listed({values.begin(), values.end()}),
                            ", there ", Listed({other->second.begin(), other->second.end()})));
  }
  return warnings;
}

int64_t Read(const std::vector<std::string>& inputs, bool is_here, Problems* problems, Rows* rows,
             Circumstances* circumstances) {
  const auto why_unusable = [&](const bench::Record& record) -> std::string {
    std::string reason = WhyUnusable(record);
    return reason.empty() && record.samples.empty() ? "no samples to compare" : reason;
  };
  const RecordSet records = ReadRecords(inputs, why_unusable, problems);
  for (const Group& group : records.groups) {
    for (const Measurement& measurement : group) {
      rows->Add(measurement, MainTimes(measurement), is_here);
      NoteCircumstances(measurement.record, circumstances);
    }
  }
  return records.num_records;
}

std::string VerdictText(GateVerdict verdict, double threshold) {
  switch (verdict) {
    case GateVerdict::kSlower:
      return "slower";
    case GateVerdict::kFaster:
      return "faster";
    case GateVerdict::kTooFew:
      return "too few steps";
    case GateVerdict::kOnlyHere:
      return "only here";
    case GateVerdict::kOnlyThere:
      return "only there";
    default:
      return threshold > 0 ? Join("no difference beyond ", 100 * threshold, " % shown")
                           : "no difference shown";
  }
}

Flags FlagsOfGate(const GateRow& row) {
  Flags flags(row.flags.begin(), row.flags.end());
  if (row.has_one_launch()) flags.push_back({Flag::kOneLaunch});
  if (row.verdict == GateVerdict::kTooFew)
    flags.insert(flags.begin(), {Flag::kTooFewForInterval, "cannot-fail"});
  return flags;
}

struct NumberedRow {
  const Rows& rows;
  size_t number = 0;
  double threshold = 0;

  const GateRow& row() const { return rows.row(number); }
};

std::vector<Field<NumberedRow>> Fields() {
  return {
      {{.name = "experiment", .kind = Kind::kText},
       [](const NumberedRow& row) { return row.rows.experiment(row.number); }},
      {{.name = "row", .kind = Kind::kText},
       [](const NumberedRow& row) { return row.rows.Name(row.number); }},
      {{.name = "here (s)"}, [](const NumberedRow& row) { return TrimmedMean(row.row().steps.own.values); }},
      {{.name = "there (s)"},
       [](const NumberedRow& row) { return TrimmedMean(row.row().steps.base.values); }},
      {{.name = "difference (%)", .kind = Kind::kPercent},
       [](const NumberedRow& row) { return Scaled(row.row().difference, 100); }},
      {{.name = "steps here", .kind = Kind::kInteger},
       [](const NumberedRow& row) { return row.row().steps.own.values.size(); }},
      {{.name = "steps there", .kind = Kind::kInteger},
       [](const NumberedRow& row) { return row.row().steps.base.values.size(); }},
      {{.name = "verdict", .kind = Kind::kText},
       [](const NumberedRow& row) { return VerdictText(row.row().verdict, row.threshold); }},
      {{.name = "flags", .kind = Kind::kText}, [](const NumberedRow& row) { return FlagsOfGate(row.row()); }},
  };
}

// Counts, and adds what the table needs to be understood.
void Annotate(const Rows& rows, double threshold, Table* table, Comparison* comparison) {
  int64_t num_faster = 0, num_too_few = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const GateRow& row = rows.row(i);
    const bool is_slower = row.verdict == GateVerdict::kSlower;
    comparison->num_slower += is_slower && !row.has_one_launch();
    comparison->num_one_launch += is_slower && row.has_one_launch();
    num_faster += row.verdict == GateVerdict::kFaster;
    num_too_few += row.verdict == GateVerdict::kTooFew;
    comparison->num_vanished += row.verdict == GateVerdict::kOnlyThere;
    comparison->num_matched +=
        row.verdict != GateVerdict::kOnlyHere && row.verdict != GateVerdict::kOnlyThere;
    comparison->num_wrong += row.is_wrong_here;
  }
  comparison->num_compared = comparison->num_matched - num_too_few;
  const int64_t num_slower = comparison->num_slower + comparison->num_one_launch;
  table->AddFinding(Join("Of ", comparison->num_compared, " rows compared, ", num_slower, " are slower and ",
                         num_faster, " are faster",
                         threshold > 0 ? Join(" by more than ", 100 * threshold, " %") : "",
                         ". Of the others no difference is shown."));
  if (comparison->num_vanished + comparison->num_wrong > 0) {
    table->AddFinding(Join("Rows that have vanished: ", comparison->num_vanished,
                           "; rows with wrong or unequal results: ", comparison->num_wrong, "."));
  }
  if (comparison->num_one_launch > 0) {
    table->AddFinding(Join("With one launch on a side ", comparison->num_one_launch,
                           " rows are slower. That may be the launch: measure with `--repeats`, or gate with "
                           "`--one_launch`."));
  }
  for (const std::string& warning : comparison->summary.remarks) table->AddNote(warning + ".");
  std::set<std::string> told;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (told.insert(rows.experiment(i)).second)
      table->AddNote(Join("All rows of ", rows.experiment(i), ": ", rows.Constants(i), "."));
  }
  table->AddNote(
      "difference: of 20 % trimmed means, unpaired, with a simultaneous 95 % CI of all rows: rows that are "
      "as they "
      "were fail a comparison in at most one case in twenty, as far as launches are known. A few steps that "
      "became "
      "much slower do not move a trimmed mean.");
  if (num_too_few > 0) table->AddNote("`n<10:cannot-fail`: fewer than 10 steps on a side; no verdict.");
}

}  // namespace

Comparison CompareDirs(const CompareOptions& options) {
  Comparison comparison;
  Rows rows;
  Summary& summary = comparison.summary;
  Circumstances here, there;
  summary.num_records = Read(options.here, true, &summary.problems, &rows, &here);
  Read({options.there}, false, &summary.problems, &rows, &there);
  summary.remarks = WarningsOf(here, there);
  rows.Finish(options.threshold);

  TableOf<NumberedRow> table("regression", "Compared with " + options.there, Fields());
  for (size_t i = 0; i < rows.size(); ++i) table.Add({rows, i, options.threshold});
  Annotate(rows, options.threshold, &table, &comparison);
  summary.report.header = {"# gradsync: comparison of results", ""};
  summary.report.tables.push_back(std::move(table));
  return comparison;
}

}  // namespace gradsync::tools
