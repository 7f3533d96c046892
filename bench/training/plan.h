#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/options.h"
#include "bench/training/variant.h"
#include "model/base/flags.h"
#include "model/tensor/dtype.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {

// Numbers of elements for which a training needs memory.
struct TrainingSize {
  double params = 0;        // elements of all parameters of the model
  double activations = 0;   // elements of one rank's activations when the loss is computed
  double batch = 0;         // elements of one rank's batch
  double largest_unit = 1;  // elements of the largest unit (model::Model::units), as a fraction of params
};

// What a run trains and measures: options that fit together, and values that follow from the options. A plan
// does not change after it is made.
struct TrainingPlan : TrainingOptions {
  // `flags` is the table that read `given`. Throws InvalidInput if the options do not fit together, or if a
  // file that they name cannot be used. Reads no tensor.
  TrainingPlan(const TrainingOptions& given, const FlagTable& flags);

  // All variants that take turns; peers follow gradsync's own variants.
  std::vector<TrainingVariant> variants;

  // Adds to a record the description of its variant, and the configuration that all records of a training
  // have.
  void Describe(const TrainingVariant& variant, Record& record) const;

  // Returns the size of the largest setting. The activations that forward keeps are estimated from the
  // model's shape.
  TrainingSize Size() const;
  // Returns the configuration of the named model, with overrides. A transformer's context_length is the
  // longest sequence length.
  model::TransformerConfig transformer_config() const;
  model::ResNetConfig resnet_config() const;
  int64_t longest_seq_len() const;
  // Returns the backends of the variants. The run itself uses the first backend.
  std::vector<std::string> GroupBackends() const;

  // is_alone returns whether strategies are made one after the other; the next function returns whether
  // weights start again for each strategy.
  bool is_alone() const { return variants.size() == 1 || !interleaved(); }
  bool restarts() const {
    return verify || variants.size() * batch_sizes.size() * accumulation_steps.size() * seq_lens.size() > 1 ||
           !dump_grads.empty();
  }
  bool interleaved() const { return order == Order::kInterleaved; }
  // launch_time returns the part of --time for one setting of one launch. The next function returns the part
  // of launch_time for one group of variants that take turns. A group has all variants or, with
  // --order=blocks, one variant.
  std::chrono::milliseconds launch_time() const { return *time / ranks.num_launches(); }
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(launch_time()) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  // Returns the optimizer of a variant: its option, or the first of --optimizer.
  OptimizerKind OptimizerOf(const TrainingVariant& variant) const {
    return variant.optimizer().value_or(optimizers.front());
  }
  // Returns the dtype of gradients, of communicated data, and of data that ranks keep between steps.
  model::DType gradient_type() const { return WideDType(dtype); }

 private:
  void CheckModel(const FlagTable& flags) const;
  void AddVariants(const FlagTable& flags);
  void CheckVariant(const TrainingVariant& variant) const;
  void AddPeers();
};

}  // namespace gradsync::bench
