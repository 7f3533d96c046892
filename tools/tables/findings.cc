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
constexpr size_t kMostNames = 4;
// An estimate moves from run to run: a difference is shown in four of five runs where it is so many
// half-widths. That is 1 + 0.84 / z for the z of the interval: 2.6 to 3 for six to twenty at once.
constexpr double kHalfWidthsToShow = 1.3;

// A baseline, and the rows that are compared with it.
struct Contest {
  const Cell* cell = nullptr;
  const Row* base = nullptr;
  std::vector<const Row*> others{};  // right, with an interval
  std::string place{};               // "batch 2, sequence 128 over gloo"

  // Its strategy, with options where another row is of the same strategy.
  std::string NameOf(const Row& row) const {
    auto namesakes =
        std::ranges::count(others, row.strategy(), [](const Row* other) { return other->strategy(); });
    namesakes += base->strategy() == row.strategy();
    return namesakes > 1 ? row.label() : row.strategy();
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

// "bucket_elements=7Mi" of "core:bucket_elements=7Mi@gloo"; all of it without options.
std::string OptionsOf(const Row& row) {
  const std::string variant = row.variant();
  const size_t begin = variant.find(':');
  return begin == std::string::npos ? variant : variant.substr(begin + 1, variant.find('@') - begin - 1);
}

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
    if (has_sizes) contest.place += Join(contest.place.empty() ? "" : " ", "at ", OptionsOf(*contest.base));
  }
  return contests;
}

// Of the faster one's time, what it saves of the slower one's: +25 % is 20 % less.
Interval FasterBy(const Interval& slower_by) {
  return {slower_by.low / (1 + slower_by.low), slower_by.high / (1 + slower_by.high)};
}

// "at least 4 % faster than flat and naive": by the lowest end of all intervals, which need not be that of
// the smallest estimate.
std::string FasterThanAll(const Contest& contest, const std::vector<const Row*>& slower) {
  if (slower.size() == 1)
    return Join(PercentRange(FasterBy(slower[0]->against_baseline.interval)), " faster than ",
                contest.NameOf(*slower[0]));
  double least = kNaN;
  for (const Row* row : slower) least = std::fmin(least, FasterBy(row->against_baseline.interval).low);
  std::string others = "any other row";
  if (slower.size() < contest.others.size())
    others = slower.size() <= kMostNames ? contest.NamesOf(slower) : Join(slower.size(), " others");
  return Join("at least ", PercentAtLeast(least), " faster than ", others);
}

