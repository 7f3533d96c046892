#ifndef GRADSYNC_TOOLS_TABLES_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_FINDINGS_H_

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/error.h"
#include "tools/records/measurement.h"
#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/builder.h"
#include "tools/tables/intervals.h"
#include "tools/tables/table.h"

// Sentences that say what step times show, and no more than they carry.
namespace gradsync::tools {

// A strategy, or whatever else is compared in a case.
struct Variant {
  std::string name;
  Sample steps{};
  Flags flags{};
};

// Where variants are compared: a batch size and a sequence length, or whatever else the name says.
struct Case {
  std::string name;  // "2x128"
  std::vector<Variant> variants{};
};

// What variants and cases are called.
struct Words {
  std::string variant = "strategy";
  std::string of_case = "cell";
  std::string at = "in";  // "in 2 of 6 cells"
};

// Which strategy is fastest, by how much, and where these data decide nothing. `none` does not compete, nor
// does a strategy whose gradients are wrong. There is no winner, but the reason, where a flag makes times
// void: a single rank, steps that also wrote a trace, fewer than 10 steps, figures without samples,
// strategies that were measured one after the other.
//
// A strategy is called fastest in a case if it is shown faster than each of the others there, which is if
// the interval of each difference excludes 0. The table's other intervals are of the same family (see
// Intervals), so that the best may be picked for its mean, and sentence and table agree.
class Contest {
 public:
  // `baseline`: the variant that sentences compare with, if it competes.
  Contest(std::vector<Case> cases, std::string baseline, Words words = {})
      : cases_(std::move(cases)), baseline_(std::move(baseline)), words_(std::move(words)) {}

  // Adds all pairs that compete: any of them might be the best one and another.
  void Compare(Intervals* intervals);

  // First, in 25 words, who is fastest. None if fewer than two compete. Of these and the rest: once the
  // intervals are computed.
  std::vector<std::string> Sentences(const Intervals& intervals) const;
  // Whether it is not shown slower than the fastest mean of its case, and is shown faster than some.
  bool IsAmongFastest(const std::string& case_name, const std::string& variant,
                      const Intervals& intervals) const;
  // Adds all pairs to a DifferencesTable; the names of cases begin with `prefix`.
  void AddDifferences(const std::string& prefix, const Intervals& intervals, Table* table) const;

 private:
  struct Pair {
    std::string a;  // whose mean is smaller
    std::string b;
    double difference = 0;  // of a, relative to b
    size_t number = 0;      // of its interval
  };
  // What the pairs of a case show.
  struct Result {
    std::string of_case;
    std::vector<std::string> best{};       // the fastest mean, and those not shown slower
    std::vector<std::string> slower{};     // the others
    bool are_ahead = true;                 // each of the best is shown faster than each of the others
    std::set<std::string> shown_faster{};  // than some
    bool are_apart = false;                // of the best some are shown different
    std::optional<Interval> gain{};  // of the best against the baseline, as parts of it; if all are faster
    double least_gain = 0;           // of a single best against each other one, at least
  };
  Result ResultOf(const std::string& case_name, const Intervals& intervals) const;
  std::string WhyVoid() const;
  std::string OneCase(const Result& result) const;
  std::string ManyCases(const std::vector<Result>& results) const;

  std::vector<Case> cases_;
  std::string baseline_;
  Words words_;
  std::map<std::string, std::vector<Pair>> pairs_;  // by case; the fastest mean's come first
};

// Differences of pairs, for machines.
Table DifferencesTable(std::string name);

// How the share of the cost in a step changes from cell to cell, in at most 25 words.
struct ShareInCell {
  std::string strategy;
  double batch_size = 0;
  double seq_len = 0;
  Interval interval;
};
// A share falls with every larger batch if, at every sequence length, the interval of each next batch lies
// below that of the one before it.
std::string TrendSentence(const std::vector<ShareInCell>& shares);

// The item of a name, a new one at the end if there is none.
template <class Item>
Item& Named(const std::string& name, std::vector<Item>* items) {
  const auto found = std::ranges::find(*items, name, &Item::name);
  if (found != items->end()) return *found;
  items->push_back({.name = name});
  return items->back();
}

// What is said of each group; begins with its name where there are several.
template <class Group>
std::vector<std::string> SentencesOfRuns(
    const std::vector<Group>& groups,
    const std::function<std::vector<std::string>(const Group&)>& sentences_of) {
  std::vector<std::string> all;
  for (const Group& group : groups) {
    for (std::string& sentence : sentences_of(group)) {
      all.push_back(groups.size() == 1 ? std::move(sentence) : Join("Run ", group.name, ": ", sentence));
    }
  }
  return all;
}

// Collects the cases of each run (model, backend, ...), for a table.
class StepFindings {
 public:
  void Add(const Measured& row, const Series& steps, const Flags& flags);
  void Compare(Intervals* intervals);

  // None if there are too many runs or rows for sentences.
  std::vector<std::string> Sentences(const Intervals& intervals) const;
  bool IsAmongFastest(const Measurement& measurement, const Intervals& intervals) const;
  void AddDifferences(const Intervals& intervals, Table* table) const;

 private:
  struct Group {
    std::string name;
    std::vector<Case> cases{};
    std::string baseline{};
    std::optional<Contest> contest{};  // once all cases are there
  };
  bool is_too_much() const;

  std::vector<Group> groups_;
  std::map<const Measurement*, std::array<std::string, 3>> places_;  // group, case, variant
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FINDINGS_H_
