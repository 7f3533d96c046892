#include "tools/tables/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "bench/records/rounds.h"
#include "model/base/error.h"
#include "model/base/text.h"

namespace gradsync::tools {
namespace {

// The row that is most like `row` among those that `is_candidate`: over its backend, at its size. A floor
// that clips as `row` does comes before all others.
template <class IsCandidate>
size_t MostLike(const std::vector<Row>& rows, const Row& row, const IsCandidate& is_candidate) {
  const auto clips_to = [](const Row& any) { return any.option("clip_norm"); };
  size_t best = Row::kNone;
  int most = -1;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!is_candidate(rows[i])) continue;
    const int alike =
        8 * (rows[i].is_floor() && clips_to(rows[i]) == clips_to(row)) +
        4 * (rows[i].backend() == row.backend()) +
        2 * (LabelOf(*rows[i].measured) == LabelOf(*row.measured)) +
        (rows[i].facts().DoubleOr("bucket_bytes", kNaN) == row.facts().DoubleOr("bucket_bytes", kNaN));
    if (alike > most) {
      most = alike;
      best = i;
    }
  }
  return best;
}

void FindBaselines(std::string_view wanted, Cell* cell) {
  const auto is_it = [&](const Row& row) { return row.is_called(wanted); };
  const auto competes = [](const Row& row) { return !row.is_floor() && !row.is_peer(); };
  const bool has_it = std::ranges::any_of(cell->rows, is_it);
  const bool is_variant =
      std::ranges::any_of(cell->rows, [&](const Row& row) { return row.variant() == wanted; });
  const auto first = std::ranges::find_if(cell->rows, competes);
  const auto is_like_first = [&](const Row& row) {
    return row.strategy().empty() ? &row == &*first : row.strategy() == first->strategy();
  };
  for (Row& row : cell->rows) {
    row.floor = MostLike(cell->rows, row, [&](const Row& other) {
      return other.is_floor() && other.strategy() == row.measured->floor();
    });
    if (!competes(row) && !is_it(row)) continue;
    row.baseline = MostLike(cell->rows, row, [&](const Row& other) {
      // A strategy is the baseline over its own backend alone: between backends the difference would be
      // theirs.
      const bool is_here = is_variant || row.strategy().empty() || other.backend() == row.backend();
      return is_here && (has_it ? is_it(other) : is_like_first(other));
    });
  }
  std::map<size_t, std::set<std::string>> backends;  // with their options, by baseline
  for (const Row& row : cell->rows) {
    if (row.backend() != bench::kNoBackend)
      backends[row.baseline].insert(row.measured->record.variant.over());
  }
  for (Row& row : cell->rows)
    row.spans_backends = row.baseline != Row::kNone && backends[row.baseline].size() > 1;
}

// Why no winner can be named.
constexpr Flag kVoid[] = {Flag::kWorldOfOne, Flag::kSharedGpu,         Flag::kSharedCpu, Flag::kTraced,
                          Flag::kInBlocks,   Flag::kTooFewForInterval, Flag::kPublished};

std::string VoidReasonOf(const Cell& cell) {
  for (const Flag flag : kVoid) {
    for (const Row& row : cell.rows) {
      if (Has(row.flags, flag)) return Join("`", WordOf(flag), "`: ", ExplanationOf(flag));
    }
  }
  return "";
}

// A wrong result takes no part.
bool IsRight(const Row& row) { return !Has(row.flags, Flag::kUnequal) && !Has(row.flags, Flag::kWrong); }

// Others took so much of the processors that nobody knows what of a difference is theirs.
constexpr double kTooDisturbed = 0.1;

std::string WhyNoVerdict(const Row& row) {
  const bool is_disturbed = OthersShare(*row.measured, MainTimes(*row.measured)) >= kTooDisturbed;
  Flags flags = row.flags;
  std::erase_if(flags, [&](const FlagOfRow& flag) {
    return flag.flag != Flag::kRanksMissing && !(is_disturbed && flag.flag == Flag::kDisturbed);
  });
  return TextOf(flags);
}

