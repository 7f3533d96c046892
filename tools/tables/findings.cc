#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

// More baselines than these are counted.
constexpr size_t kMostClauses = 4;
constexpr size_t kMostOpen = 4;

// A baseline, and the rows that are compared with it.
struct Contest {
  const Cell* cell = nullptr;
  const Row* base = nullptr;
  std::vector<const Row*> others{};  // right, with an interval
  std::string place{};               // "batch 2, sequence 128 over gloo"

  // Its strategy, with options where another row is of the same strategy.
  std::string NameOf(const Row& row) const {
    const std::string variant = row.variant();
    auto namesakes =
        std::ranges::count(others, row.strategy(), [](const Row* other) { return other->strategy(); });
    namesakes += base->strategy() == row.strategy();
    return namesakes > 1 ? variant.substr(0, variant.find('@')) : row.strategy();
  }

  std::string NamesOf(const std::vector<const Row*>& rows) const {
    std::vector<std::string> names;
    for (const Row* row : rows) names.push_back(NameOf(*row));
    return Listed(names);
  }

  std::vector<const Row*> With(Verdict verdict) const {
    std::vector<const Row*> rows;
    std::ranges::copy_if(others, std::back_inserter(rows),
                         [verdict](const Row* row) { return row->verdict == verdict; });
    return rows;
  }
};

std::vector<Contest> ContestsOf(const std::vector<Cell>& cells) {
  std::vector<Contest> contests;
  std::set<std::string> backends;
  for (const Cell& cell : cells) {
    if (!cell.void_reason.empty()) continue;
    for (size_t i = 0; i < cell.rows.size(); ++i) {
      const Row& base = cell.rows[i];
      if (base.baseline != i || Has(base.flags, Flag::kUnequal)) continue;
      Contest contest{.cell = &cell, .base = &base};
      for (const Row& row : cell.rows) {
        if (row.baseline == i && row.verdict != Verdict::kNone && !row.is_floor())
          contest.others.push_back(&row);
      }
      if (contest.others.empty() && !base.cost.total.interval.is_known()) continue;
      backends.insert(base.backend());
      contests.push_back(std::move(contest));
    }
  }
  // The label of a size is part of the baseline's variant.
  std::set<std::pair<const Cell*, std::string>> seen;
  bool has_sizes = false;
  for (const Contest& contest : contests) {
    has_sizes |= !seen.emplace(contest.cell, contest.base->backend()).second;
  }
  for (Contest& contest : contests) {
    contest.place = contest.cell->name;
    if (backends.size() > 1)
      contest.place += Join(contest.place.empty() ? "" : " ", "over ", contest.base->backend());
    if (has_sizes) {
      const std::string variant = contest.base->variant();
      const size_t begin = variant.find(':');
      const std::string options = variant.substr(std::min(begin, variant.size()),
                                                 variant.find('@') - std::min(begin, variant.size()));
      contest.place +=
          Join(contest.place.empty() ? "" : " ", "at ", options.empty() ? variant : options.substr(1));
    }
  }
  return contests;
}

// Of the faster one's time, what it saves of the slower one's: +25 % is 20 % less.
Interval FasterBy(const Interval& slower_by) {
  return {slower_by.low / (1 + slower_by.low), slower_by.high / (1 + slower_by.high)};
}

const Row* Nearest(const std::vector<const Row*>& rows) {
  return *std::ranges::min_element(rows, {}, [](const Row* row) { return row->against_baseline.value; });
}

// "core is fastest: 14 to 19 % faster than naive, the next".
std::string OrderOf(const Contest& contest) {
  const std::string base = contest.NameOf(*contest.base);
  const std::vector<const Row*> slower = contest.With(Verdict::kSlower),
                                faster = contest.With(Verdict::kFaster),
                                equal = contest.With(Verdict::kEqual), open = contest.With(Verdict::kOpen);
  const auto than = [&contest](const Row* row) {
    return Join(PercentRange(FasterBy(row->against_baseline.interval)), " faster than ",
                contest.NameOf(*row));
  };
  std::vector<std::string> parts;
  if (!faster.empty()) {
    const Row* const best = Nearest(faster);
    const Interval& interval = best->against_baseline.interval;
    parts.push_back(Join(contest.NameOf(*best), " is ", PercentRange({-interval.high, -interval.low}),
                         " faster than ", base));
    if (faster.size() > 1)
      parts.push_back(
          Join(faster.size() - 1, faster.size() == 2 ? " other is faster too" : " others are faster too"));
    if (!slower.empty()) parts.push_back(Join(base, " is faster than ", contest.NamesOf(slower)));
  } else if (slower.size() == contest.others.size() && !slower.empty()) {
    parts.push_back(slower.size() == 1 ? Join(base, " is ", than(slower[0]))
                                       : Join(base, " is fastest, ", than(Nearest(slower)), ", the next"));
  } else if (!slower.empty()) {
    parts.push_back(
        Join(base, " is ", than(Nearest(slower)),
             slower.size() == 1 ? "" : Join(", the next of ", slower.size(), " that are slower")));
  }
  if (!equal.empty())
    parts.push_back(
        Join(base, " equals ", contest.NamesOf(equal), " within ", Fixed(100 * kEqualWithin, 0), " %"));
  if (!open.empty())
    parts.push_back(
        Join(contest.NamesOf(open), " against ", base, open.size() == 1 ? " is open" : " are open"));
  return absl::StrJoin(parts, "; ");
}

