#include "tools/analysis/answers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "bench/records/rounds.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/pairs.h"
#include "tools/analysis/words.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMostNames = 6;   // further names are only counted
constexpr size_t kMostPlaces = 4;  // with more places, only the table has costs
// Estimates vary between runs. A difference is shown in four of five runs if it is this number of half-widths
// of the interval. The number is 1 + 0.84 / z, with the z of the interval, which is 2.6 to 3 for six to
// twenty simultaneous intervals.
constexpr double kHalfWidthsToShow = 1.3;

using Members = std::vector<const Answer*>;

// Returns "slower by 8 to 12 %" for one row; for several rows "slower by at least 8 %", with the end of all
// intervals that is nearest to zero; or "equal within 2 %", with the end that is furthest from zero.
std::string By(Verdict verdict, const Members& members, const AnswerWords& words) {
  if (verdict == Verdict::kOpen) return "open";
  if (verdict == Verdict::kNone) return "no verdict";
  double least = kNaN, most = kNaN;
  Interval by;
  for (const Answer* answer : members) {
    by = answer->difference.interval;
    if (verdict == Verdict::kFaster) by = {-by.high, -by.low};
    least = std::fmin(least, by.low);
    most = std::fmax(most, std::fmax(-by.low, by.high));
  }
  if (verdict == Verdict::kEqual) return "equal within " + PercentAtMost(most);
  return Join(verdict == Verdict::kSlower ? words.slower : words.faster, " by ",
              members.size() > 1 ? "at least " + PercentAtLeast(least) : PercentRange(by));
}

// Returns the name of an answer in a group: its place if the group is about one row, else its row.
std::string Listing(const Members& members, bool by_row) {
  if (members.size() > kMostNames) return Join(members.size(), by_row ? " places" : " rows");
  std::vector<std::string> names;
  for (const Answer* answer : members) {
    std::string& name = names.emplace_back(by_row ? answer->place : answer->row);
    if (answer->verdict == Verdict::kNone) name += Join(" (", answer->remark, ")");
    if (answer->verdict != Verdict::kOpen) continue;
    name += Join(" (", PercentRange(answer->difference.interval),
                 answer->remark.empty() ? "" : ", decided with " + answer->remark, ")");
  }
  return Listed(names);
}

std::string WriteSentence(std::string head, const Members& members, bool by_row, const AnswerWords& words) {
  std::vector<std::string> parts;
  for (const Verdict verdict :
       {Verdict::kSlower, Verdict::kFaster, Verdict::kEqual, Verdict::kOpen, Verdict::kNone}) {
    Members own;
    std::ranges::copy_if(members, std::back_inserter(own),
                         [&](const Answer* answer) { return answer->verdict == verdict; });
    if (own.empty()) continue;
    parts.push_back(Join(By(verdict, own, words), ": ", Listing(own, by_row)));
  }
  if (!by_row) head[0] = static_cast<char>(std::toupper(head[0]));
  return Join(head, words.what.empty() ? "" : ", ", words.what, ": ", absl::StrJoin(parts, "; "), ".");
}

// The baselines of a setting.
struct Baselines {
  std::vector<std::pair<NamedSetting, const Comparison*>> all;
  std::set<std::string> backends;
};

Baselines BaselinesOf(const Settings& settings, bool with_void = false) {
  Baselines bases;
  for (const NamedSetting& at : settings) {
    if (!with_void && !at.setting->void_reason.empty()) continue;
    for (const Comparison& own : at.setting->comparisons) {
      if (!own.is_of_baseline() || Has(own.row->warnings, Warning::kUnequal)) continue;
      bases.all.emplace_back(at, &own);
      bases.backends.insert(own.row->backend());
    }
  }
  return bases;
}

// Returns "batch 2 over gloo", without the backend if there is only one backend, or if rows over all backends
// are compared.
std::string NamePlace(const NamedSetting& at, const Comparison& own, const Baselines& bases) {
  if (bases.backends.size() < 2 || own.spans_backends) return at.name;
  return Join(at.name, at.name.empty() ? "" : " ", "over ", own.row->backend());
}

