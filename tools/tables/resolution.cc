#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

// How small a difference can be shown in how much time: from variants that are the baseline with a known
// delay (the fact delay_ns), in windows of rounds, each of which is estimated as if it were a run.
namespace gradsync::tools {
namespace {

constexpr double kMinutes[] = {1, 3, 10};

// The same delay in the same time, in all windows.
struct Outcome {
  std::string variant, baseline;
  double minutes = 0;
  size_t num_rounds = 0;
  double half_width = 0;                                  // mean, as a part of a step
  double delay = 0;                                       // likewise
  size_t num_intervals = 0, num_held = 0, num_shown = 0;  // the truth within; zero without
  bool is_extrapolated = false;
};

double Count(const Outcome& outcome, size_t Outcome::*count) {
  return outcome.num_intervals == 0 ? std::numeric_limits<double>::quiet_NaN()
                                    : static_cast<double>(outcome.*count);
}

double DelayOf(const Row& row) { return 1e-9 * row.facts().DoubleOr("delay_ns", 0); }

// Rounds of one launch, as if they were all there are.
Group WindowOf(const Cell& cell, size_t launch, size_t begin, size_t num_rounds) {
  Group group;
  for (const Row& row : cell.rows) {
    Measurement& window = group.emplace_back(*row.measured);
    size_t first = begin;
    for (size_t i = 0; i < launch; ++i) first += window.launches[i].num_steps;
    for (auto& [name, series] : window.series) {
      if (series.max.size() != window.num_steps) continue;
      series.max = {series.max.begin() + static_cast<std::ptrdiff_t>(first),
                    series.max.begin() + static_cast<std::ptrdiff_t>(first + num_rounds)};
    }
    window.num_steps = num_rounds;
    window.launches = {{window.launches[launch].run_id, num_rounds}};
  }
  return group;
}

using Outcomes = std::map<std::string, Outcome>;  // by variant

void Take(const Cell& window, Outcomes* outcomes) {
  for (const Row& row : window.rows) {
    const Interval& interval = row.against_baseline.interval;
    if (DelayOf(row) == 0 || row.baseline == Row::kNone || !interval.is_known()) continue;
    const Row& base = window.rows[row.baseline];
    Outcome& outcome = (*outcomes)[row.variant()];
    outcome.variant = row.variant();
    outcome.baseline = base.variant();
    const double truth = DelayOf(row) / base.step_s;
    outcome.half_width += (interval.high - interval.low) / 2;
    outcome.delay += truth;
    ++outcome.num_intervals;
    outcome.num_held += interval.low <= truth && truth <= interval.high;
    outcome.num_shown += interval.low > 0 || interval.high < 0;
  }
}

Outcomes InWindows(const Cell& cell, size_t num_rounds) {
  Outcomes outcomes;
  const std::vector<Launch>& launches = cell.any().measured->launches;
  for (size_t launch = 0; launch < launches.size(); ++launch) {
    for (size_t begin = 0; begin + num_rounds <= launches[launch].num_steps; begin += num_rounds) {
      const std::vector<Group> window = {WindowOf(cell, launch, begin, num_rounds)};
      Take(CellsOf(window, {})[0], &outcomes);
    }
  }
  for (auto& [variant, outcome] : outcomes) {
    outcome.half_width /= static_cast<double>(outcome.num_intervals);
    outcome.delay /= static_cast<double>(outcome.num_intervals);
  }
  return outcomes;
}

void AddOutcomes(const Cell& cell, std::vector<Outcome>* all) {
  size_t longest = 0;
  for (const Launch& launch : cell.any().measured->launches) longest = std::max(longest, launch.num_steps);
  for (const Row& row : cell.rows) {
    if (row.measured->launches != cell.any().measured->launches) return;  // interrupted
  }
  for (const double minutes : kMinutes) {
    const auto wanted = static_cast<size_t>(std::llround(60 * minutes / cell.round_s));
    const size_t num_rounds = std::min(wanted, longest);
    for (auto& [variant, outcome] : InWindows(cell, num_rounds)) {
      outcome.minutes = minutes;
      outcome.num_rounds = wanted;
      if (wanted > num_rounds) {
        outcome.half_width *= std::sqrt(static_cast<double>(num_rounds) / static_cast<double>(wanted));
        outcome.num_intervals = 0;
        outcome.is_extrapolated = true;
      }
      all->push_back(outcome);
    }
  }
}

std::string SentenceOf(const std::string& baseline, const std::vector<Outcome>& all) {
  std::map<double, std::pair<const Outcome*, double>> widest;  // by minutes
  size_t num_intervals = 0, num_held = 0;
  for (const Outcome& outcome : all) {
    if (outcome.baseline != baseline) continue;
    auto& [which, half_width] = widest[outcome.minutes];
    which = &outcome;
    half_width = std::max(half_width, outcome.half_width);
    num_intervals += outcome.num_intervals;
    num_held += outcome.is_extrapolated ? 0 : outcome.num_held;
  }
  std::vector<std::string> parts;
  for (const auto& [minutes, found] : widest) {
    parts.push_back(Join(found.first->is_extrapolated ? "about " : "", Fixed(100 * found.second, 1),
                         " % after ", DurationText(60 * minutes)));
  }
  std::string text = Join(baseline, ": a difference of steps is known to +- ", Listed(parts));
  if (num_intervals > 0)
    text += Join("; ", num_held, " of ", num_intervals, " intervals held the known delay");
  return text + ".";
}

}  // namespace

void AddResolutionTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  TableOf<Outcome> table(
      "resolution", "Known delays: how small a difference can be shown in how much time",
      {{{.name = "variant", .kind = Kind::kText}, &Outcome::variant},
       {{.name = "delay (%)", .digits = 2}, [](const Outcome& outcome) { return 100 * outcome.delay; }},
       {{.name = "minutes", .kind = Kind::kPlain}, &Outcome::minutes},
       {{.name = "rounds", .kind = Kind::kInteger}, &Outcome::num_rounds},
       {{.name = "half-width (%)", .digits = 2},
        [](const Outcome& outcome) { return 100 * outcome.half_width; }},
       {{.name = "intervals", .kind = Kind::kInteger}, &Outcome::num_intervals},
       {{.name = "held the delay", .kind = Kind::kInteger},
        [](const Outcome& outcome) { return Count(outcome, &Outcome::num_held); }},
       {{.name = "excluded 0", .kind = Kind::kInteger},
        [](const Outcome& outcome) { return Count(outcome, &Outcome::num_shown); }}});
  for (const Cell& cell : cells) {
    if (cell.num_rounds == 0 ||
        std::ranges::none_of(cell.rows, [](const Row& row) { return DelayOf(row) > 0; }))
      continue;
    std::vector<Outcome> all;
    AddOutcomes(cell, &all);
    std::ranges::stable_sort(
        all, {}, [](const Outcome& outcome) { return std::tuple(outcome.baseline, outcome.minutes); });
    std::vector<std::string> baselines;
    for (const Outcome& outcome : all) {
      table.Add(outcome);
      if (outcome.is_extrapolated) table.MarkLast("half-width (%)");
      if (std::ranges::count(baselines, outcome.baseline) == 0) baselines.push_back(outcome.baseline);
    }
    for (const std::string& baseline : baselines) table.AddFinding(SentenceOf(baseline, all));
  }
  if (table.num_rows() == 0) return;
  table.AddNote(
      "Each interval is of so many minutes of the records, with those of all variants that took turns. "
      "A delay in a hook may be hidden by communication: then a step is longer by less. * extrapolated from "
      "the "
      "longest launch, by the root of the rounds.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