void Conclude(Cell* cell) {
  cell->void_reason = VoidReasonOf(*cell);
  for (Row& row : cell->rows) row.no_verdict = WhyNoVerdict(row);
  for (size_t i = 0; i < cell->rows.size(); ++i) {
    Row& row = cell->rows[i];
    if (!cell->void_reason.empty()) row.against_baseline.interval = row.cost.total.interval = {};
    if (row.no_verdict.empty() && row.floor != Row::kNone && cell->rows[row.floor].no_verdict.empty())
      row.told_cost = row.cost.total;
    if (row.baseline == Row::kNone) continue;
    const Row& base = cell->rows[row.baseline];
    if (std::isnan(row.against_baseline.value)) row.against_baseline.value = row.step_s / base.step_s - 1;
    SetVerdict(base, &row);
  }
  std::map<size_t, std::vector<const Row*>> rivals;  // by baseline
  for (size_t i = 0; i < cell->rows.size(); ++i) {
    const Row& row = cell->rows[i];
    if (IsRight(row) && row.no_verdict.empty() && (row.baseline == i || row.verdict != Verdict::kNone))
      rivals[row.baseline].push_back(&row);
  }
  for (const auto& [base, rows] : rivals) {
    const std::vector<std::vector<double>> leads = LeadsOf(*cell, rows);
    for (size_t k = 0; k < rows.size(); ++k)
      cell->rows[static_cast<size_t>(rows[k] - cell->rows.data())].may_be_fastest =
          rows.size() > 1 && cell->takes_turns() && MayBeFastest(leads[k]);
  }
}

// The bus bandwidth of a vector's collective; in training, what a rank sends over the time in which it sends.
double BusBandwidthOf(const Measurement& measurement) {
  const bench::Record& record = measurement.record;
  // What is sent once in several steps is not in the time of each.
  if (measurement.is_floor() || record.facts.IntOr("period", 1) > 1) return kNaN;
  if (const Series* const times = measurement.Find("time_ns")) {
    const double in_flight = static_cast<double>(measurement.record.config.IntOr("in_flight", 1));
    return BusBandwidth(in_flight * ConfigNumber(measurement, "size_bytes"), TypicalOf(times),
                        measurement.world_size(), record.config.StringOr("collective", "all_reduce"));
  }
  const Series* const busy = measurement.Find("comm_busy_ns");
  const double sent = record.facts.DoubleOr("sent_bytes_per_step", kNaN);
  if (sent > 0 && busy != nullptr && busy->mean() > 0) return sent / busy->mean();
  // Where communication itself was not timed, a strategy that waits for all of it spends at least that long.
  const bool waits = record.facts.Find("overlaps") != nullptr && !record.facts.BoolOr("overlaps", true);
  const Series* const exposed = waits ? measurement.Find(kExposed) : nullptr;
  return exposed == nullptr ? kNaN
                            : BusBandwidth(record.facts.DoubleOr("gradient_bytes", kNaN), exposed->mean(),
                                           measurement.world_size());
}

}  // namespace

Verdict VerdictOf(const Interval& interval) {
  if (!interval.is_known()) return Verdict::kNone;
  if (interval.low > 0) return Verdict::kSlower;
  if (interval.high < 0) return Verdict::kFaster;
  return interval.low > -kEqualWithin && interval.high < kEqualWithin ? Verdict::kEqual : Verdict::kOpen;
}

void SetVerdict(const Row& base, Row* row) {
  if (row->no_verdict.empty() && !base.no_verdict.empty())
    row->no_verdict = Join(base.label(), " ", base.no_verdict);
  if (IsRight(*row) && IsRight(base) && row->no_verdict.empty())
    row->verdict = VerdictOf(row->against_baseline.interval);
}

std::string_view WordOf(Verdict verdict) {
  constexpr std::string_view kWords[] = {"", "slower", "faster", "equal", "open"};
  return kWords[static_cast<size_t>(verdict)];
}

double Row::MeanOf(SampleName samples) const {
  const Series* const series = measured->Find(samples);
  return series == nullptr ? kNaN : series->mean();
}

SampleName StepSamples(const Measurement& measurement) {
  return measurement.Find("time_ns") == nullptr ? SampleName("step_ns") : "time_ns";
}

const Series& MainTimes(const Measurement& measurement) {
  if (const Series* const series = measurement.Find(StepSamples(measurement))) return *series;
  return measurement.series.begin()->second;  // of published phases
}

double TypicalOf(const Series* series) {
  if (series == nullptr) return kNaN;
  return series->published ? series->published->mean : TrimmedMean(series->max);
}

double LabelOf(const Measurement& measurement) {
  const bench::Variant& variant = measurement.record.variant;
  return variant.NumberOr("bucket_elements", variant.NumberOr("published_size", 0));
}