// Returns the factor by which the number of rounds must grow until a difference is shown, or shown to be
// within kEqualWithin. Assumes that the estimate does not change, and that the interval narrows with the
// square root of the number of rounds.
double TimesToDecide(const Estimate& estimate) {
  const double size = std::abs(estimate.value);
  // Of an interval that was cut at -100 %, the other half tells its width.
  const double half_width =
      std::max(estimate.interval.high - estimate.value, estimate.value - estimate.interval.low);
  return std::max(1.0, std::pow(kHalfWidthsToShow * half_width / std::max(size, kEqualWithin - size), 2));
}

// Whether it may be the row to use, if it is fast.
bool TakesPart(const Comparison& own) {
  return own.row->measured->is_exact() && own.no_verdict.empty() &&
         (own.is_of_baseline() || own.verdict != Verdict::kNone);
}

bool HaveFewerRowsThanPlaces(const std::vector<Answer>& answers) {
  std::set<std::string> places, rows;
  for (const Answer& answer : answers) places.insert(answer.place), rows.insert(answer.row);
  return rows.size() < places.size();
}

// Adds how much longer the step of `slower` is at least than that of `fastest`; one of the two is the
// baseline. `bound` is the one-sided bound of their direct comparison. Where the interval in the table shows
// the difference, the interval counts, so that the advice has the table's figures; else the bound does, and
// the table shows it.
void AddLead(const Comparison& slower, const Comparison& fastest, double bound, Choice* choice) {
  const bool is_to_slower = fastest.is_of_baseline();
  const Comparison& judged = is_to_slower ? slower : fastest;
  const Interval& interval = judged.estimate.interval;
  const double shown = is_to_slower ? interval.low : -interval.high;
  if (shown > 0) {
    choice->lead = std::fmin(choice->lead, shown);
    return;
  }
  choice->lead = std::fmin(choice->lead, bound);
  if (bound > 0) choice->bounds[&judged] = is_to_slower ? bound : -bound;
}

// Returns "core costs 19 to 26 ms of its 98.8 ms step"; empty if the cost is unknown.
std::string CostText(const Cost& cost) {
  const Interval interval = cost.row == nullptr ? Interval() : cost.told().interval;
  if (!interval.is_known()) return "";
  return Join(cost.row->label, " costs ",
              interval.low > 0    ? TimeRange(interval)
              : interval.high > 0 ? "at most " + TimeText(interval.high)
                                  : "nothing",
              " of its ", TimeText(cost.row->step_s), " step");
}

}  // namespace

std::vector<std::string> WriteSentences(const std::vector<Answer>& answers, const AnswerWords& words) {
  const bool by_row = HaveFewerRowsThanPlaces(answers);
  std::vector<std::pair<std::string, Members>> groups;
  for (const Answer& answer : answers) {
    if (answer.verdict == Verdict::kNone && answer.remark.empty()) continue;
    const std::string& first = by_row ? answer.row : answer.place;
    const std::string head = Join(first,
                                  first.empty() ? ""
                                  : by_row      ? " "
                                                : ", ",
                                  "against ", answer.baseline);
    auto group = std::ranges::find(groups, head, &std::pair<std::string, Members>::first);
    if (group == groups.end()) group = groups.insert(group, {head, {}});
    group->second.push_back(&answer);
  }
  std::vector<std::string> sentences;
  for (const auto& [head, members] : groups) sentences.push_back(WriteSentence(head, members, by_row, words));
  return sentences;
}

Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison) {
  return {place,
          comparison.row->label,
          comparison.base->label,
          comparison.verdict,
          comparison.estimate,
          comparison.verdict == Verdict::kOpen ? OptionsToDecide(setting, comparison.estimate)
                                               : comparison.no_verdict};
}

