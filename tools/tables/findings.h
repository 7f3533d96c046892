#ifndef GRADSYNC_TOOLS_TABLES_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_FINDINGS_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/statistics/statistics.h"

// Sentences that say what step times show, and no more than they carry.
namespace gradsync::tools {

// One strategy's steps at one place.
struct Contender {
  std::string strategy;
  std::vector<double> steps_s;
  double share = 0;  // of synchronisation in the step; NaN if unknown
  bool is_interleaved = false;
  std::string flags;
};

// A batch size and a sequence length, or whatever else `name` says.
struct Place {
  double batch_size = 0;
  double seq_len = 0;
  std::vector<Contender> contenders;
  std::string name{};  // empty: "2x128"
};

// What contenders and places are called.
struct Words {
  std::string contender = "strategy";
  std::string place = "cell";
  std::string at = "in";  // "in 2 of 6 cells"
};

// Which strategy is fastest, by how much, and where these data decide nothing. `none` does not compete, nor
// does a strategy whose gradients are wrong. There is no winner, but the reason, where a flag makes times
// void: a single rank, steps that also wrote a trace, fewer than 10 steps, figures without samples.
//
// A strategy is called fastest at a place if it is shown faster than each of the others there: an
// intersection-union test (Berger 1982), so that its level holds for any number of strategies. Over places
// the p-values are adjusted by Holm's method. Student's paired test where rounds were interleaved, Welch's
// elsewhere; and the bootstrap interval of each difference must exclude 0 too.
std::vector<std::string> WinnerSentences(const std::vector<Place>& places,
                                         const BootstrapOptions& bootstrap = {}, const Words& words = {});

// Where the share of synchronisation falls, or rises, with each larger batch size or sequence length. Cells
// that are flagged as outliers are left out, and named.
std::vector<std::string> TrendSentences(const std::vector<Place>& places);

// "a", "a and b", "a, b and c".
std::string ListOf(const std::vector<std::string>& items);

// Collects the places of each run (model, backend, ...), for a table.
class Contest {
 public:
  // The name of a group of places.
  static std::string GroupName(std::string_view run, std::string_view model, std::string_view backend,
                               std::string_view device, std::string_view dtype);

  void Add(const Measurement& measurement, const Series& steps, const std::string& flags);

  // Flags a strategy's cell, if it is there, as an outlier, which is seen when all are there.
  void CallOutlier(std::string_view group, std::string_view strategy, double batch_size, double seq_len);

  // Of all runs that have at least so many places; none if there are too many runs or rows for sentences.
  std::vector<std::string> Sentences(size_t fewest_places, bool with_trends,
                                     const BootstrapOptions& bootstrap) const;

 private:
  std::vector<std::pair<std::string, std::vector<Place>>> groups_;
  size_t num_contenders_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FINDINGS_H_
