#include "tools/tables/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

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
std::vector<const Variant*> FieldOf(const std::vector<Variant>& variants) {
  std::vector<const Variant*> field;
  for (const Variant& variant : variants) {
    if (Competes(variant)) field.push_back(&variant);
  }
  std::ranges::stable_sort(field, std::less<>(),
                           [](const Variant* variant) { return Mean(variant->steps.values); });
  return field;
}

// "8 to 18 %", of parts; one number where both are the same.
std::string PercentRange(double from, double to) {
  const long low = std::lround(100 * from), high = std::lround(100 * to);
  return low == high ? Join(low, " %") : Join(low, " to ", high, " %");
}

// Whether names leave a sentence of 25 words room for what is said of them.
bool Fit(const std::vector<std::string>& names) { return std::ranges::count(Listed(names), ' ') < 10; }

// "a, b and c"; of too many "a and ten others".
std::string FirstOf(const std::vector<std::string>& names) {
  return Fit(names) ? Listed(names) : Join(names[0], " and ", CountWord(names.size() - 1), " others");
}

// "a, b and c"; of too many "eleven others".
std::string OthersOf(const std::vector<std::string>& names) {
  return Fit(names) ? Listed(names) : CountWord(names.size()) + " others";
}

}  // namespace

RunKey RunKeyOf(const Measurement& measurement, std::initializer_list<const char*> config_names) {
  RunKey key = {"Run " + measurement.record.run_id};
  for (const char* const name : config_names) key.push_back(measurement.record.config.StringOr(name, ""));
  return key;
}

std::vector<std::string> PrefixesOf(const std::vector<RunKey>& runs) {
  std::vector<std::string> prefixes(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t field = 0; field < runs[i].size(); ++field) {
      const bool differs =
          std::ranges::any_of(runs, [&](const RunKey& other) { return other[field] != runs[i][field]; });
      if (differs) prefixes[i] += Join(prefixes[i].empty() ? "" : ", ", runs[i][field]);
    }
    if (!prefixes[i].empty()) prefixes[i] += ": ";
  }
  return prefixes;
}

bool Contest::Case::HasFlag(Flag flag) const {
  return std::ranges::any_of(variants, [&](const Variant& variant) { return Has(variant.flags, flag); });
}

Contest::Place Contest::Add(const RunKey& run, const std::string& name, const std::string& baseline,
                            Variant variant) {
  if (++num_variants_ > kMaxVariants) return {};
  auto found = std::ranges::find_if(
      cases_, [&](const Case& one_case) { return one_case.name == name && one_case.run == run; });
  if (found == cases_.end()) found = cases_.insert(found, {run, name, baseline});
  const bool is_taken = std::ranges::count(found->variants, variant.name, &Variant::name) > 0;
  if (is_taken && !variant.detail.empty()) variant.name += Join(" (", variant.detail, ")");
  found->variants.push_back(std::move(variant));
  return {static_cast<size_t>(found - cases_.begin()), found->variants.size() - 1};
}

void Contest::Compare(Intervals* intervals) {
  if (num_variants_ > kMaxVariants) cases_.clear();
  for (Case& one_case : cases_) {
    const std::vector<const Variant*> field = FieldOf(one_case.variants);
    for (size_t i = 0; i < field.size(); ++i) {
      for (size_t j = i + 1; j < field.size(); ++j) {
        const Sample& a = field[i]->steps;
        const Sample& b = field[j]->steps;
        one_case.pairs.push_back({field[i]->name, field[j]->name, RelativeDifference(a.values, b.values),
                                  intervals->AddRatio(a, b)});
      }
    }
  }
}

Contest::Result Contest::ResultOf(const Case& one_case, const Intervals& intervals) {
  const std::vector<Pair>& pairs = one_case.pairs;
  Result result{.baseline = one_case.baseline};
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
    const auto own = faster.find({best, result.baseline});
    are_ahead_of_baseline &= own != faster.end();
    if (own != faster.end()) {
      gain = {std::min(gain.low, own->second.low), std::max(gain.high, own->second.high)};
    }
  }
  if (are_ahead_of_baseline) result.gain = gain;
  return result;
}

std::string Contest::WhyVoid(const std::vector<const Case*>& cases) {
  for (const auto& [flag, reason] : kVoid) {
    for (const Case* const one_case : cases) {
      if (one_case->HasFlag(flag)) return Join(reason, " (`", WordOf(flag), "`)");
    }
  }
  return "";
}

std::string Contest::OneCase(const Result& result) const {
  const std::string best = FirstOf(result.best);
  const std::string gain =
      result.gain ? Join(PercentRange(result.gain->low, result.gain->high), " faster than ", result.baseline)
                  : "";
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
              OthersOf(result.slower));
}