std::vector<Answer> MakeAnswers(const Settings& settings) {
  std::vector<Answer> answers;
  const Baselines bases = BaselinesOf(settings);
  std::map<const Setting*, RowPairs> sizes;
  for (const auto& [at, base] : bases.all) {
    for (const Comparison& own : at.setting->comparisons) {
      if (own.base == base->row && !own.row->is_floor() && !own.is_of_baseline())
        answers.push_back(MakeAnswer(NamePlace(at, *base, bases), *at.setting, own));
    }
    const auto first = std::ranges::find_if(bases.all, [&, at = at, base = base](const auto& other) {
      return other.first.setting == at.setting && other.second->row->strategy() == base->row->strategy() &&
             other.second->row->backend() == base->row->backend();
    });
    if (first->second != base) sizes[at.setting].push_back({base->row, first->second->row});
  }
  for (const NamedSetting& at : settings) {
    const RowPairs& pairs = sizes[at.setting];
    const std::vector<Estimate> estimates = CompareSteps(*at.setting, pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      Comparison own{.row = pairs[i].own, .base = pairs[i].base, .estimate = estimates[i]};
      Judge(&own);
      answers.push_back(MakeAnswer(NamePlace(at, own, bases), *at.setting, own));
    }
  }
  return answers;
}

std::vector<const Comparison*> Choice::comparisons() const {
  std::vector<const Comparison*> own;
  for (const Comparison& comparison : setting().comparisons) {
    if (comparison.base == base->row) own.push_back(&comparison);
  }
  return own;
}

const Comparison* Choice::Find(const std::string& label) const {
  for (const Comparison* const own : comparisons()) {
    if (own->row->label == label) return own;
  }
  return nullptr;
}

std::vector<Choice> MakeChoices(const Settings& settings) {
  std::vector<Choice> choices;
  const Baselines bases = BaselinesOf(settings, /*with_void=*/true);
  for (const auto& [at, base] : bases.all) {
    Choice& choice = choices.emplace_back(Choice{at, base});
    std::vector<const Comparison*> rows, early;
    for (const Comparison* const own : choice.comparisons()) {
      if (own->row->left_early) choice.left_early.push_back(own);
      if (TakesPart(*own)) (own->row->left_early ? early : rows).push_back(own);
    }
    if (rows.empty() || rows.size() + early.size() < 2 || !at.setting->takes_turns()) continue;
    std::ranges::stable_sort(rows, {}, [](const Comparison* own) { return own->estimate.value; });
    const std::vector<std::vector<double>> leads = FindLeads(*at.setting, rows);
    std::vector<size_t> candidates;
    for (size_t k = 0; k < rows.size(); ++k) {
      if (MayBeFastest(leads[k])) candidates.push_back(k);
    }
    if (candidates.empty()) continue;  // each row is slower than some other row
    const size_t first = candidates[0];
    double most_behind = 0;  // largest bound of any candidate
    for (const size_t k : candidates) {
      choice.candidates.push_back(rows[k]);
      for (const size_t other : candidates) {
        if (other == k) continue;
        most_behind = std::max(most_behind, -leads[other][k]);
        if (k != first) continue;
        choice.behind = std::max(choice.behind, -leads[other][k]);
        choice.differences = choice.differences.With({leads[k][other], -leads[other][k]});
      }
    }
    const bool is_alone = candidates.size() == 1;
    choice.state = is_alone                       ? State::kUse
                   : most_behind < kEqualWithin   ? State::kEqual
                   : choice.behind < kEqualWithin ? State::kUse
                                                  : State::kUndecided;
    if (choice.state == State::kEqual) choice.behind = most_behind;
    const auto may_be_fastest = [](const Comparison* own) { return own->may_be_fastest && TakesPart(*own); };
    std::ranges::copy_if(choice.left_early, std::back_inserter(choice.doubtful), may_be_fastest);
    if (!choice.doubtful.empty()) choice.state = State::kUndecided;
    for (size_t k = 0; is_alone && k < rows.size(); ++k) {
      if (k != first && (rows[first] == base || rows[k] == base))
        AddLead(*rows[k], *rows[first], leads[k][first], &choice);
    }
    if (is_alone && rows[first] == base) {
      for (const Comparison* const own : early)
        choice.lead = std::fmin(choice.lead, own->estimate.interval.low);
    }
  }
  return choices;
}

