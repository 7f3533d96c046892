#ifndef GRADSYNC_BENCH_TRAINING_CASE_H_
#define GRADSYNC_BENCH_TRAINING_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/batch_source.h"
#include "model/model.h"

// What a training benchmark measures.
namespace gradsync::bench {

// What one rank's batch looks like.
struct BatchShape {
  model::Shape inputs;
  model::DType inputs_dtype = model::DType::kF32;
  model::Shape targets;
  model::DType targets_dtype = model::DType::kF32;

  bool operator==(const BatchShape&) const = default;
  // Of whatever lay in memory.
  model::Batch NewBatch(const model::DevicePtr& device) const;
};

// What is measured in a case: one of gradsync's strategies, or a peer's way of doing the same.
struct VariantSpec {
  std::string name;  // in records and tables; gradsync's own are called like their strategies
  int64_t bucket_bytes = 0;
  std::string peer = {};     // what a peer calls it that takes the steps; empty: gradsync does
  double min_tolerance = 0;  // what gradients may differ by, where Tolerance() says less
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
  int64_t positions = 0;  // see Tolerance; of one rank's batch
  std::vector<VariantSpec> variants;
  // What its records say beside what those of every training do.
  Fields config;
  Fields facts;

  std::string name() const;  // "batch 2, sequence 128"
};

// Adds each of PyTorch's ways that compares with one of the case's strategies, once in each of the modes of
// PeerOptions, with buckets of the size of the first that it compares with.
void AddPeers(const std::vector<std::string>& modes, Case& the_case);

// A training benchmark.
struct TrainingTask {
  std::string experiment;  // the records'
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Case> cases;  // at least one; measured in this order
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_CASE_H_
