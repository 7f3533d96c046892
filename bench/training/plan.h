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

// The numbers of elements of a model's parameters, and of one rank's activations and batch.
struct TrainingSize {
  double params = 0;       // elements of all parameters of the model
  double activations = 0;  // elements of the activations that one rank keeps for backward
  double batch = 0;        // elements of one rank's batch
  // The strategy zero3 gathers parameters in groups, such as the parameters of one transformer block.
  // largest_unit is the number of elements of the largest group as a fraction of `params`, from 0 to 1.
  double largest_unit = 1;
};

// The checked values of a training benchmark's flags, and the variants that the flags ask for. A variant is a
// strategy with its options and a backend.
struct TrainingPlan : TrainingOptions {
  // `given` has the values of all flags, and `flags` tells which flags the user has given. Throws
  // InvalidInput if a flag's value is wrong, such as an unknown strategy, or if flags contradict each other.
  // The file of --weights is checked only by MakeTask.
  TrainingPlan(const TrainingOptions& given, const FlagTable& flags);

  std::vector<TrainingVariant> variants;  // gradsync's strategies first, then PyTorch's

  // Stores the variant's strategy, options and backend in Record::variant. Stores the dtype ("tf32" with
  // --tf32), the optimizer's name (OptimizerOf(variant)) and values of other flags in Record::config. Stores
  // facts of the variant, such as bucket_bytes, in Record::facts.
  void Describe(const TrainingVariant& variant, Record& record) const;

  // Returns the numbers of elements of parameters, activations and batch. If a flag such as --batch_size has
  // several values, the numbers are for the largest value.
  TrainingSize Size() const;
  // transformer_config returns the sizes of the transformer that --model names, and resnet_config returns the
  // sizes of ResNet-50. Flags such as --d_model or --width replace single sizes.
  model::TransformerConfig transformer_config() const;
  model::ResNetConfig resnet_config() const;
  int64_t longest_seq_len() const;
  // Returns the backends (with options) over which variants of gradsync communicate, each backend once.
  // Returns the first value of --backend if no variant of gradsync communicates.
  std::vector<std::string> GroupBackends() const;

  // Returns whether at most one variant is in memory at a time: with only one variant, or with
  // --order=blocks.
  bool is_alone() const { return variants.size() == 1 || !interleaved(); }
  // Returns whether the initial weights are needed more than once, for example to train a second variant.
  bool restarts() const {
    return verify || variants.size() * batch_sizes.size() * accumulation_steps.size() * seq_lens.size() > 1 ||
           !dump_grads.empty();
  }
  bool interleaved() const { return order == Order::kInterleaved; }
  // Returns --time, which must be given, divided by the number of launches (starts of all ranks).
  std::chrono::milliseconds launch_time() const { return *time / ranks.num_launches(); }
  // Returns the time for the timed steps of one setting in a launch; --time must be given. With
  // --order=interleaved, returns launch_time(), the time of all variants together. With --order=blocks,
  // returns the time of one variant: launch_time() divided by the number of variants.
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(launch_time()) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  // Returns the optimizer that the variant's option `optimizer` names, or the first value of --optimizer if
  // this option is missing or "given".
  OptimizerKind OptimizerOf(const TrainingVariant& variant) const {
    return variant.optimizer().value_or(optimizers.front());
  }
  // Returns the dtype of weights, gradients and optimizer state: f32 if --dtype is bf16, else --dtype.
  model::DType gradient_type() const { return WideDType(dtype); }

 private:
  void CheckModel(const FlagTable& flags) const;
  void AddVariants(const FlagTable& flags);
  void CheckVariant(const TrainingVariant& variant) const;
  void AddPeers();
};

}  // namespace gradsync::bench
