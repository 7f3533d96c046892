#include "tools/tables/compare_dirs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/error.h"
#include "tools/records/reader.h"
#include "tools/records/validity.h"
#include "tools/statistics/regression.h"
#include "tools/tables/builder.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

// What two runs of one configuration may have different.
const std::vector<std::string_view> kFreeFields = {"placement",    "seed",       "steps",
                                                   "warmup_steps", "iterations", "warmup_iterations"};
// Flags that are about percentiles, which are not compared, or that the table says in its own way.
constexpr Flag kSilentFlags[] = {Flag::kTooFewForInterval, Flag::kTooFewForP95, Flag::kTooFewForP99,
                                 Flag::kOneLaunch};

struct Row {
  std::set<FlagOfRow> flags;
  bool is_wrong_here = false;
};

// By experiment and configuration, in the order in which they were first met.
class Rows {
 public:
  void Add(const Measurement& measurement, const Series& times, bool is_here) {
    Configuration configuration = ConfigurationOf(measurement.record, kFreeFields);
    configuration["world_size"] = Join(measurement.world_size());
    auto key = std::make_pair(measurement.record.experiment, std::move(configuration));
    const auto [entry, is_new] = numbers_.try_emplace(std::move(key), rows_.size());
    if (is_new) {
      rows_.emplace_back();
      samples_.emplace_back();
      keys_.push_back(&entry->first);
    }
    Row& row = rows_[entry->second];
    ComparedSamples& both = samples_[entry->second];
    std::vector<double>& samples = is_here ? both.sample : both.baseline;
    samples.insert(samples.end(), times.max.begin(), times.max.end());
    (is_here ? both.launches : both.baseline_launches).push_back(times.max.size());
    for (const FlagOfRow& flag : FlagsOf({measurement, times})) {
      row.is_wrong_here |= is_here && (flag.flag == Flag::kWrong || flag.flag == Flag::kUnequal);
      if (std::ranges::count(kSilentFlags, flag.flag) == 0) row.flags.insert(flag);
    }
  }

  size_t size() const { return rows_.size(); }
  const Row& row(size_t i) const { return rows_[i]; }
  const std::string& experiment(size_t i) const { return keys_[i]->first; }

  const std::vector<ComparedSamples>& samples() const { return samples_; }

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

  // Call once, when all rows are there.
  void Finish() {
    for (size_t i = 0; i < size(); ++i) {
      for (const auto& [field, value] : keys_[i]->second) values_[{experiment(i), field}][value] += 1;
      num_rows_[experiment(i)] += 1;
    }
  }

 private:
  bool Varies(size_t i, const std::string& field) const {
    const auto& counts = values_.at({experiment(i), field});
    return counts.size() > 1 || counts.begin()->second < num_rows_.at(experiment(i));
  }

  std::map<std::pair<std::string, Configuration>, size_t> numbers_;
  std::vector<const std::pair<std::string, Configuration>*> keys_;
  std::vector<Row> rows_;
  std::vector<ComparedSamples> samples_;  // of each row
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

int64_t Read(const std::vector<std::string>& inputs, bool is_here, const TableBuilders& builders,
             Problems* problems, Rows* rows, Circumstances* circumstances) {
  const auto why_unusable = [&](const bench::Record& record) -> std::string {
    std::string reason = WhyUnusable(builders, record);
    return reason.empty() && record.samples.empty() ? "no samples to compare" : reason;
  };
  const RecordSet records = ReadRecords(inputs, why_unusable, problems);
  for (const Group& group : records.groups) {
    for (const Measurement& measurement : group) {
      // The whole step where there is one: a part of it may become slower to the good of another.
      const Series* step = measurement.Find("step_ns");
      const Series* main = measurement.Find(MainSamples(builders, measurement.record));
      rows->Add(measurement, step == nullptr ? *main : *step, is_here);
      NoteCircumstances(measurement.record, circumstances);
    }
  }
  return records.num_records;
}

std::string VerdictText(Verdict verdict, double threshold) {
  switch (verdict) {
    case Verdict::kSlower:
      return "slower";
    case Verdict::kFaster:
      return "faster";
    case Verdict::kTooFew:
      return "too few steps";
    case Verdict::kOnlyHere:
      return "only here";
    case Verdict::kOnlyThere:
      return "only there";
    default:
      return threshold > 0 ? Join("no difference beyond ", 100 * threshold, " % shown")
                           : "no difference shown";
  }
}

// A row with what is made of it.
struct JudgedRow {
  const Rows& rows;
  size_t number = 0;
  const Judgement& judgement;
  double threshold = 0;

