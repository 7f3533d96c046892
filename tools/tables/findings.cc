#include "tools/tables/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <string_view>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMaxVariants = 400;
constexpr size_t kMaxGroups = 4;

// Flags that leave nothing to compare, and why.
constexpr std::pair<Flag, std::string_view> kVoid[] = {
    {Flag::kWorldOfOne, "a single rank communicates with nobody"},
    {Flag::kTraced, "every step also wrote a trace"},
    {Flag::kPublished, "published figures have no samples"},
    {Flag::kInBlocks, "strategies took their steps one after the other, not in turn"},
    {Flag::kTooFewForInterval, "there are fewer than 10 steps"},
};

bool Competes(const Variant& variant) {
  return !IsFloor(variant.name) && !Has(variant.flags, Flag::kUnequal) && !Has(variant.flags, Flag::kWrong);
}

// The variants that compete, the fastest mean first.
std::vector<const Variant*> FieldOf(const Case& one_case) {
  std::vector<const Variant*> field;
  for (const Variant& variant : one_case.variants) {
    if (Competes(variant)) field.push_back(&variant);
  }
  std::ranges::stable_sort(field, std::less<>(),
                           [](const Variant* variant) { return Mean(variant->steps.values); });
  return field;
}

// "8 to 18 %", of parts; one number where both are the same.
std::string PercentRange(double from, double to) {
  char text[64];
  const long low = std::lround(100 * from), high = std::lround(100 * to);
  if (low == high) {
    std::snprintf(text, sizeof text, "%ld %%", low);
  } else {
    std::snprintf(text, sizeof text, "%ld to %ld %%", low, high);
  }
  return text;
}

std::string Sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

}  // namespace

void Contest::Compare(Intervals* intervals) {
  for (const Case& one_case : cases_) {
    const std::vector<const Variant*> field = FieldOf(one_case);
    std::vector<Pair>& pairs = pairs_[one_case.name];
    for (size_t i = 0; i < field.size(); ++i) {
      for (size_t j = i + 1; j < field.size(); ++j) {
        const Sample& a = field[i]->steps;
        const Sample& b = field[j]->steps;
        pairs.push_back({field[i]->name, field[j]->name, RelativeDifference(a.values, b.values),
                         intervals->AddRatio(a, b)});
      }
    }
  }
}

Contest::Result Contest::ResultOf(const std::string& case_name, const Intervals& intervals) const {
  const std::vector<Pair>& pairs = pairs_.at(case_name);
  Result result{.of_case = case_name};
  if (pairs.empty()) return result;
  std::map<std::pair<std::string, std::string>, Interval> faster;  // what is shown, by how much
  for (const Pair& pair : pairs) {
    const Interval interval = intervals[pair.number];
    if (interval.high < 0) faster[{pair.a, pair.b}] = {-interval.high, -interval.low};
    result.shown_faster.insert(interval.high < 0 ? pair.a : interval.low > 0 ? pair.b : "");
  }
  result.best = {pairs.front().a};
  result.least_gain = std::numeric_limits<double>::infinity();
  for (const Pair& pair : pairs) {
    if (pair.a != result.best.front()) continue;
    const auto gain = faster.find({pair.a, pair.b});
    (gain == faster.end() ? result.best : result.slower).push_back(pair.b);
    if (gain != faster.end()) result.least_gain = std::min(result.least_gain, gain->second.low);
  }
  Interval gain{std::numeric_limits<double>::infinity(), 0};
  bool are_ahead_of_baseline = true;
  for (const std::string& best : result.best) {
    for (const std::string& other : result.best) result.are_apart |= faster.contains({best, other});
    for (const std::string& other : result.slower) result.are_ahead &= faster.contains({best, other});
    const auto own = faster.find({best, baseline_});
    are_ahead_of_baseline &= own != faster.end();
    if (own != faster.end()) {
      gain = {std::min(gain.low, own->second.low), std::max(gain.high, own->second.high)};
    }
  }
  if (are_ahead_of_baseline) result.gain = gain;
  return result;
}

std::string Contest::WhyVoid() const {
  for (const auto& [flag, reason] : kVoid) {
    for (const Case& one_case : cases_) {
      for (const Variant& variant : one_case.variants) {
        if (Has(variant.flags, flag)) return Join(reason, " (`", WordOf(flag), "`)");
      }
    }
  }
  return "";
}