// "core is fastest, at least 4 % faster than any other row".
std::string OrderOf(const Contest& contest) {
  const std::string base = contest.NameOf(*contest.base);
  const std::vector<const Row*> slower = contest.With(Verdict::kSlower),
                                faster = contest.With(Verdict::kFaster),
                                equal = contest.With(Verdict::kEqual), open = contest.With(Verdict::kOpen);
  std::vector<std::string> parts;
  if (!faster.empty()) {
    const Row* const best =
        *std::ranges::min_element(faster, {}, [](const Row* row) { return row->against_baseline.value; });
    const Interval& interval = best->against_baseline.interval;
    parts.push_back(Join(contest.NameOf(*best), " is ", PercentRange({-interval.high, -interval.low}),
                         " faster than ", base));
    if (faster.size() > 1)
      parts.push_back(
          Join(faster.size() - 1, faster.size() == 2 ? " other is faster too" : " others are faster too"));
    if (!slower.empty()) parts.push_back(Join(base, " is faster than ", contest.NamesOf(slower)));
  } else if (!slower.empty()) {
    const bool is_fastest = slower.size() > 1 && slower.size() == contest.others.size();
    parts.push_back(Join(base, is_fastest ? " is fastest, " : " is ", FasterThanAll(contest, slower)));
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
  // Shown to be above zero or not; that it is less than the others' is not shown.
  if (cheapest != contest.base)
    text += Join("; the smallest estimate is that of ", contest.NameOf(*cheapest), ", which ",
                 CostText(*cheapest));
  return text;
}

std::string ClauseOf(const Contest& contest) {
  const std::string order = OrderOf(contest), cost = CostOf(contest);
  std::string place = contest.place;
  if (place.starts_with("over ")) place[0] = 'O';
  return Join(place, place.empty() ? "" : ": ", order, order.empty() || cost.empty() ? "" : "; ", cost, ".");
}

// "5 to 10 %", "at most 9 %", "nothing".
std::string ShareText(const Interval& share) {
  if (share.low > 0) return PercentRange(share);
  return share.high > 0 ? Join("at most ", PercentAtMost(share.high)) : "nothing";
}

std::string AtPlace(const Contest& contest) {
  return Join(contest.place.starts_with("over ") ? " " : " at ", contest.place);
}

// "Of its step, core costs at most 9 % at batch 1, sequence 128 over shm and 37 to 53 % at ...": where the
// baseline costs the smallest and the largest part, and then each of the others.
std::string SharesOf(const std::vector<Contest>& contests) {
  struct Share {
    Estimate share;
    const Contest* contest;
  };
  std::vector<std::pair<std::string, std::vector<Share>>> by_name;
  const auto add = [&by_name](const Contest& contest, const Row& row) {
    const Estimate share = Scaled(row.cost.total, 1 / row.step_s);
    if (!share.interval.is_known()) return;
    const std::string name = contest.NameOf(row);
    auto found = std::ranges::find(by_name, name, [](const auto& entry) { return entry.first; });
    if (found == by_name.end()) found = by_name.insert(found, {name, {}});
    found->second.push_back({share, &contest});
  };
  for (const Contest& contest : contests) add(contest, *contest.base);
  for (const Contest& contest : contests) {
    for (const Row* row : contest.others) add(contest, *row);
  }
  std::vector<std::string> parts;
  for (const auto& [name, shares] : by_name) {
    const auto [least, most] =
        std::ranges::minmax(shares, {}, [](const Share& share) { return share.share.value; });
    std::string part =
        Join(name, parts.empty() ? " costs " : " ", ShareText(least.share.interval), AtPlace(*least.contest));
    if (least.contest != most.contest)
      part += Join(" and ", ShareText(most.share.interval), AtPlace(*most.contest));
    parts.push_back(part);
  }
  return parts.empty() ? "" : Join("Of its step, ", absl::StrJoin(parts, "; "), ".");
}

// Where there are too many places to name each.
std::vector<std::string> CountsOf(const std::vector<Contest>& contests) {
  std::map<std::string, std::map<Verdict, size_t>> verdicts;  // by name
  std::set<std::string> bases;
  for (const Contest& contest : contests) {
    bases.insert(contest.NameOf(*contest.base));
    for (const Row* row : contest.others) ++verdicts[contest.NameOf(*row)][row->verdict];
  }
  const std::string base = bases.size() == 1 ? *bases.begin() : "the baseline";
  std::vector<std::string> parts;
  for (auto& [name, counts] : verdicts) {
    std::string part = name;
    const char* gap = " is ";
    for (const auto& [verdict, word] : {std::pair{Verdict::kSlower, "slower"},
                                        {Verdict::kFaster, "faster"},
                                        {Verdict::kEqual, "equal"},
                                        {Verdict::kOpen, "open"}}) {
      if (counts[verdict] > 0) part += Join(std::exchange(gap, ", "), word, " in ", counts[verdict]);
    }
    parts.push_back(part);
  }
  std::vector<std::string> sentences;
  if (!parts.empty()) {
    sentences.push_back(
        Join("Against ", base, " in ", contests.size(), " comparisons each: ", Listed(parts), "."));
  }
  if (std::string shares = SharesOf(contests); !shares.empty()) sentences.push_back(std::move(shares));
  return sentences;
}

// Baselines of one strategy over one backend differ in the size of buckets: each against the first, and all
// intervals of a cell hold at once. Adds what is open to `open`.
std::string SizesSentence(const std::vector<Contest>& contests, std::vector<std::string>* open) {
  std::map<const Cell*, std::vector<std::pair<const Row*, const Row*>>> pairs;
  std::vector<std::string> parts;
  for (const Contest& contest : contests) {
    const Row& base = *contest.base;
    const auto first = std::ranges::find_if(contests, [&](const Contest& other) {
      return other.cell == contest.cell && other.base->strategy() == base.strategy() &&
             other.base->backend() == base.backend();
    });
    if (first->base != &base) pairs[contest.cell].emplace_back(&base, first->base);
  }
  for (const auto& [cell, own] : pairs) {
    const std::vector<Estimate> estimates = CompareSteps(*cell, own);
    for (size_t i = 0; i < own.size(); ++i) {
      const auto& [row, first] = own[i];
      const Interval& by = estimates[i].interval;
      const Verdict verdict = VerdictOf(by);
      if (verdict == Verdict::kNone) continue;
      const std::string sizes = Join(OptionsOf(*row), " against ", OptionsOf(*first));
      const std::string equal = Join("equal within ", Fixed(100 * kEqualWithin, 0), " %");
      parts.push_back(Join(cell->name.empty() ? "Over " : cell->name + " over ", row->backend(), ", ", sizes,
                           " with ", row->strategy(), ": ",
                           verdict == Verdict::kEqual    ? equal
                           : verdict == Verdict::kSlower ? PercentRange(by) + " slower"
                           : verdict == Verdict::kFaster ? PercentRange({-by.high, -by.low}) + " faster"
                                                         : "open",
                           "."));
      if (verdict == Verdict::kOpen)
        open->push_back(
            Join(sizes, " over ", row->backend(), " with ", OptionsToDecide(*cell, estimates[i])));
    }
  }
  return absl::StrJoin(parts, " ");
}

// How many times the rounds it has it needs to be shown, or shown to be within kEqualWithin, if the estimate
// stays where it is and the interval narrows with the root of the rounds.
double TimesToDecide(const Estimate& estimate) {
  const double half_width = (estimate.interval.high - estimate.interval.low) / 2;
  const double size = std::abs(estimate.value);
  return std::max(1.0, std::pow(kHalfWidthsToShow * half_width / std::max(size, kEqualWithin - size), 2));
}

}  // namespace

