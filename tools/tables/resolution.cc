#include <algorithm>
#include <cmath>
#include <map>

#include "model/error.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/views.h"
#include "tools/tables/words.h"

// How small a difference can be shown in how much time: from variants that are the baseline with a known
// delay (the fact delay_ns), in samples of successive rounds, each of which is estimated as if it were a run.
namespace gradsync::tools {
namespace {

constexpr double kMinutes[] = {0, 1, 3, 10};  // 0: the shortest sample that has intervals
// A shorter delay is none, and makes two variants of what is the same.
constexpr double kShortestDelay = 10e-6;
// A run ends a little before its time.
constexpr double kLongEnough = 0.9;

// All variants with the same delay, in all samples of one length.
struct Outcome {
  std::string baseline;
  double minutes = 0;
  size_t num_rounds = 0;                                  // of each sample
  double delay_s = 0;                                     // 0: none
  double sum_of_half_widths = 0, sum_of_delays = 0;       // as parts of a step
  size_t num_intervals = 0, num_held = 0, num_shown = 0;  // the truth within; zero without
  bool is_extrapolated = false;

  double half_width() const { return 100 * sum_of_half_widths / static_cast<double>(num_intervals); }
  double delay() const { return 100 * sum_of_delays / static_cast<double>(num_intervals); }
  double Count(size_t Outcome::*count) const {
    return is_extrapolated ? kNaN : static_cast<double>(this->*count);
  }
};

double DelayOf(const Row& row) { return 1e-9 * row.facts().DoubleOr("delay_ns", 0); }

// Rounds of one launch, as if they were all there are.
Group WindowOf(const Cell& cell, size_t launch, size_t begin, size_t num_rounds) {
  Group group;
  for (const Row& row : cell.rows) {
    Measurement& window = group.emplace_back(*row.measured);
    size_t first = begin;
    for (size_t i = 0; i < launch; ++i) first += window.launches[i].num_steps;
    for (auto& [name, series] : window.series) {
      series.by_rank.clear();
      if (series.max.size() != window.num_steps) continue;
      series.max = {series.max.begin() + static_cast<std::ptrdiff_t>(first),
                    series.max.begin() + static_cast<std::ptrdiff_t>(first + num_rounds)};
    }
    window.num_steps = num_rounds;
    window.launches = {{window.launches[launch].run_id, num_rounds}};
  }
  return group;
}

using Outcomes = std::map<std::pair<std::string, double>, Outcome>;  // by baseline and delay

// Returns whether all intervals hold.
bool Take(const Cell& sample, Outcomes* outcomes) {
  bool all_hold = true;
  for (const Row& row : sample.rows) {
    const Interval& interval = row.against_baseline.interval;
    if (DelayOf(row) == 0 || row.baseline == Row::kNone || !interval.is_known()) continue;
    const Row& base = sample.rows[row.baseline];
    const double delay = DelayOf(row) < kShortestDelay ? 0 : DelayOf(row);
    Outcome& outcome = (*outcomes)[{base.variant(), delay}];
    outcome.baseline = base.variant();
    outcome.delay_s = delay;
    const double truth = delay / base.step_s;
    const bool holds = interval.low <= truth && truth <= interval.high;
    all_hold &= holds;
    outcome.sum_of_half_widths += interval.half_width();
    outcome.sum_of_delays += truth;
    ++outcome.num_intervals;
    outcome.num_held += holds;
    outcome.num_shown += interval.low > 0 || interval.high < 0;
  }
  return all_hold;
}

struct Samples {
  Outcomes outcomes{};
  size_t count = 0, num_that_hold = 0;  // in all their intervals
};

Samples InSamples(const Cell& cell, size_t num_rounds) {
  Samples samples;
  const std::vector<Launch>& launches = cell.any().measured->launches;
  for (size_t launch = 0; launch < launches.size(); ++launch) {
    for (size_t begin = 0; begin + num_rounds <= launches[launch].num_steps; begin += num_rounds) {
      const std::vector<Group> window = {WindowOf(cell, launch, begin, num_rounds)};
      samples.num_that_hold += Take(CellsOf(window)[0], &samples.outcomes);
      ++samples.count;
    }
  }
  return samples;
}

// By length of the samples. The shortest are whole blocks, and long enough for intervals.
void AddOutcomes(const Cell& cell, std::vector<Outcome>* all, std::string* coverage) {
  size_t longest = 0;
  for (const Launch& launch : cell.any().measured->launches) longest = std::max(longest, launch.num_steps);
  for (const Row& row : cell.rows) {
    if (row.measured->launches != cell.any().measured->launches) return;  // interrupted
  }
  const size_t block = RoundsPerBlock(cell);
  const size_t shortest = block * ((kFewestForInterval + block - 1) / block);
  const double seconds = cell.round_s;
  for (const double minutes : kMinutes) {
    const auto wanted = minutes == 0 ? shortest : static_cast<size_t>(std::llround(60 * minutes / seconds));
    const size_t num_rounds = std::min(wanted, longest);
    const bool is_extrapolated = kLongEnough * static_cast<double>(wanted) > static_cast<double>(num_rounds);
    if (num_rounds < kFewestForInterval || (minutes == 0 && is_extrapolated)) continue;
    const Samples samples = InSamples(cell, num_rounds);
    if (minutes == 0)
      *coverage = Join("All intervals of a sample of ", num_rounds, " rounds held at once in ",
                       samples.num_that_hold, " of ", samples.count, " samples.");
    for (auto [key, outcome] : samples.outcomes) {
      outcome.minutes = minutes == 0 ? static_cast<double>(shortest) * seconds / 60 : minutes;
      outcome.num_rounds = is_extrapolated ? wanted : num_rounds;
      outcome.is_extrapolated = is_extrapolated;
      if (is_extrapolated)
        outcome.sum_of_half_widths *=
            std::sqrt(static_cast<double>(num_rounds) / static_cast<double>(wanted));
      all->push_back(outcome);
    }
  }
}

}  // namespace

void AddResolutionTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  const auto count = [](size_t Outcome::*which) {
    return [which](const Outcome& outcome) { return outcome.Count(which); };
  };
  TableOf<Outcome> table("resolution", "Known delays: how small a difference can be shown in how much time",
                         {{{.name = "baseline", .said_once = true}, &Outcome::baseline},
                          {{.name = "minutes", .kind = Kind::kFraction}, &Outcome::minutes},
                          {{.name = "rounds"}, &Outcome::num_rounds},
                          {{.name = "delay (%)", .digits = 2}, &Outcome::delay},
                          {{.name = "half-width (%)", .digits = 2}, &Outcome::half_width},
                          {{.name = "intervals", .kind = Kind::kInteger}, count(&Outcome::num_intervals)},
                          {{.name = "held the delay", .kind = Kind::kInteger}, count(&Outcome::num_held)},
                          {{.name = "excluded 0", .kind = Kind::kInteger}, count(&Outcome::num_shown)}});
  for (const Cell& cell : cells) {
    if (cell.num_rounds == 0 ||
        std::ranges::none_of(cell.rows, [](const Row& row) { return DelayOf(row) > 0; }))
      continue;
    std::vector<Outcome> all;
    std::string coverage;
    AddOutcomes(cell, &all, &coverage);
    for (const Outcome& outcome : all) {
      table.Add(outcome);
      if (outcome.is_extrapolated) table.MarkLast("half-width (%)");
    }
    if (!coverage.empty()) table.AddFinding(coverage);
  }
  if (table.num_rows() == 0) return;
  table.AddNote(
      "Each interval is of successive rounds of one launch: as many as fit into so many minutes, in whole "
      "blocks of ten rounds or more. The intervals of all variants hold at once. half-width: half of their "
      "mean width. * extrapolated from the longest launch: widths fall with the root of the rounds.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
