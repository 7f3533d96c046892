#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "tools/tables/rows.h"

// Differences of steps of the same round.
namespace gradsync::tools {
namespace {

using ByRound = std::vector<double>;  // NaN: did not take part

// The rounds of a cell, launch after launch.
struct Rounds {
  std::vector<std::string> run_ids;
  std::vector<size_t> launches;  // how many each has

  size_t count() const { return std::accumulate(launches.begin(), launches.end(), size_t{0}); }
};

Rounds RoundsOf(const Cell& cell) {
  Rounds rounds;
  for (const Row& row : cell.rows) {
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

// An interrupted launch has fewer steps of some variants; step i of each is of round i.
ByRound InRounds(const Measurement& measurement, SampleName samples, const Rounds& rounds) {
  ByRound values(rounds.count(), kNaN);
  const Series* const series = measurement.Find(samples);
  if (series == nullptr || series->published) return values;
  size_t from = 0;
  for (const Launch& launch : measurement.launches) {
    size_t begin = 0;
    for (size_t i = 0; rounds.run_ids[i] != launch.run_id; ++i) begin += rounds.launches[i];
    std::copy_n(series->max.begin() + static_cast<std::ptrdiff_t>(from), launch.num_steps,
                values.begin() + static_cast<std::ptrdiff_t>(begin));
    from += launch.num_steps;
  }
  return values;
}

// With what is not timed between steps.
double SecondsPerRound(const Cell& cell) {
  const Measurement& any = *cell.any().measured;
  const size_t num_rounds = any.launches.front().num_steps;
  if (const Series* const begins = any.Find("begin_ns"); begins != nullptr && num_rounds > 1)
    return (begins->max[num_rounds - 1] - begins->max[0]) / static_cast<double>(num_rounds - 1);
  double seconds = 0;
  for (const Row& row : cell.rows) seconds += TypicalOf(row.measured->Find("step_ns"));
  return seconds;
}

// How much less a floor's time is, by its trimmed mean, where it is sampled as that of a row with a period
// is: as the maximum over ranks of the mean over so many steps. These are the steps of the rounds that follow
// one, and the first ones of a launch follow its last.
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

ByRound Minus(const ByRound& a, const ByRound& b, double factor = 1) {
  ByRound difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - factor * b[i];
  return difference;
}

// The estimates of one cell whose variants took turns.
class Pairs {
 public:
  explicit Pairs(Cell* cell) : cell_(*cell), rounds_(RoundsOf(*cell)) {
    for (const Row& row : cell_.rows) {
      const SampleName steps = StepSamples(*row.measured);
      steps_.push_back(InRounds(*row.measured, steps, rounds_));
      forwards_.push_back(InRounds(*row.measured, "forward_ns", rounds_));
    }
    cell_.round_s = SecondsPerRound(cell_);
    cell_.num_rounds = rounds_.count();
    cell_.num_launches = rounds_.launches.size();
    // After each launch from the second on.
    const bench::Record& record = cell_.any().measured->record;
    if (record.config.DoubleOr("precision", 0) > 0)
      cell_.num_looks = static_cast<size_t>(std::max<int64_t>(2, record.facts.IntOr("launches", 2)) - 1);
  }

  void EstimateAll() {
    FindCoefficients();
    FindWhoLeavesForwardAlone();
    EstimateSteps();
    EstimateCosts();
  }

 private:
  std::vector<Estimate> Of(const std::vector<RoundDifferences>& family) const {
    return EstimateRounds(family, rounds_.launches, cell_.num_looks);
  }

  // One for each framework: the same work is not the same under another.
  void FindCoefficients() {
    std::map<bool, std::vector<size_t>> by_framework;
    for (size_t i = 0; i < cell_.rows.size(); ++i) by_framework[cell_.rows[i].is_peer()].push_back(i);
    for (const auto& [is_peer, members] : by_framework) {
      std::vector<ByRound> steps, forwards;
      for (const size_t i : members) {
        steps.push_back(steps_[i]);
        forwards.push_back(forwards_[i]);
      }
      const bool is_enough = rounds_.count() >= kFewestForInterval;
      coefficients_[is_peer] = is_enough ? CommonCoefficient(steps, forwards) : 0;
    }
    cell_.coefficient = coefficients_[false];
  }

  // Finds the rows whose forward is neither known nor shown to differ from the others'. In other rows the
  // coefficient would multiply a difference. Forward is known to differ in a row with a delay there, in one
  // that shares its weights with other ranks (they are in one cache), and in one whose forward gathers
  // weights.
  void FindWhoLeavesForwardAlone() {
    for (const auto& [is_peer, coefficient] : coefficients_) {
      if (coefficient == 0) continue;
      std::vector<ByRound> forwards;
      std::vector<size_t> owners, references;
      for (size_t i = 0; i < cell_.rows.size(); ++i) {
        const Row& row = cell_.rows[i];
        const bool is_known = row.facts().BoolOr("places_values", false) ||
                              row.option("forward_delay_us") > 0 ||
                              row.measured->Find("forward_wait_ns") != nullptr;
        if (row.is_peer() != is_peer || is_known) continue;
        if (row.floor == i) references.push_back(owners.size());  // it alone does not communicate
        forwards.push_back(forwards_[i]);
        owners.push_back(i);
      }
      const std::vector<bool> alike = FindAlike(forwards, references);
      for (size_t k = 0; k < owners.size(); ++k) cell_.rows[owners[k]].uses_forward = alike[k];
    }
  }

  // The coefficient for the difference between two rows.
  double CoefficientOf(size_t a, size_t b) const {
    const Row &own = cell_.rows[a], &other = cell_.rows[b];
    const bool is_valid = own.uses_forward && other.uses_forward && own.is_peer() == other.is_peer();
    return is_valid ? coefficients_.at(own.is_peer()) : 0;
  }
  ByRound Adjusted(size_t a, size_t b, const ByRound& difference) const {
    const double coefficient = CoefficientOf(a, b);
    return coefficient == 0 ? difference : Minus(difference, Minus(forwards_[a], forwards_[b]), coefficient);
  }

  void EstimateSteps() {
    std::vector<RoundDifferences> family;
    std::vector<size_t> owners;
    for (size_t i = 0; i < cell_.rows.size(); ++i) {
      const size_t base = cell_.rows[i].baseline;
      if (base == Row::kNone || base == i) continue;
      family.push_back({.values = Adjusted(i, base, Minus(steps_[i], steps_[base])),
                        .divisors = steps_[base],
                        .base = base});
      owners.push_back(i);
    }
    const std::vector<Estimate> estimates = Of(family);
    for (size_t k = 0; k < owners.size(); ++k) cell_.rows[owners[k]].against_baseline = estimates[k];
  }

  void EstimateCosts() {
    const auto of = [&](size_t i, SampleName samples) {
      return InRounds(*cell_.rows[i].measured, samples, rounds_);
    };
    std::vector<RoundDifferences> totals, parts;
    std::vector<size_t> owners;
    for (size_t i = 0; i < cell_.rows.size(); ++i) {
      const size_t floor = cell_.rows[i].floor;
      if (floor == i || floor == Row::kNone) continue;
      const auto against_floor = [&](const ByRound& own, SampleName samples) {
        ByRound difference = Adjusted(i, floor, Minus(own, of(floor, samples)));
        const Measurement& base = *cell_.rows[floor].measured;
        const double less = LessInPeriods(base, samples, cell_.rows[i].facts().IntOr("period", 1));
        for (double& value : difference) value += less;
        return difference;
      };
      const ByRound total = against_floor(steps_[i], StepSamples(*cell_.rows[i].measured));
      const ByRound computed = of(i, kComputed), worked = of(i, kWorked);
      const ByRound exposed = Minus(of(i, kAveraged), worked), own = Minus(worked, computed);
      // A clock that is slow in this step is slow in forward and backward.
      const ByRound tax = against_floor(computed, kComputed);
      const ByRound rest = Minus(Minus(Minus(total, exposed), own), tax);
      totals.push_back({total});
      for (const ByRound& part : {exposed, own, tax, rest}) parts.push_back({part, {}, total});
      owners.push_back(i);
    }
    const std::vector<Estimate> of_totals = Of(totals), of_parts = Of(parts);
    for (size_t k = 0; k < owners.size(); ++k) {
      Cost& cost = cell_.rows[owners[k]].cost;
      cost.total = of_totals[k];
      for (size_t part = 0; part < std::size(kCostParts); ++part) {
        cost.*kCostParts[part].part = of_parts[k * std::size(kCostParts) + part].value;
      }
    }
  }

  Cell& cell_;
  const Rounds rounds_;
  std::vector<ByRound> steps_, forwards_;
  std::map<bool, double> coefficients_;  // by whether it is a peer's
};

}  // namespace

void EstimateInTurn(Cell* cell) { Pairs(cell).EstimateAll(); }

std::vector<Estimate> CompareSteps(const Cell& cell,
                                   const std::vector<std::pair<const Row*, const Row*>>& pairs) {
  std::vector<Estimate> estimates;
  if (!cell.void_reason.empty() || cell.num_rounds == 0) {
    for (const auto& [own, other] : pairs) estimates.push_back({own->step_s / other->step_s - 1});
    return estimates;
  }
  const Rounds rounds = RoundsOf(cell);
  std::vector<RoundDifferences> family;
  for (const auto& [own, other] : pairs) {
    const auto minus = [&](SampleName samples) {
      return Minus(InRounds(*own->measured, samples, rounds), InRounds(*other->measured, samples, rounds));
    };
    ByRound difference = minus("step_ns");
    const bool is_own = !own->is_peer() && !other->is_peer() && own->uses_forward && other->uses_forward;
    if (is_own) difference = Minus(difference, minus("forward_ns"), cell.coefficient);
    family.push_back({std::move(difference), InRounds(*other->measured, "step_ns", rounds)});
  }
  return EstimateRounds(family, rounds.launches, cell.num_looks);
}

std::vector<Estimate> CompareCosts(const Cell& cell,
                                   const std::vector<std::pair<const Row*, const Row*>>& pairs) {
  const bool takes_turns = cell.void_reason.empty() && cell.num_rounds > 0;
  const Rounds rounds = takes_turns ? RoundsOf(cell) : Rounds();
  std::vector<RoundDifferences> family;
  std::vector<Estimate> estimates(pairs.size(), Estimate{.value = kNaN});
  std::vector<size_t> owners;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [own, other] = pairs[i];
    if (!takes_turns || own->is_floor() || own->floor == Row::kNone || other->floor == Row::kNone) continue;
    const auto cost = [&](const Row& row) {
      const Measurement& floor = *cell.rows[row.floor].measured;
      ByRound own_cost =
          Minus(InRounds(*row.measured, "step_ns", rounds), InRounds(floor, "step_ns", rounds));
      const double less = LessInPeriods(floor, "step_ns", row.facts().IntOr("period", 1));
      for (double& value : own_cost) value += less;
      return own_cost;
    };
    family.push_back({Minus(cost(*own), cost(*other))});
    owners.push_back(i);
  }
  const std::vector<Estimate> of_family = EstimateRounds(family, rounds.launches, cell.num_looks);
  for (size_t k = 0; k < owners.size(); ++k) estimates[owners[k]] = of_family[k];
  return estimates;
}

}  // namespace gradsync::tools