std::string Contest::ManyCases(const std::vector<Result>& results) const {
  constexpr size_t kMostWinners = 3;
  std::map<std::string, size_t> wins;
  size_t open = 0;
  std::optional<Interval> gain = Interval{std::numeric_limits<double>::infinity(), 0};
  for (const Result& result : results) {
    if (result.best.size() == 1) ++wins[result.best[0]];
    open += result.best.size() > 1 ? 1 : 0;
    if (!result.gain || result.baseline != results[0].baseline) gain.reset();
    if (gain) gain = {std::min(gain->low, result.gain->low), std::max(gain->high, result.gain->high)};
  }
  const std::string all = Join(results.size(), " ", words_.of_case, "s");
  if (wins.empty()) {
    return Join(words_.at == "in" ? "In" : "At", " none of ", all, " is a ", words_.variant,
                " shown to be fastest");
  }
  std::vector<std::pair<std::string, size_t>> winners(wins.begin(), wins.end());
  if (winners.size() > kMostWinners) {
    std::ranges::stable_sort(winners, std::greater<>(), &std::pair<std::string, size_t>::second);
    size_t of_others = 0;
    for (size_t i = kMostWinners - 1; i < winners.size(); ++i) of_others += winners[i].second;
    winners.resize(kMostWinners - 1);
    winners.emplace_back("others", of_others);
  }
  std::string text;
  for (const auto& [name, count] : winners) {
    text += Join(text.empty() ? "" : ", ", name, text.empty() ? " is fastest " : " ", words_.at, " ", count,
                 text.empty() ? " of " + all : "");
  }
  if (open > 0) return Join(text, "; ", words_.at, " ", open, " it is open");
  if (!gain) return text;
  return Join(text, ", ", PercentRange(gain->low, gain->high), " faster than ", results[0].baseline);
}

std::vector<std::string> Contest::SentencesOf(const std::vector<const Case*>& cases,
                                              const Intervals& intervals) const {
  std::vector<Result> results;
  for (const Case* const one_case : cases) {
    if (!one_case->pairs.empty()) results.push_back(ResultOf(*one_case, intervals));
  }
  if (results.empty()) return {};
  const std::string reason = WhyVoid(cases);
  if (!reason.empty()) return {Join("No ", words_.variant, " is called fastest: ", reason, ".")};
  std::vector<std::string> sentences = {
      Join(results.size() == 1 ? OneCase(results[0]) : ManyCases(results), ".")};
  const bool is_oversubscribed = std::ranges::any_of(
      cases, [](const Case* one_case) { return one_case->HasFlag(Flag::kOversubscribed); });
  if (is_oversubscribed) sentences.push_back("Measured with more threads than CPUs.");
  return sentences;
}

std::vector<std::vector<const Contest::Case*>> Contest::CasesByRun() const {
  std::vector<std::vector<const Case*>> by_run;
  for (const Case& one_case : cases_) {
    auto found = std::ranges::find_if(
        by_run, [&](const std::vector<const Case*>& cases) { return cases[0]->run == one_case.run; });
    if (found == by_run.end()) found = by_run.emplace(found);
    found->push_back(&one_case);
  }
  return by_run;
}

std::vector<std::string> Contest::Sentences(const Intervals& intervals) const {
  const std::vector<std::vector<const Case*>> by_run = CasesByRun();
  std::vector<const Case*> sound;  // of runs in which a winner may be named
  std::vector<RunKey> runs;
  for (const std::vector<const Case*>& cases : by_run) {
    if (WhyVoid(cases).empty()) sound.insert(sound.end(), cases.begin(), cases.end());
    runs.push_back(cases[0]->run);
  }
  if (by_run.empty()) return {};
  std::vector<std::string> all = SentencesOf(sound.empty() ? by_run[0] : sound, intervals);
  if (by_run.size() == 1 || all.empty()) return all;
  all.resize(1);
  if (by_run.size() > kMaxRuns) return all;
  const std::vector<std::string> prefixes = PrefixesOf(runs);
  for (size_t i = 0; i < by_run.size(); ++i) {
    for (const std::string& sentence : SentencesOf(by_run[i], intervals))
      all.push_back(prefixes[i] + sentence);
  }
  return all;
}

bool Contest::IsAmongFastest(const Place& place, const Intervals& intervals) const {
  if (place.of_case >= cases_.size()) return false;
  const Case& own = cases_[place.of_case];
  const bool is_void = std::ranges::any_of(CasesByRun(), [&](const std::vector<const Case*>& cases) {
    return cases[0]->run == own.run && !WhyVoid(cases).empty();
  });
  if (is_void) return false;
  const Result result = ResultOf(own, intervals);
  const std::string& name = own.variants[place.variant].name;
  return std::ranges::count(result.best, name) > 0 && result.shown_faster.contains(name);
}

void Contest::AddDifferences(const std::string& prefix, const Intervals& intervals, Table* table) const {
  for (const Case& one_case : cases_) {
    for (const Pair& pair : one_case.pairs) {
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
  for (const auto& entry : by_strategy) {
    const std::vector<ShareInCell>& own = entry.second;
    const auto note = [&](const std::string& direction, const char* along) {
      if (!direction.empty()) found[Join(direction, " with every larger ", along)].push_back(entry.first);
    };
    note(DirectionOf(own, &ShareInCell::batch_size, &ShareInCell::seq_len), "batch");
    note(DirectionOf(own, &ShareInCell::seq_len, &ShareInCell::batch_size), "sequence");
  }
  if (found.empty()) return "No trend of the cost's share over batch or sequence is shown.";
  if (found.size() > 2)
    return "How the cost's share changes with batch and sequence differs between strategies.";
  std::string text;
  for (const auto& [what, strategies] : found) {
    const bool are_all = strategies.size() == by_strategy.size();
    std::string who = are_all ? "every strategy" : Listed(strategies);
    if (std::ranges::count(who, ' ') > 3) who = CountWord(strategies.size()) + " strategies";
    text += Join(text.empty() ? "The cost's share " : ", and ", what, " under ", who);
  }
  return text + ".";
}

}  // namespace gradsync::tools