std::string Contest::OneCase(const Result& result) const {
  const std::string best = Listed(result.best);
  const std::string gain =
      result.gain ? Join(PercentRange(result.gain->low, result.gain->high), " faster than ", baseline_) : "";
  if (result.best.size() == 1) {
    const std::string least =
        Join("at least ", PercentRange(result.least_gain, result.least_gain), " faster than ",
             result.slower.size() > 1 ? "any other" : result.slower[0]);
    return Join(best, " is fastest, ", gain.empty() ? least : gain);
  }
  if (result.slower.empty()) {
    return result.are_apart ? Join("No ", words_.variant, " is shown to be fastest")
                            : Join(best, " cannot be told apart");
  }
  const char* const open = result.are_apart ? "which is fastest is open" : "they cannot be told apart";
  if (!gain.empty()) return Join(best, " are ", gain, "; ", open);
  if (result.are_ahead) {
    return Join(best, " are faster than ", result.slower.size() > 1 ? "the others" : result.slower[0], "; ",
                open);
  }
  return Join("No ", words_.variant, " is shown to be fastest, but ", result.best[0], " is faster than ",
              Listed(result.slower));
}

std::string Contest::ManyCases(const std::vector<Result>& results) const {
  std::map<std::string, size_t> wins;
  size_t open = 0;
  std::optional<Interval> gain = Interval{std::numeric_limits<double>::infinity(), 0};
  for (const Result& result : results) {
    if (result.best.size() == 1) ++wins[result.best[0]];
    open += result.best.size() > 1 ? 1 : 0;
    if (!result.gain) gain.reset();
    if (gain) gain = {std::min(gain->low, result.gain->low), std::max(gain->high, result.gain->high)};
  }
  const std::string all = Join(results.size(), " ", words_.of_case, "s");
  if (wins.empty()) {
    return Join(words_.at == "in" ? "In" : "At", " none of ", all, " is a ", words_.variant,
                " shown to be fastest");
  }
  std::string text;
  for (const auto& [name, count] : wins) {
    text += Join(text.empty() ? "" : ", ", name, text.empty() ? " is fastest " : " ", words_.at, " ", count,
                 text.empty() ? " of " + all : "");
  }
  if (open > 0) return Join(text, "; ", words_.at, " ", open, " it is open");
  return gain ? Join(text, ", ", PercentRange(gain->low, gain->high), " faster than ", baseline_) : text;
}

std::vector<std::string> Contest::Sentences(const Intervals& intervals) const {
  const bool is_contest =
      std::ranges::any_of(cases_, [](const Case& one_case) { return FieldOf(one_case).size() > 1; });
  if (!is_contest) return {};
  const std::string reason = WhyVoid();
  if (!reason.empty()) return {Join("No ", words_.variant, " is called fastest: ", reason, ".")};
  std::vector<Result> results;
  for (const Case& one_case : cases_) {
    if (!pairs_.at(one_case.name).empty()) results.push_back(ResultOf(one_case.name, intervals));
  }
  std::vector<std::string> sentences = {
      Sentence(results.size() == 1 ? OneCase(results[0]) : ManyCases(results))};
  const bool is_oversubscribed = std::ranges::any_of(cases_, [](const Case& one_case) {
    return std::ranges::any_of(
        one_case.variants, [](const Variant& variant) { return Has(variant.flags, Flag::kOversubscribed); });
  });
  if (is_oversubscribed) sentences.push_back("Measured with more threads than CPUs.");
  return sentences;
}

bool Contest::IsAmongFastest(const std::string& case_name, const std::string& variant,
                             const Intervals& intervals) const {
  if (!WhyVoid().empty()) return false;
  const Result result = ResultOf(case_name, intervals);
  return std::ranges::count(result.best, variant) > 0 && result.shown_faster.contains(variant);
}

void Contest::AddDifferences(const std::string& prefix, const Intervals& intervals, Table* table) const {
  for (const Case& one_case : cases_) {
    for (const Pair& pair : pairs_.at(one_case.name)) {
      const Interval interval = InPercent(intervals[pair.number]);
      table->AddRow(
          {prefix + one_case.name, pair.a, pair.b, 100 * pair.difference, interval.low, interval.high});
    }
  }
}

Table DifferencesTable(std::string name) {
  return Table(std::move(name), "Differences of all pairs",
               {{.name = "case", .kind = Kind::kText},
                {.name = "strategy", .kind = Kind::kText},
                {.name = "against", .kind = Kind::kText},
                {.name = "difference (%)", .kind = Kind::kPercent},
                {.name = "ci95_low (%)", .kind = Kind::kPercent},
                {.name = "ci95_high (%)", .kind = Kind::kPercent}},
               Audience::kMachines);
}

