#include "tools/tables/answers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMostNames = 6;   // more are counted
constexpr size_t kMostPlaces = 4;  // of more, the table alone tells costs
// An estimate moves from run to run: a difference is shown in four of five runs where it is so many
// half-widths. That is 1 + 0.84 / z for the z of the interval: 2.6 to 3 for six to twenty at once.
constexpr double kHalfWidthsToShow = 1.3;

using Members = std::vector<const Answer*>;

// "slower by 8 to 12 %", of several "slower by at least 8 %": by the end of all intervals that is nearest to
// zero.
std::string By(const char* word, const Members& members, bool is_less) {
  double least = kNaN;
  Interval by;
  for (const Answer* answer : members) {
    by = answer->difference.interval;
    if (is_less) by = {-by.high, -by.low};
    least = std::fmin(least, by.low);
  }
  return Join(word, " by ", members.size() > 1 ? "at least " + PercentAtLeast(least) : PercentRange(by));
}

// What an answer of a group is called in it: its place in a group of one row, else its row.
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

std::string SentenceOf(std::string head, const Members& members, bool by_row, const AnswerWords& words) {
  std::vector<std::string> parts;
  for (const Verdict verdict :
       {Verdict::kSlower, Verdict::kFaster, Verdict::kEqual, Verdict::kOpen, Verdict::kNone}) {
    Members own;
    std::ranges::copy_if(members, std::back_inserter(own),
                         [&](const Answer* answer) { return answer->verdict == verdict; });
    if (own.empty()) continue;
    const std::string text = verdict == Verdict::kSlower   ? By(words.slower, own, false)
                             : verdict == Verdict::kFaster ? By(words.faster, own, true)
                             : verdict == Verdict::kEqual
                                 ? Join("equal within ", Fixed(100 * kEqualWithin, 0), " %")
                             : verdict == Verdict::kOpen ? "open"
                                                         : "no verdict";
    parts.push_back(Join(text, ": ", Listing(own, by_row)));
  }
  if (!by_row) head[0] = static_cast<char>(std::toupper(head[0]));
  return Join(head, words.what.empty() ? "" : ", ", words.what, ": ", absl::StrJoin(parts, "; "), ".");
}

// The rows that others are compared with.
struct Baselines {
  std::vector<std::pair<const Cell*, const Row*>> rows;
  std::set<std::string> backends;
};

Baselines BaselinesOf(const std::vector<Cell>& cells, bool with_void = false) {
  Baselines bases;
  for (const Cell& cell : cells) {
    for (size_t i = 0; i < cell.rows.size() && (with_void || cell.void_reason.empty()); ++i) {
      const Row& row = cell.rows[i];
      if (row.baseline != i || Has(row.flags, Flag::kUnequal)) continue;
      bases.rows.emplace_back(&cell, &row);
      bases.backends.insert(row.backend());
    }
  }
  return bases;
}

// "batch 2 over gloo", without the backend where there is one, or where rows over all are compared.
std::string PlaceOf(const Cell& cell, const Row& row, const Baselines& bases) {
  if (bases.backends.size() < 2 || row.spans_backends) return cell.name;
  return Join(cell.name, cell.name.empty() ? "" : " ", "over ", row.backend());
}

// How many times the rounds it has it needs to be shown, or shown to be within kEqualWithin, if the estimate
// stays where it is and the interval narrows with the root of the rounds.
double TimesToDecide(const Estimate& estimate) {
  const double size = std::abs(estimate.value), half_width = estimate.interval.half_width();
  return std::max(1.0, std::pow(kHalfWidthsToShow * half_width / std::max(size, kEqualWithin - size), 2));
}

bool HaveFewerRowsThanPlaces(const std::vector<Answer>& answers) {
  std::set<std::string> places, rows;
  for (const Answer& answer : answers) places.insert(answer.place), rows.insert(answer.row);
  return rows.size() < places.size();
}