std::string ChooseForLaunches(const Settings& settings) {
  const std::vector<Choice> choices = MakeChoices(settings);
  std::vector<std::string> all, chosen, leaders;
  size_t num_rounds = 1;
  for (const NamedSetting& at : settings) {
    num_rounds = std::max(num_rounds, at.setting->num_rounds);
    for (const Row& row : at.setting->rows) {
      if (row.is_peer()) continue;  // They go with the rows that they are compared with.
      const Comparison own = at.setting->ComparisonOf(row);
      const bool leaves = std::ranges::any_of(choices, [&](const Choice& choice) {
        const auto is_own = [&](const Comparison* candidate) { return candidate->row == &row; };
        return choice.base->row == own.base && !choice.candidates.empty() && !own.is_of_baseline() &&
               TakesPart(own) && std::ranges::none_of(choice.candidates, is_own);
      });
      for (std::vector<std::string>* const names : {&all, &chosen}) {
        if (std::ranges::count(*names, row.variant()) == 0 && !(leaves && names == &chosen))
          names->push_back(row.variant());
      }
    }
  }
  for (const Choice& choice : choices) {
    if (!choice.candidates.empty())
      leaders.push_back(
          Join(choice.candidates[0]->row->variant(), choice.at.name.empty() ? "" : " at ", choice.at.name));
  }
  const auto block = static_cast<size_t>(bench::RoundsPerBlock(std::ssize(chosen)));
  return Join("--variants=", absl::StrJoin(chosen, ","),
              " --steps=", (num_rounds + block - 1) / block * block, "\n", chosen.size(), " of ", all.size(),
              " variants go on. The fastest so far: ", leaders.empty() ? "unknown" : Listed(leaders), "\n");
}

std::string WriteSentence(const Choice& choice) {
  std::vector<std::string> names, without, doubtful;
  for (const Comparison* const own : choice.doubtful) doubtful.push_back(own->row->label);
  for (const Comparison* const own : choice.candidates) names.push_back(own->row->label);
  for (const Comparison* const own : choice.comparisons()) {
    if (!own->no_verdict.empty()) without.push_back(Join(own->row->label, " (", own->row->no_verdict, ")"));
  }
  const std::string excluded = without.empty() ? "" : Join("; not judged: ", Listed(without));
  switch (choice.state) {
    case State::kNone:
      if (!choice.base->no_verdict.empty())
        return Join("No answer: ", choice.base->row->label, " ", choice.base->no_verdict);
      if (!choice.setting().void_reason.empty()) return "";
      return Join("No answer: ",
                  choice.setting().takes_turns() ? "no two exact rows to compare" : "rows did not take turns",
                  excluded);
    case State::kEqual:
      return Join("Equal within ", PercentAtMost(choice.behind), ": use ", absl::StrJoin(names, " or "),
                  excluded);
    case State::kUndecided:
      if (!doubtful.empty())
        return Join("Undecided: launches differ so much that ", Listed(doubtful),
                    " may have left early by chance", excluded);
      return Join("Undecided: ", Listed(names), " differ by less than can be told (",
                  PercentRange(choice.differences), ")", excluded);
    case State::kUse:
      break;
  }
  const Comparison& first = *choice.candidates[0];
  const Interval& interval = first.estimate.interval;
  const std::string& base = choice.base->row->label;
  const std::string behind = PercentAtMost(choice.behind);
  std::string why = choice.behind > 0 ? Join("no other exact row is more than ", behind, " faster")
                                      : "faster than all other exact rows";
  if (first.is_of_baseline() && choice.lead > 0) {
    why = Join("all other exact rows take at least ", PercentAtLeast(choice.lead), " longer");
  } else if (first.verdict == Verdict::kFaster || choice.lead > 0) {
    why = first.verdict == Verdict::kFaster
              ? Join(PercentRange({-interval.high, -interval.low}), " faster than ", base)
              : Join("at least ", PercentAtLeast(choice.lead), " faster than ", base);
    names.erase(names.begin());
    if (!names.empty()) why += Join("; ", Listed(names), " may be up to ", behind, " faster still");
  }
  return Join("Use ", first.row->label, ": ", why, excluded);
}

