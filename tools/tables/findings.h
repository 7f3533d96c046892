#ifndef GRADSYNC_TOOLS_TABLES_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_FINDINGS_H_

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/error.h"
#include "tools/records/measurement.h"
#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"

// Sentences that say what step times show, and no more than they carry.
namespace gradsync::tools {

// A strategy, or whatever else is compared in a case.
struct Variant {
  std::string name;
  std::vector<double> steps_s;
  double share = 0;  // of synchronisation in the step; NaN if unknown
  bool is_interleaved = false;
  Flags flags{};
};

// Where variants are compared: a batch size and a sequence length, or whatever else the name says.
struct Case {
  std::string name;  // "2x128"
  std::vector<Variant> variants{};
  double batch_size = 0;
  double seq_len = 0;
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
// A strategy is called fastest in a case if it is shown faster than each of the others there. What is shown
// is what the printed intervals exclude: they hold at once, for all pairs of strategies of all cases (see
// Bootstrap::Simultaneous), so that the best may be picked for its mean.
std::vector<std::string> WinnerSentences(const std::vector<Case>& cases,
                                         const BootstrapOptions& bootstrap = {}, const Words& words = {});

// Where the share of synchronisation falls, or rises, with each larger batch size or sequence length. Cells
// that are flagged as outliers are left out, and named.
std::vector<std::string> TrendSentences(const std::vector<Case>& cases);

// "a", "a and b", "a, b and c".
std::string ListOf(const std::vector<std::string>& items);

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
  void Add(const Measurement& measurement, const Series& steps, const Flags& flags);

  // Of all runs that have at least so many cases; none if there are too many runs or rows for sentences.
  std::vector<std::string> Sentences(size_t fewest_cases, bool with_trends,
                                     const BootstrapOptions& bootstrap) const;

 private:
  struct Group {
    std::string name;
    std::vector<Case> cases{};
  };

  std::vector<Group> groups_;
  size_t num_variants_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FINDINGS_H_