// "core costs 19 to 26 ms of its 98.8 ms step"; empty if its cost is unknown.
std::string CostText(const Row& row) {
  const Interval& cost = row.told_cost.interval;
  if (!cost.is_known()) return "";
  return Join(row.label(), " costs ",
              cost.low > 0    ? TimeRange(cost)
              : cost.high > 0 ? "at most " + TimeText(cost.high)
                              : "nothing",
              " of its ", TimeText(row.step_s), " step");
}

}  // namespace

std::vector<std::string> SentencesOf(const std::vector<Answer>& answers, const AnswerWords& words) {
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
  for (const auto& [head, members] : groups) sentences.push_back(SentenceOf(head, members, by_row, words));
  return sentences;
}

std::string CountsOf(const std::vector<Answer>& answers) {
  std::vector<std::string> parts;
  for (const Verdict verdict : {Verdict::kSlower, Verdict::kFaster, Verdict::kEqual, Verdict::kOpen}) {
    if (const auto count = std::ranges::count(answers, verdict, &Answer::verdict); count > 0)
      parts.push_back(Join(count, " ", WordOf(verdict)));
  }
  return absl::StrJoin(parts, ", ");
}

Answer AnswerOf(const Cell& cell, const Row& row) {
  return {cell.name,
          row.label(),
          cell.rows[row.baseline].label(),
          row.verdict,
          row.against_baseline,
          row.verdict == Verdict::kOpen ? OptionsToDecide(cell, row.against_baseline) : row.no_verdict};
}

std::vector<Answer> AnswersOf(const std::vector<Cell>& cells) {
  std::vector<Answer> answers;
  const Baselines bases = BaselinesOf(cells);
  for (const auto& [cell, base] : bases.rows) {
    for (const Row& row : cell->rows) {
      if (row.baseline == Row::kNone || &cell->rows[row.baseline] != base || row.is_floor() || &row == base)
        continue;
      answers.push_back(AnswerOf(*cell, row));
      answers.back().place = PlaceOf(*cell, *base, bases);
    }
  }
  std::map<const Cell*, RowPairs> sizes;
  for (const auto& [cell, base] : bases.rows) {
    const auto first = std::ranges::find_if(bases.rows, [&, cell = cell, base = base](const auto& other) {
      return other.first == cell && other.second->strategy() == base->strategy() &&
             other.second->backend() == base->backend();
    });
    if (first->second != base) sizes[cell].emplace_back(base, first->second);
  }
  for (const auto& [cell, pairs] : sizes) {
    const std::vector<Estimate> estimates = CompareSteps(*cell, pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      Row row = *pairs[i].first;
      row.baseline = static_cast<size_t>(pairs[i].second - cell->rows.data());
      row.against_baseline = estimates[i];
      SetVerdict(*pairs[i].second, &row);
      answers.push_back(AnswerOf(*cell, row));
      answers.back().place = PlaceOf(*cell, row, bases);
    }
  }
  return answers;
}

std::vector<Choice> ChoicesOf(const std::vector<Cell>& cells) {
  std::vector<Choice> choices;
  const Baselines bases = BaselinesOf(cells, /*with_void=*/true);
  for (const auto& [cell, base] : bases.rows) {
    Choice& choice = choices.emplace_back(Choice{cell, base, PlaceOf(*cell, *base, bases)});
    std::vector<const Row*> rows;
    for (const Row& row : cell->rows) {
      const bool is_exact = row.facts().StringOr("agreement", "exact") == "exact";
      const bool is_here = &row == base || (row.baseline == static_cast<size_t>(base - cell->rows.data()) &&
                                            row.verdict != Verdict::kNone);
      if (is_exact && is_here && row.no_verdict.empty()) rows.push_back(&row);
    }
    if (rows.size() < 2 || !cell->void_reason.empty()) continue;
    const std::vector<std::vector<double>> leads = LeadsOf(*cell, rows);
    const auto difference = [&, base = base](size_t k) {
      return rows[k] == base ? 0 : rows[k]->against_baseline.value;
    };
    size_t best = rows.size();
    for (size_t k = 0; k < rows.size(); ++k) {
      if (MayBeFastest(leads[k]) && (best == rows.size() || difference(k) < difference(best))) best = k;
    }
    if (best == rows.size()) continue;  // each is slower than another one
    choice.best = rows[best];
    for (size_t k = 0; k < rows.size(); ++k) {
      if (k == best) continue;
      if (MayBeFastest(leads[k])) {
        choice.rivals.push_back(rows[k]);
      } else if (choice.best == base || rows[k] == base) {
        choice.lead = std::fmin(choice.lead, leads[k][best]);
      }
    }
  }
  return choices;
}