  const std::vector<double>& here() const { return rows.samples()[number].sample; }
  const std::vector<double>& there() const { return rows.samples()[number].baseline; }
  Flags flags() const {
    Flags flags(rows.row(number).flags.begin(), rows.row(number).flags.end());
    const ComparedSamples& samples = rows.samples()[number];
    if (samples.launches.size() == 1 || samples.baseline_launches.size() == 1) {
      flags.push_back({Flag::kOneLaunch});
    }
    if (judgement.verdict == Verdict::kTooFew) {
      flags.insert(flags.begin(), {Flag::kTooFewForInterval, "cannot-fail"});
    }
    return flags;
  }
};

std::vector<Field<JudgedRow>> Fields() {
  return {
      {{.name = "experiment", .kind = Kind::kText},
       [](const JudgedRow& row) { return row.rows.experiment(row.number); }},
      {{.name = "row", .kind = Kind::kText}, [](const JudgedRow& row) { return row.rows.Name(row.number); }},
      {{.name = "mean here (s)"}, [](const JudgedRow& row) { return Mean(row.here()); }},
      {{.name = "mean there (s)"}, [](const JudgedRow& row) { return Mean(row.there()); }},
      {{.name = "difference (%)", .kind = Kind::kPercent},
       [](const JudgedRow& row) { return 100 * row.judgement.difference; }},
      {{.name = "ci95_low (%)", .kind = Kind::kPercent, .interval_name = "95 % CI (%)"},
       [](const JudgedRow& row) { return 100 * row.judgement.interval.low; }},
      {{.name = "ci95_high (%)", .kind = Kind::kPercent, .audience = Audience::kMachines},
       [](const JudgedRow& row) { return 100 * row.judgement.interval.high; }},
      {{.name = "steps here", .kind = Kind::kInteger},
       [](const JudgedRow& row) { return row.here().size(); }},
      {{.name = "steps there", .kind = Kind::kInteger},
       [](const JudgedRow& row) { return row.there().size(); }},
      {{.name = "verdict", .kind = Kind::kText},
       [](const JudgedRow& row) { return VerdictText(row.judgement.verdict, row.threshold); }},
      {{.name = "flags", .kind = Kind::kText}, &JudgedRow::flags},
  };
}

// Counts, and adds what the table needs to be understood.
void Annotate(const Rows& rows, const std::vector<Judgement>& judgements, double threshold, Table* table,
              Comparison* comparison) {
  int64_t num_faster = 0;
  bool has_too_few = false;
  for (const Judgement& judgement : judgements) {
    comparison->num_slower += judgement.verdict == Verdict::kSlower;
    comparison->num_vanished += judgement.verdict == Verdict::kOnlyThere;
    num_faster += judgement.verdict == Verdict::kFaster;
    const bool is_too_few = judgement.verdict == Verdict::kTooFew;
    const bool is_matched =
        judgement.verdict != Verdict::kOnlyHere && judgement.verdict != Verdict::kOnlyThere;
    has_too_few |= is_too_few;
    comparison->num_matched += is_matched;
    comparison->num_compared += is_matched && !is_too_few;
  }
  table->AddFinding(Join("Of ", comparison->num_compared, " rows compared, ", comparison->num_slower,
                         " are slower and ", num_faster, " are faster",
                         threshold > 0 ? Join(" by more than ", 100 * threshold, " %") : "",
                         "; about the others these data decide nothing."));
  for (size_t i = 0; i < rows.size(); ++i) comparison->num_wrong += rows.row(i).is_wrong_here;
  if (comparison->num_vanished + comparison->num_wrong > 0) {
    table->AddFinding(Join("Rows that have vanished: ", comparison->num_vanished,
                           "; rows with wrong or unequal results: ", comparison->num_wrong, "."));
  }
  for (const std::string& warning : comparison->summary.remarks) table->AddNote(warning + ".");
  std::set<std::string> told;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (told.insert(rows.experiment(i)).second)
      table->AddNote(Join("All rows of ", rows.experiment(i), ": ", rows.Constants(i), "."));
  }
  table->AddNote(
      "A row is slower or faster if its interval (bootstrap, unpaired) lies beyond the threshold. The "
      "intervals of "
      "all rows hold at once (max-|t|), so that rows that are as they were fail a comparison in at most one "
      "case "
      "in twenty, however many they are.");
  table->AddNote(
      "What varies from one launch to the next is in the intervals only if several are in each directory: "
      "launches are resampled, and steps within them. --threshold leaves room for it.");
  if (has_too_few) table->AddNote("`n<10:cannot-fail`: fewer than 10 steps on a side; no verdict.");
}

}  // namespace

Comparison CompareDirs(const CompareOptions& options) {
  Comparison comparison;
  const TableBuilders builders = MakeTableBuilders({});
  Rows rows;
  Summary& summary = comparison.summary;
  Circumstances here, there;
  summary.num_records = Read(options.here, true, builders, &summary.problems, &rows, &here);
  Read({options.there}, false, builders, &summary.problems, &rows, &there);
  summary.remarks = WarningsOf(here, there);
  rows.Finish();

  GateOptions gate;
  gate.threshold = options.threshold;
  if (options.resamples) gate.bootstrap.resamples = *options.resamples;
  const std::vector<Judgement> judgements = JudgeRows(rows.samples(), gate);
  TableOf<JudgedRow> table("regression", "Compared with " + options.there, Fields());
  for (size_t i = 0; i < rows.size(); ++i) {
    table.Add({rows, i, judgements[i], options.threshold});
  }
  Annotate(rows, judgements, options.threshold, &table, &comparison);
  summary.report.header = {"# gradsync: comparison of results", ""};
  summary.report.tables.push_back(std::move(table));
  return comparison;
}

}  // namespace gradsync::tools
