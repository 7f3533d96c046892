#ifndef GRADSYNC_BENCH_TRAINING_CASE_H_
#define GRADSYNC_BENCH_TRAINING_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/range_sink.h"
#include "bench/training/batches.h"
#include "model/error.h"
#include "model/model.h"

// What a training benchmark measures.
namespace gradsync::bench {

// What is measured in a case: one of gradsync's strategies, or a peer's way of doing the same.
struct VariantSpec {
  std::string name;  // in records and tables; gradsync's own are called like their strategies
  int64_t bucket_bytes = 0;
  std::string peer = {};     // what a peer calls it that takes the steps; empty: gradsync does
  double min_tolerance = 0;  // what a peer may differ by, where PeerTolerance() says less
  bool verifiable = true;  // whether its gradients can be told from wrong ones; if not, they are not checked

  // Whether its replicas are meant to part.
  bool drifts() const { return (peer.empty() ? name : peer).starts_with("none"); }
};

// What a case is, for people: {"batch", "2"}, {"sequence", "128"}.
using CaseLabels = std::vector<std::pair<std::string, std::string>>;

// One model trained on batches of one shape, by variants that take turns and are compared with each other.
struct Case {
  CaseLabels labels;
  BatchShape batch;
  int64_t positions = 0;  // see PeerTolerance; of one rank's batch
  std::vector<VariantSpec> variants;
  // What its records say beside what those of every training do.
  Fields config;
  Fields facts;

  // "batch 2, sequence 128"
  std::string name() const {
    std::string name;
    for (const auto& [what, value] : labels) name += Join(name.empty() ? "" : ", ", what, " ", value);
    return name;
  }
};

// A training benchmark.
struct TrainingTask {
  std::string experiment;  // the records'
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Case> cases;                 // at least one; measured in this order
  std::unique_ptr<RangeSink> ranges = {};  // hears what each step does, if there is one and no --nvtx
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_CASE_H_
