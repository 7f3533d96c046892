#ifndef GRADSYNC_TOOLS_TABLES_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_FINDINGS_H_

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/intervals.h"
#include "tools/tables/table.h"

// Sentences that say what step times show, and no more than they carry.
namespace gradsync::tools {

// A strategy, or whatever else is compared in a case.
struct Variant {
  std::string name;
  Sample steps{};
  Flags flags{};
  std::string detail{};  // "8KiB": told where the case has the name already
};

// What tells a run, and what was run, from others: "Run 20261121T101500-4f2a", "small", "gloo". As many in
// all keys of a table; sentences name those that differ.
using RunKey = std::vector<std::string>;
RunKey RunKeyOf(const Measurement& measurement, std::initializer_list<const char*> config_names);
// For each of them "Run 20261121T101500-4f2a, gloo: ", or nothing if it is the only one.
std::vector<std::string> PrefixesOf(const std::vector<RunKey>& runs);
// More runs than this are too many for sentences about each.
inline constexpr size_t kMaxRuns = 4;

// What variants and cases are called.
struct Words {
  std::string variant = "strategy";
  std::string of_case = "cell";
  std::string at = "in";  // "in 2 of 6 cells"
};

// Which strategy is fastest, by how much, and where these data decide nothing. `none` does not compete, nor
// does a strategy whose gradients are wrong. A run has no winner, but the reason, where a flag makes times
// void: a single rank, steps that also wrote a trace, fewer than 10 steps, figures without samples,
// strategies that were measured one after the other.
//
// A strategy is called fastest in a case if it is shown faster than each of the others there, which is if
// the interval of each difference excludes 0. The table's other intervals are of the same family (see
// Intervals), so that the best may be picked for its mean, and sentence and table agree.
class Contest {
 public:
  explicit Contest(Words words = {}) : words_(std::move(words)) {}

  // Of too many variants nothing is said, nor compared.
  static constexpr size_t kMaxVariants = 500;

  // Where a variant is.
  struct Place {
    size_t of_case = 0;
    size_t variant = 0;
  };
  // Adds a variant to the case `name` of a run: a batch size and a sequence length, "2x128". `baseline`: the
  // variant that sentences compare with, if it competes.
  Place Add(const RunKey& run, const std::string& name, const std::string& baseline, Variant variant);

  // Adds all pairs that compete: any of them might be the best one and another.
  void Compare(Intervals* intervals);

  // First, in 25 words, who is fastest; of several runs in all of them, then in each. None if nowhere two
  // compete. Of these and the rest: once the intervals are computed.
  std::vector<std::string> Sentences(const Intervals& intervals) const;
  // Whether it is not shown slower than the fastest mean of its case, and is shown faster than some.
  bool IsAmongFastest(const Place& place, const Intervals& intervals) const;
  // Adds all pairs to a DifferencesTable; the names of cases begin with `prefix`.
  void AddDifferences(const std::string& prefix, const Intervals& intervals, Table* table) const;

 private:
  struct Pair {
    std::string a;  // whose mean is smaller
    std::string b;
    double difference = 0;  // of a, relative to b
    size_t number = 0;      // of its interval
  };
  // Where variants are compared.
  struct Case {
    RunKey run;
    std::string name;
    std::string baseline;
    std::vector<Variant> variants{};
    std::vector<Pair> pairs{};  // the fastest mean's come first

    bool HasFlag(Flag flag) const;
  };
  // What the pairs of a case show.
  struct Result {
    std::string baseline;
    std::vector<std::string> best{};       // the fastest mean, and those not shown slower
    std::vector<std::string> slower{};     // the others
    bool are_ahead = true;                 // each of the best is shown faster than each of the others
    std::set<std::string> shown_faster{};  // than some
    bool are_apart = false;                // of the best some are shown different
    std::optional<Interval> gain{};  // of the best against the baseline, as parts of it; if all are faster
    double least_gain = 0;           // of a single best against each other one, at least
  };
  static Result ResultOf(const Case& one_case, const Intervals& intervals);
  // Why no winner can be named among these; empty if one can.
  static std::string WhyVoid(const std::vector<const Case*>& cases);
  std::string OneCase(const Result& result) const;
  std::string ManyCases(const std::vector<Result>& results) const;
  std::vector<std::string> SentencesOf(const std::vector<const Case*>& cases,
                                       const Intervals& intervals) const;
  // In the order of each run's first case.
  std::vector<std::vector<const Case*>> CasesByRun() const;

  Words words_;
  std::vector<Case> cases_;
  size_t num_variants_ = 0;
};

// Differences of pairs, for machines.
Table DifferencesTable(std::string name);

// The share of the cost in a step.
struct ShareInCell {
  std::string strategy;
  double batch_size = 0;
  double seq_len = 0;
  Interval interval;
};
// How the share changes from cell to cell, in at most 25 words. It falls with every larger batch if, at every
// sequence length, the interval of each next batch lies below that of the one before it.
std::string TrendSentence(const std::vector<ShareInCell>& shares);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FINDINGS_H_
