#ifndef GRADSYNC_BENCH_TRAINING_SUMMARY_H_
#define GRADSYNC_BENCH_TRAINING_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/case.h"

namespace gradsync::bench {

// The middle one; of an even number the mean of the two in the middle.
int64_t Median(std::vector<int64_t> values);

// One word about a record's checks: "equal", "WRONG", "replicas drift" where they are meant to, or "not
// checked".
std::string VerdictWord(const Fields& checks, bool drifts);

// A line for each variant, with the medians of one rank's own steps. Statistics proper are the business of
// //tools:summarize.
class Summary {
 public:
  // A time that the record has not is shown as "-"; a backward time that it has not, with that of
  // synchronisation in it. All cases have labels of the same names.
  void Add(const Case& the_case, const VariantSpec& variant, const Record& record);
  std::string ToString() const;

 private:
  size_t num_labels_ = 0;
  std::vector<std::vector<std::string>> rows_;  // the first has the columns' names
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_SUMMARY_H_