// "costs 0.31 to 0.36 s", "costs at most 0.02 s".
std::string CostText(const Row& row) {
  const Interval& cost = row.cost.total.interval;
  if (!cost.is_known()) return "";
  if (cost.low > 0) return Join("costs ", TimeRange(cost));
  return cost.high > 0 ? Join("costs at most ", TimeText(cost.high)) : "costs nothing";
}

std::string CostOf(const Contest& contest) {
  std::string text = CostText(*contest.base);
  if (text.empty()) return "";
  text = Join(contest.NameOf(*contest.base), " ", text, " of its ", TimeText(contest.base->step_s), " step");
  const Row* cheapest = contest.base;
  for (const Row* row : contest.others) {
    if (row->cost.total.value < cheapest->cost.total.value) cheapest = row;
  }
  // The smallest estimate, shown to be above zero or not.
  if (cheapest != contest.base)
    text += Join("; the cheapest, ", contest.NameOf(*cheapest), ", ", CostText(*cheapest));
  return text;
}

std::string ClauseOf(const Contest& contest) {
  const std::string order = OrderOf(contest), cost = CostOf(contest);
  std::string place = contest.place;
  if (place.starts_with("over ")) place[0] = 'O';
  return Join(place, place.empty() ? "" : ": ", order, order.empty() || cost.empty() ? "" : "; ", cost, ".");
}

// Where there are too many places to name each.
std::vector<std::string> CountsOf(const std::vector<Contest>& contests) {
  std::map<std::string, std::map<Verdict, std::vector<Interval>>> verdicts;  // by name
  std::set<std::string> bases;
  for (const Contest& contest : contests) {
    bases.insert(contest.NameOf(*contest.base));
    for (const Row* row : contest.others)
      verdicts[contest.NameOf(*row)][row->verdict].push_back(row->against_baseline.interval);
  }
  const std::string base = bases.size() == 1 ? *bases.begin() : "the baseline";
  std::vector<std::string> parts;
  for (auto& [name, intervals] : verdicts) {
    std::string part = name;
    const char* gap = " is ";
    for (const auto& [verdict, word] : {std::pair{Verdict::kSlower, "slower"},
                                        {Verdict::kFaster, "faster"},
                                        {Verdict::kEqual, "equal"},
                                        {Verdict::kOpen, "open"}}) {
      const std::vector<Interval>& own = intervals[verdict];
      if (own.empty()) continue;
      part += Join(std::exchange(gap, ", "), word, " in ", own.size());
      if (verdict == Verdict::kSlower)
        part += Join(" (by ",
                     PercentRange({std::ranges::min(own, {}, &Interval::low).low,
                                   std::ranges::max(own, {}, &Interval::high).high}),
                     ")");
    }
    parts.push_back(part);
  }
  std::vector<std::string> sentences;
  if (!parts.empty()) {
    sentences.push_back(
        Join("Against ", base, " in ", contests.size(), " comparisons each: ", Listed(parts), "."));
  }
  // Of the step, in the places where that is least and most.
  std::vector<std::pair<Interval, const Contest*>> shares;
  for (const Contest& contest : contests) {
    const Interval share = Scaled(contest.base->cost.total, 1 / contest.base->step_s).interval;
    if (share.is_known()) shares.emplace_back(share, &contest);
  }
  if (shares.empty()) return sentences;
  const auto [least, most] =
      std::ranges::minmax(shares, {}, [](const auto& share) { return share.first.low; });
  sentences.push_back(Join("Of a step, ", base, " costs ", PercentRange(least.first), " (",
                           least.second->place, ") to ", PercentRange(most.first), " (", most.second->place,
                           ")."));
  return sentences;
}

std::string OpenSentence(const std::vector<Contest>& contests) {
  std::vector<std::string> parts;
  size_t count = 0;
  for (const Contest& contest : contests) {
    for (const Row* row : contest.With(Verdict::kOpen)) {
      if (++count > kMostOpen) continue;
      parts.push_back(Join(contest.base->strategy(), " against ", row->variant(),
                           contest.cell->name.empty() ? "" : " at " + contest.cell->name, " about ",
                           DurationText(SecondsToDecide(*contest.cell, *row))));
    }
  }
  if (count > kMostOpen) parts.push_back(Join(count - kMostOpen, " more"));
  return parts.empty() ? "" : Join("To decide what is open, measure longer: ", Listed(parts), ".");
}

}  // namespace

double SecondsToDecide(const Cell& cell, const Row& row) {
  const auto& [value, interval] = row.against_baseline;
  if (row.verdict != Verdict::kOpen) return 0;
  const double half_width = (interval.high - interval.low) / 2;
  const double wanted = std::max(std::abs(value), kEqualWithin - std::abs(value));
  const double factor = std::pow(half_width / wanted, 2);
  return std::max(0.0, factor - 1) * static_cast<double>(cell.num_rounds) * cell.round_s;
}

std::vector<std::string> TrainingSentences(const std::vector<Cell>& cells) {
  const std::vector<Contest> contests = ContestsOf(cells);
  std::vector<std::string> sentences;
  if (contests.empty()) {
    const auto is_void =
        std::ranges::find_if(cells, [](const Cell& cell) { return !cell.void_reason.empty(); });
    if (is_void == cells.end()) return {};
    return {Join("Which strategy is fastest is not said. ", is_void->void_reason)};
  }
  if (contests.size() <= kMostClauses) {
    sentences.push_back(absl::StrJoin(
        contests, " ", [](std::string* text, const Contest& contest) { *text += ClauseOf(contest); }));
  } else {
    sentences = CountsOf(contests);
  }
  if (std::string open = OpenSentence(contests); !open.empty()) sentences.push_back(std::move(open));
  return sentences;
}

}  // namespace gradsync::tools