double ConfigNumber(const Measurement& measurement, bench::ConfigName name) {
  return measurement.record.config.DoubleOr(name, kNaN);
}

size_t RoundsPerBlock(const Cell& cell) {
  return static_cast<size_t>(bench::RoundsPerBlock(std::ssize(cell.rows)));
}

double PrecisionOf(const Cell& cell) {
  double widest = kNaN;
  for (size_t i = 0; i < cell.rows.size(); ++i) {
    const Row& row = cell.rows[i];
    const size_t base = row.baseline != Row::kNone ? row.baseline : row.floor;
    if (base == Row::kNone) continue;
    for (const auto& [other, estimate] :
         {std::pair(row.baseline, row.against_baseline),
          std::pair(row.floor, Scaled(row.cost.total, 1 / cell.rows[base].step_s))}) {
      if (other == i || other == Row::kNone) continue;
      const double half_width = estimate.interval.half_width();
      if (std::isnan(half_width)) return kNaN;
      widest = std::fmax(widest, half_width);
    }
  }
  return widest;
}

namespace {

Cell CellOf(const Group& group, std::string_view baseline_row) {
  const bench::Record& record = group.front().record;
  Cell cell{.experiment = record.experiment};
  for (const Measurement& measurement : group) {
    cell.rows.push_back({.measured = &measurement});
  }
  FindBaselines(baseline_row, &cell);
  for (Row& row : cell.rows) {
    row.step_s = TypicalOf(row.measured->Find(StepSamples(*row.measured)));
    const Measurement* const base = row.baseline == Row::kNone ? nullptr : cell.rows[row.baseline].measured;
    row.bus_bytes_per_second = BusBandwidthOf(*row.measured);
    row.flags = FlagsOf({*row.measured, MainTimes(*row.measured), row.bus_bytes_per_second, base});
  }
  if (record.config.StringOr("order", "") == "interleaved") EstimateInTurn(&cell);
  Conclude(&cell);
  return cell;
}

}  // namespace

void NameCells(std::vector<Cell>* cells) {
  constexpr std::pair<const char*, const char*> kWords[] = {{"collective", ""},
                                                            {"link_rate", ""},
                                                            {"model", ""},
                                                            {"batch_size", "batch "},
                                                            {"accumulation_steps", "accumulation "},
                                                            {"seq_len", "sequence "},
                                                            {"image_size", "images of "},
                                                            {"size_bytes", ""},
                                                            {"device", ""},
                                                            {"dtype", ""},
                                                            {"op", ""},
                                                            {"threads_per_rank", "threads "},
                                                            {"ranks", ""}};
  std::map<std::string, std::map<std::string, std::set<std::string>>> values;  // by experiment and field
  std::vector<Configuration> configurations;
  for (const Cell& cell : *cells) {
    Configuration& own = configurations.emplace_back(ConfigurationOf(cell.any().measured->record));
    own["ranks"] = RankCount(cell.any().measured->world_size());
    const double rate = ConfigNumber(*cell.any().measured, "link_rate");
    own["link_rate"] = std::isnan(rate) ? "no link" : RateText(rate);
    if (const int64_t size_bytes = cell.any().config().IntOr("size_bytes", 0); size_bytes > 0)
      own["size_bytes"] = SizeText(size_bytes);
    for (const auto& [field, word] : kWords) values[cell.experiment][field].insert(own[field]);
  }
  std::map<std::pair<std::string, std::string>, size_t> namesakes;
  for (size_t i = 0; i < cells->size(); ++i) {
    Cell& cell = (*cells)[i];
    std::vector<std::string> parts;
    for (const auto& [field, word] : kWords) {
      const std::string& value = configurations[i][field];
      if (values[cell.experiment][field].size() > 1 && !value.empty()) parts.push_back(Join(word, value));
    }
    cell.name = absl::StrJoin(parts, ", ");
    ++namesakes[{cell.experiment, cell.name}];
  }
  for (Cell& cell : *cells) {
    if (namesakes[{cell.experiment, cell.name}] < 2) continue;
    cell.name += Join(cell.name.empty() ? "" : ", ", "run ", cell.any().measured->record.run_id);
  }
}

std::vector<Cell> CellsOf(const std::vector<Group>& groups, std::string_view baseline_row) {
  std::vector<Cell> cells;
  for (const Group& group : groups) cells.push_back(CellOf(group, baseline_row));
  NameCells(&cells);
  return cells;
}

}  // namespace gradsync::tools
