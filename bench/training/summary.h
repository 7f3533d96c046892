#ifndef GRADSYNC_BENCH_TRAINING_SUMMARY_H_
#define GRADSYNC_BENCH_TRAINING_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/variant.h"

namespace gradsync::bench {

// One word about a record's checks: "equal", "WRONG", "replicas drift" where they are meant to, or "not
// checked".
std::string VerdictWord(const CheckFields& checks, bool drifts);

// A line for each variant of each cell: the mean of its steps, each as long as on its slowest rank, and what
// came of its check. //tools:summarize estimates costs, with intervals.
class Summary {
 public:
  // Those of a cell one after the other. `steps_ns`: on the slowest rank.
  void Add(const std::string& cell, const TrainingVariant& variant, const std::vector<int64_t>& steps_ns,
           const CheckFields& checks);
  std::string ToString() const;

 private:
  struct Row {
    std::string cell;
    TrainingVariant variant;
    double step_ns = 0;
    std::string verdict;
  };

  std::vector<Row> rows_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_SUMMARY_H_