namespace {

// "falls" or "rises" if it does with each step of `along`, at every value of the other; else empty.
std::string DirectionOf(const std::vector<ShareInCell>& shares, double ShareInCell::*along,
                        double ShareInCell::*fixed) {
  bool falls = true;
  bool rises = true;
  size_t steps = 0;
  for (const ShareInCell& share : shares) {
    const ShareInCell* next = nullptr;
    for (const ShareInCell& other : shares) {
      const bool is_beyond = other.*fixed == share.*fixed && other.*along > share.*along;
      if (is_beyond && (next == nullptr || other.*along < next->*along)) next = &other;
    }
    if (next == nullptr) continue;
    ++steps;
    falls &= next->interval.high < share.interval.low;
    rises &= next->interval.low > share.interval.high;
  }
  return steps == 0 ? "" : falls ? "falls" : rises ? "rises" : "";
}

}  // namespace

std::string TrendSentence(const std::vector<ShareInCell>& shares) {
  std::map<std::string, std::vector<ShareInCell>> by_strategy;
  for (const ShareInCell& share : shares) {
    if (!std::isnan(share.interval.low)) by_strategy[share.strategy].push_back(share);
  }
  if (by_strategy.empty()) return "";
  std::map<std::string, std::vector<std::string>> found;  // strategies, by what is found
  for (const auto& [strategy, own] : by_strategy) {
    const auto note = [&](const std::string& direction, const char* along) {
      if (!direction.empty()) found[Join(direction, " with every larger ", along)].push_back(strategy);
    };
    note(DirectionOf(own, &ShareInCell::batch_size, &ShareInCell::seq_len), "batch");
    note(DirectionOf(own, &ShareInCell::seq_len, &ShareInCell::batch_size), "sequence");
  }
  if (found.empty()) return "No trend of the cost's share over batch or sequence is shown.";
  std::string text;
  for (const auto& [what, strategies] : found) {
    const bool are_all = strategies.size() == by_strategy.size();
    text += Join(text.empty() ? "The cost's share " : ", and ", what, " under ",
                 are_all                 ? "every strategy"
                 : strategies.size() > 3 ? CountWord(strategies.size()) + " strategies"
                                         : Listed(strategies));
  }
  return Sentence(text);
}

void StepFindings::Add(const Measured& row, const Series& steps, const Flags& flags) {
  if (is_too_much()) return;
  const Measurement& measurement = row.own;
  std::string group_name = measurement.record.run_id;
  for (const char* const name : {"model", "backend", "device", "dtype"}) {
    group_name += Join(", ", measurement.record.config.StringOr(name, ""));
  }
  const double batch_size = ConfigNumber(measurement, "batch_size");
  const double seq_len = ConfigNumber(measurement, "seq_len");
  const std::string name = std::isnan(seq_len) ? Join("batch ", batch_size) : Join(batch_size, "x", seq_len);
  Group& group = Named(group_name, &groups_);
  group.baseline = row.baseline.strategy();
  Case& one_case = Named(name, &group.cases);
  std::string strategy = measurement.strategy();
  if (std::ranges::count(one_case.variants, strategy, &Variant::name) > 0) {
    strategy += Join(" with buckets of ", ConfigNumber(measurement, "bucket_bytes"), " bytes");
  }
  places_[&measurement] = {group_name, name, strategy};
  one_case.variants.push_back({std::move(strategy), SampleOf(measurement, steps), flags});
}

bool StepFindings::is_too_much() const {
  return places_.size() > kMaxVariants || groups_.size() > kMaxGroups;
}

void StepFindings::Compare(Intervals* intervals) {
  if (is_too_much()) return;
  for (Group& group : groups_)
    group.contest.emplace(std::move(group.cases), group.baseline).Compare(intervals);
}

std::vector<std::string> StepFindings::Sentences(const Intervals& intervals) const {
  if (is_too_much()) return {};
  return SentencesOfRuns<Group>(groups_,
                                [&](const Group& group) { return group.contest->Sentences(intervals); });
}

bool StepFindings::IsAmongFastest(const Measurement& measurement, const Intervals& intervals) const {
  const auto place = places_.find(&measurement);
  if (is_too_much() || place == places_.end()) return false;
  const auto& [group_name, case_name, variant] = place->second;
  const auto group = std::ranges::find(groups_, group_name, &Group::name);
  return group->contest->IsAmongFastest(case_name, variant, intervals);
}

void StepFindings::AddDifferences(const Intervals& intervals, Table* table) const {
  if (is_too_much()) return;
  for (const Group& group : groups_) group.contest->AddDifferences("", intervals, table);
}

}  // namespace gradsync::tools
