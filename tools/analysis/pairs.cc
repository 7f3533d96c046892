#include "tools/analysis/pairs.h"

#include <algorithm>
#include <numeric>

namespace gradsync::tools {
namespace {

// The part of the error probability that a choosing launch has. The launches that it chooses rows for have
// the rest, so all intervals are correct together (Bonferroni).
constexpr double kChoosing = 0.2;

using ByRound = std::vector<double>;  // NaN if the variant has no step in the round

// The rounds of a setting, launch after launch.
struct Rounds {
  std::vector<std::string> run_ids;
  std::vector<size_t> launches;  // number of rounds of each launch

  size_t count() const { return std::accumulate(launches.begin(), launches.end(), size_t{0}); }
};

Rounds RoundsOf(const Setting& setting) {
  Rounds rounds;
  for (const Row& row : setting.rows) {
    if (row.left_early) continue;
    for (const Launch& launch : row.measured->launches) {
      const auto found = std::ranges::find(rounds.run_ids, launch.run_id);
      const auto number = static_cast<size_t>(found - rounds.run_ids.begin());
      if (found == rounds.run_ids.end()) {
        rounds.run_ids.push_back(launch.run_id);
        rounds.launches.push_back(0);
      }
      rounds.launches[number] = std::max(rounds.launches[number], launch.num_steps);
    }
  }
  return rounds;
}

// Returns the samples by round. Step i belongs to round i. An interrupted launch has fewer steps of some
// variants. A row that left early has no steps in the rounds of the later launches.
ByRound InRounds(const Measurement& measurement, SampleName samples, const Rounds& rounds) {
  ByRound values(rounds.count(), kNaN);
  const Series* const series = measurement.Find(samples);
  if (series == nullptr || series->published) return values;
  size_t from = 0;
  for (const Launch& launch : measurement.launches) {
    if (std::ranges::count(rounds.run_ids, launch.run_id) == 0) continue;
    size_t begin = 0;
    for (size_t i = 0; rounds.run_ids[i] != launch.run_id; ++i) begin += rounds.launches[i];
    std::copy_n(series->max.begin() + static_cast<std::ptrdiff_t>(from), launch.num_steps,
                values.begin() + static_cast<std::ptrdiff_t>(begin));
    from += launch.num_steps;
  }
  return values;
}

// Returns the time of a round, including untimed work between steps.
double SecondsPerRound(const Setting& setting) {
  const Measurement& any = *setting.any().measured;
  const size_t num_rounds = any.launches.front().num_steps;
  if (const Series* const begins = any.Find("begin_ns"); begins != nullptr && num_rounds > 1)
    return (begins->max[num_rounds - 1] - begins->max[0]) / static_cast<double>(num_rounds - 1);
  double seconds = 0;
  for (const Row& row : setting.rows)
    seconds += row.left_early ? 0
                              : static_cast<double>(row.measured->turn_steps()) *
                                    TypicalTime(row.measured->Find("step_ns"));
  return seconds;
}

// Returns how much smaller a floor's trimmed mean is if the floor is sampled like a row with a period: as the
// maximum over ranks of the mean over several steps. These are the steps of consecutive rounds. After the
// last round of a launch, its first rounds follow.
double LessInPeriods(const Measurement& floor, SampleName samples, int64_t period) {
  const Series* const series = floor.Find(samples);
  if (series == nullptr || series->by_rank.empty() || period < 2) return 0;
  std::vector<double> less;
  for (const Launch& launch : floor.launches) {
    const size_t begin = less.size();
    for (size_t i = 0; i < launch.num_steps; ++i) {
      double longest = 0;
      for (const std::vector<double>& steps : series->by_rank) {
        double sum = 0;
        for (int64_t after = 1; after <= period; ++after)
          sum += steps[begin + (i + static_cast<size_t>(after)) % launch.num_steps];
        longest = std::max(longest, sum / static_cast<double>(period));
      }
      less.push_back(series->max[begin + i] - longest);
    }
  }
  return TrimmedMean(less);
}

ByRound Minus(const ByRound& a, const ByRound& b) {
  ByRound difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

// Returns how much longer the row's times are than the floor's times, for these samples.
ByRound OverFloor(const Cost& cost, const ByRound& own, SampleName samples, const Rounds& rounds) {
  const Measurement& floor = *cost.floor->measured;
  ByRound difference = Minus(own, InRounds(floor, samples, rounds));
  const double less = LessInPeriods(floor, samples, cost.row->facts().IntOr("period", 1));
  for (double& value : difference) value += less;
  return difference;
}

void EstimateCosts(const Rounds& rounds, Setting* setting) {
  std::vector<RoundDifferences> totals, parts;
  std::vector<Cost*> owners;
  for (Cost& cost : setting->costs) {
    if (cost.row == cost.floor) continue;
    const Measurement& measured = *cost.row->measured;
    const auto of = [&](SampleName samples) { return InRounds(measured, samples, rounds); };
    const auto against_floor = [&](SampleName samples) {
      return OverFloor(cost, of(samples), samples, rounds);
    };
    const ByRound total = against_floor(StepSamples(measured)), worked = of(kWorked);
    const ByRound exposed = Minus(of(kAveraged), worked), own = Minus(worked, of(kComputed));
    const ByRound tax = against_floor(kComputed);
    const ByRound rest = Minus(Minus(Minus(total, exposed), own), tax);
    totals.push_back({.values = total, .base = cost.floor});
    for (const ByRound& part : {exposed, tax, own, rest}) parts.push_back({part, {}, total});
    owners.push_back(&cost);
  }
  const std::vector<Estimate> of_totals = EstimateRounds(totals, rounds.launches, setting->confidence);
  const std::vector<Estimate> of_parts = EstimateRounds(parts, rounds.launches, setting->confidence);
  for (size_t k = 0; k < owners.size(); ++k) {
    owners[k]->total = of_totals[k];
    for (size_t part = 0; part < std::size(kCostParts); ++part)
      owners[k]->*kCostParts[part] = of_parts[k * std::size(kCostParts) + part].value;
  }
}

// Pairs all rows with their baselines.
RowPairs PairsOf(const Setting& setting) {
  RowPairs pairs;
  for (const Comparison& comparison : setting.comparisons) {
    if (!comparison.is_of_baseline()) pairs.push_back({comparison.row, comparison.base});
  }
  return pairs;
}

std::vector<RoundDifferences> FamilyOf(const RowPairs& pairs, const Rounds& rounds) {
  std::vector<RoundDifferences> family;
  for (const RowPair& pair : pairs) {
    const auto steps = [&](const Row* row) {
      return InRounds(*row->measured, StepSamples(*row->measured), rounds);
    };
    family.push_back({.values = Minus(steps(pair.own), steps(pair.base)),
                      .divisors = steps(pair.base),
                      .base = pair.base});
  }
  return family;
}

void CompareWithBaselines(Setting* setting) {
  const std::vector<Estimate> estimates = CompareSteps(*setting, PairsOf(*setting));
  auto next = estimates.begin();
  for (Comparison& comparison : setting->comparisons) {
    if (!comparison.is_of_baseline()) comparison.estimate = *next++;
  }
}

}  // namespace

void EstimateInTurn(Setting* setting) {
  const Rounds rounds = RoundsOf(*setting);
  setting->round_s = SecondsPerRound(*setting);
  setting->num_rounds = rounds.count();
  setting->num_launches = rounds.launches.size();
  // The run checks its precision after each launch, from the second launch on.
  const Measurement& measured = *setting->any().measured;
  const bench::Record& record = measured.record;
  if (record.config.DoubleOr("precision", 0) > 0)
    setting->num_looks = static_cast<size_t>(std::max<int64_t>(2, record.facts.IntOr("launches", 2)) - 1);
  if (const Stage stage = measured.stage(); stage != Stage::kNone)
    setting->confidence.chance *= stage == Stage::kChoosing ? kChoosing : 1 - kChoosing;
  setting->confidence.chance /= static_cast<double>(setting->num_looks);
  CompareWithBaselines(setting);
  EstimateCosts(rounds, setting);
}

std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs) {
  std::vector<Estimate> estimates;
  if (!setting.takes_turns()) {
    for (const RowPair& pair : pairs) estimates.push_back({pair.own->step_s / pair.base->step_s - 1});
    return estimates;
  }
  const Rounds rounds = RoundsOf(setting);
  estimates = EstimateRounds(FamilyOf(pairs, rounds), rounds.launches, setting.confidence);
  // A step cannot be shorter than nothing, whatever the scatter of a few rounds extrapolates to. NaN stays.
  for (Estimate& estimate : estimates) {
    if (estimate.interval.low < -1) estimate.interval.low = -1;
  }
  return estimates;
}

LaunchEffect FindLaunchEffect(const Setting& setting) {
  const Rounds rounds = RoundsOf(setting);
  return EstimateLaunches(FamilyOf(PairsOf(setting), rounds), rounds.launches);
}

std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& rows) {
  std::vector<std::vector<double>> leads(rows.size(), std::vector<double>(rows.size(), kNaN));
  if (!setting.takes_turns() || rows.empty()) return leads;
  const Rounds rounds = RoundsOf(setting);
  const auto steps_of = [&](const Row& row) {
    return InRounds(*row.measured, StepSamples(*row.measured), rounds);
  };
  const ByRound base = steps_of(*rows[0]->base);
  std::vector<ByRound> steps;
  for (const Comparison* const comparison : rows) steps.push_back(steps_of(*comparison->row));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<RoundDifferences> family;
    for (size_t j = 0; j < rows.size(); ++j) {
      if (j != i) family.push_back({.values = Minus(steps[i], steps[j]), .divisors = base});
    }
    const std::vector<double> least = LeastDifferences(family, rounds.launches, setting.confidence);
    for (size_t j = 0; j < rows.size(); ++j) {
      if (j != i) leads[i][j] = least[j - (j > i)];
    }
  }
  return leads;
}

bool MayBeFastest(const std::vector<double>& leads) {
  return std::ranges::none_of(leads, [](double lead) { return lead > 0; });
}

std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs) {
  const Rounds rounds = RoundsOf(setting);
  std::vector<RoundDifferences> family;
  std::vector<Estimate> estimates(pairs.size());
  std::vector<size_t> owners;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Cost own = setting.CostOf(*pairs[i].own), other = setting.CostOf(*pairs[i].base);
    if (!setting.takes_turns() || own.row == nullptr || other.row == nullptr || own.row->is_floor()) continue;
    const auto over_floor = [&](const Cost& cost) {
      return OverFloor(cost, InRounds(*cost.row->measured, "step_ns", rounds), "step_ns", rounds);
    };
    family.push_back({.values = Minus(over_floor(own), over_floor(other)), .base = other.row});
    owners.push_back(i);
  }
  const std::vector<Estimate> of_family = EstimateRounds(family, rounds.launches, setting.confidence);
  for (size_t k = 0; k < owners.size(); ++k) estimates[owners[k]] = of_family[k];
  return estimates;
}

}  // namespace gradsync::tools
