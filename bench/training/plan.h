#ifndef GRADSYNC_BENCH_TRAINING_PLAN_H_
#define GRADSYNC_BENCH_TRAINING_PLAN_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/options.h"
#include "bench/training/variant.h"
#include "model/base/flags.h"
#include "model/dtype.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What a training needs memory for, in elements.
struct TrainingSize {
  double params = 0;        // of the model
  double activations = 0;   // of one rank's batch, at the moment of the loss
  double batch = 0;         // of one rank's batch itself
  double largest_unit = 1;  // which part of params (model::Model::units)
};

// What a run trains and measures: options that fit together, and what follows from them. Nothing of it
// changes after it was made.
struct TrainingPlan : TrainingOptions {
  // `flags`: with which `given` was read. Throws InvalidInput if the options do not fit together, or a file
  // that they name cannot be used. Reads no tensor.
  TrainingPlan(const TrainingOptions& given, const FlagTable& flags);

  std::vector<TrainingVariant> variants;  // all that take turns, peers behind gradsync's own

  // What the records of one of the variants say of it, and what every training has in its configuration.
  void Describe(const TrainingVariant& variant, Record& record) const;

  // What the largest cell needs; what a forward pass keeps is estimated from the model's shape.
  TrainingSize Size() const;
  // The named model with the overrides; a transformer's context is as long as the longest sequence.
  model::TransformerConfig transformer_config() const;
  model::ResNetConfig resnet_config() const;
  int64_t longest_seq_len() const;
  // The backends that variants communicate over, the first of which the run itself uses.
  std::vector<std::string> GroupBackends() const;

  // Whether strategies are made one after the other, and whether weights start again.
  bool is_alone() const { return variants.size() == 1 || !interleaved(); }
  bool restarts() const {
    return verify || variants.size() * batch_sizes.size() * accumulation_steps.size() * seq_lens.size() > 1 ||
           !dump_grads.empty();
  }
  bool interleaved() const { return order == Order::kInterleaved; }
  // Of --time, what a cell of one launch has, and in it those that take turns: all variants, or each for
  // itself.
  std::chrono::milliseconds launch_time() const { return *time / ranks.num_launches(); }
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(launch_time()) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  OptimizerKind OptimizerOf(const TrainingVariant& variant) const {
    return variant.optimizer().value_or(optimizers.front());
  }
  // The type of gradients, and of what is communicated and kept from step to step.
  model::DType gradient_type() const { return WideDType(dtype); }

 private:
  void CheckModel(const FlagTable& flags) const;
  void AddVariants(const FlagTable& flags);
  void CheckVariant(const TrainingVariant& variant) const;
  void AddPeers();
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_PLAN_H_