double SecondsToDecide(const Cell& cell, const Estimate& difference) {
  const auto launches = static_cast<double>(cell.num_looks > 1 ? cell.num_looks + 1 : cell.num_launches);
  const auto block = static_cast<double>(RoundsPerBlock(cell));
  const double rounds = TimesToDecide(difference) * static_cast<double>(cell.num_rounds) / launches;
  return block * std::ceil(rounds / block) * cell.round_s * launches;
}

std::string OptionsToDecide(const Cell& cell, const Estimate& difference) {
  if (difference.by_launches) {
    const auto launches = static_cast<double>(cell.num_launches);
    const double wanted = std::ceil(launches * TimesToDecide(difference));
    // As long as they were: launches share the time.
    const double seconds = wanted * static_cast<double>(cell.num_rounds) / launches * cell.round_s;
    const bool has_time = cell.any().config().Find("time") != nullptr;
    return Join("`", has_time ? Join("--time=", DurationFlag(seconds), " ") : "",
                "--repeats=", Fixed(wanted, 0), "`");
  }
  const bool has_more = cell.num_launches > 1 && cell.num_looks == 1;
  return Join("`--time=", DurationFlag(SecondsToDecide(cell, difference)),
              has_more ? Join(" --repeats=", cell.num_launches) : "", "`");
}

std::string OpenSentence(std::vector<std::string> open) {
  if (open.size() > kMostOpen) {
    const size_t more = open.size() - kMostOpen;
    open.resize(kMostOpen);
    open.push_back(Join(more, " more"));
  }
  return open.empty() ? "" : Join("To decide what is open, measure again: ", Listed(open), ".");
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
  std::vector<std::string> open;
  for (const Contest& contest : contests) {
    for (const Row* row : contest.With(Verdict::kOpen)) {
      open.push_back(Join(contest.base->strategy(), " against ", row->variant(),
                          contest.cell->name.empty() ? "" : " at " + contest.cell->name, " with ",
                          OptionsToDecide(*contest.cell, row->against_baseline)));
    }
  }
  if (std::string sizes = SizesSentence(contests, &open); !sizes.empty())
    sentences.push_back(std::move(sizes));
  if (!open.empty()) sentences.push_back(OpenSentence(std::move(open)));
  return sentences;
}

}  // namespace gradsync::tools