std::string SentenceOf(const Choice& choice) {
  if (choice.best == nullptr) return "";
  std::vector<std::string> rivals;
  for (const Row* row : choice.rivals) {
    if (row != choice.base) rivals.push_back(row->label());
  }
  const std::string perhaps = rivals.empty() ? "" : Join("; ", Listed(rivals), " may be as fast");
  const Answer answer = AnswerOf(*choice.cell, *choice.best);
  const Interval& interval = answer.difference.interval;
  if (choice.best == choice.base)
    return Join(choice.lead > 0 ? "other exact rows take at least " + PercentAtLeast(choice.lead) + " longer"
                                : "no exact row is shown to be faster",
                perhaps);
  return Join(answer.verdict == Verdict::kFaster
                  ? Join(PercentRange({-interval.high, -interval.low}), " faster than ", answer.baseline)
              : choice.lead > 0
                  ? Join("at least ", PercentAtLeast(choice.lead), " faster than ", answer.baseline)
                  : Join("not told apart from ", answer.baseline, " (", PercentRange(interval), ")"),
              perhaps);
}

std::string CostSentence(const std::vector<Cell>& cells) {
  std::vector<std::string> parts;
  const Baselines bases = BaselinesOf(cells);
  for (const auto& [cell, base] : bases.rows) {
    const std::string text = CostText(*base), place = PlaceOf(*cell, *base, bases);
    if (!text.empty())
      parts.push_back(Join(text, place.empty() ? "" : place.starts_with("over ") ? " " : " at ", place));
  }
  return parts.empty() || parts.size() > kMostPlaces ? "" : absl::StrJoin(parts, "; ") + ".";
}

std::string NoVerdict(const std::vector<Cell>& cells) {
  const auto is_void =
      std::ranges::find_if(cells, [](const Cell& cell) { return !cell.void_reason.empty(); });
  return is_void == cells.end() ? "" : "No verdict. " + is_void->void_reason;
}

std::string NotCompared(const std::vector<Cell>& cells) {
  std::vector<std::string> rows;
  std::set<std::string> backends;
  const Row* base = nullptr;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (row.baseline != Row::kNone && base == nullptr) base = &cell.rows[row.baseline];
      if (row.baseline != Row::kNone || row.is_floor() || row.is_peer() || std::isnan(row.step_s)) continue;
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

double SecondsToDecide(const Cell& cell, const Estimate& difference) {
  const auto launches = static_cast<double>(cell.num_looks > 1 ? cell.num_looks + 1 : cell.num_launches);
  const auto block = static_cast<double>(RoundsPerBlock(cell));
  const double rounds = TimesToDecide(difference) * static_cast<double>(cell.num_rounds) / launches;
  // Half a block more: a run ends when it has no time for another one, and may be a little slower.
  return block * (std::ceil(rounds / block) + 0.5) * cell.round_s * launches;
}

std::string OptionsToDecide(const Cell& cell, const Estimate& difference, double share) {
  if (difference.by_launches) {
    const auto launches = static_cast<double>(cell.num_launches);
    const double wanted = std::ceil(launches * TimesToDecide(difference));
    // As long as they were: launches share the time.
    const double seconds = share * wanted * static_cast<double>(cell.num_rounds) / launches * cell.round_s;
    const bool has_time = cell.takes_turns() && cell.any().config().Find("time") != nullptr;
    return Join("`", has_time ? Join("--time=", DurationFlag(seconds), " ") : "",
                "--repeats=", Fixed(wanted, 0), "`");
  }
  const bool has_more = cell.num_launches > 1 && cell.num_looks == 1;
  return Join("`--time=", DurationFlag(share * SecondsToDecide(cell, difference)),
              has_more ? Join(" --repeats=", cell.num_launches) : "", "`");
}

}  // namespace gradsync::tools