std::string CostSentence(const Settings& settings) {
  std::vector<std::string> parts;
  const Baselines bases = BaselinesOf(settings);
  for (const auto& [at, base] : bases.all) {
    const std::string text = CostText(at.setting->CostOf(*base->row)), place = NamePlace(at, *base, bases);
    if (!text.empty())
      parts.push_back(Join(text, place.empty() ? "" : place.starts_with("over ") ? " " : " at ", place));
  }
  return parts.empty() || parts.size() > kMostPlaces ? "" : absl::StrJoin(parts, "; ") + ".";
}

std::string NoVerdict(const Settings& settings) {
  const auto is_void =
      std::ranges::find_if(settings, [](const NamedSetting& at) { return !at.setting->void_reason.empty(); });
  return is_void == settings.end() ? "" : "No verdict. " + is_void->setting->void_reason;
}

std::string NotCompared(const Settings& settings) {
  std::vector<std::string> rows;
  std::set<std::string> backends;
  const Row* base = nullptr;
  for (const auto& [setting, name] : settings) {
    for (const Row& row : setting->rows) {
      const Row* const own = setting->ComparisonOf(row).base;
      if (base == nullptr) base = own;
      if (own != nullptr || row.is_floor() || row.is_peer() || std::isnan(row.step_s)) continue;
      rows.push_back(Join(row.variant(), " (", TimeText(row.step_s), ")"));
      backends.insert(row.backend());
    }
  }
  if (rows.empty()) return "";
  return Join("Not compared, because there is no ", base->strategy(), " over ",
              absl::StrJoin(backends, " and "), ": ",
              rows.size() > kMostNames ? Join(rows.size(), " rows") : Listed(rows),
              ". `summarize DIR --baseline_row=", base->variant(), "` compares all with one row.");
}

double SecondsToDecide(const Setting& setting, const Estimate& difference) {
  const auto launches =
      static_cast<double>(setting.num_looks > 1 ? setting.num_looks + 1 : setting.num_launches);
  const auto block = static_cast<double>(bench::RoundsPerBlock(setting.num_in_turn()));
  const double rounds = TimesToDecide(difference) * static_cast<double>(setting.num_rounds) / launches;
  // Adds half a block, because a run ends when it has no time for another block, and may be a little slower.
  return block * (std::ceil(rounds / block) + 0.5) * setting.round_s * launches;
}

std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share) {
  if (difference.by_launches) {
    const auto launches = static_cast<double>(setting.num_launches);
    const double wanted = std::ceil(launches * TimesToDecide(difference));
    // Launches keep their duration, because all launches share the time.
    const double seconds =
        share * wanted * static_cast<double>(setting.num_rounds) / launches * setting.round_s;
    const bool has_time = setting.takes_turns() && setting.any().config().Find("time") != nullptr;
    return Join("`", has_time ? Join("--time=", DurationFlag(seconds), " ") : "",
                "--repeats=", Fixed(wanted, 0), "`");
  }
  const bool has_more = setting.num_launches > 1 && setting.num_looks == 1;
  return Join("`--time=", DurationFlag(share * SecondsToDecide(setting, difference)),
              has_more ? Join(" --repeats=", setting.num_launches) : "", "`");
}

}  // namespace gradsync::tools
