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

// The numbers of tensor elements for which one rank needs memory in training.
struct TrainingSize {
  double params = 0;       // elements of all parameters of the model
  double activations = 0;  // elements of the activations that one rank keeps for backward
  double batch = 0;        // elements of one rank's batch
  // The elements of the largest group of parameters that zero3 gathers together, as a fraction of params.
  double largest_unit = 1;
};

// What the training benchmark trains and measures: its options, after they were checked, and the list of
// variants that follows from them.
struct TrainingPlan : TrainingOptions {
  // `flags` is the table whose flags set the options `given`. Throws InvalidInput if an option is wrong (such
  // as an unknown strategy), or if options contradict each other. It also throws if the directory of
  // --dump_grads or, except in //bench:convergence, the text of --corpus cannot be used.
  TrainingPlan(const TrainingOptions& given, const FlagTable& flags);

  // All variants that are compared: gradsync's strategies first, then PyTorch's.
  std::vector<TrainingVariant> variants;

  // Sets the variant of `record`, and those fields of its configuration that are equal in all settings (batch
  // sizes, sequence lengths, ...), such as the dtype and the variant's optimizer.
  void Describe(const TrainingVariant& variant, Record& record) const;

  // Returns the numbers of tensor elements for which one rank needs memory, if it trains with the largest
  // batch size, the longest sequences and the largest number of passes in a step.
  TrainingSize Size() const;
  // These two return the sizes of the transformer that --model names, and of ResNet-50, with the sizes that
  // other flags replace. The transformer's context_length is the longest of --seq_len.
  model::TransformerConfig transformer_config() const;
  model::ResNetConfig resnet_config() const;
  int64_t longest_seq_len() const;
  // Returns, each once, the backends (with options) of those variants of gradsync that communicate; the first
  // of --backend if there are none. The first backend of the result is also used for barriers and checks.
  std::vector<std::string> GroupBackends() const;

  // is_alone returns whether at most one strategy exists at a time. restarts returns whether training begins
  // again from the initial weights: for a check, another variant, another setting or --dump_grads.
  bool is_alone() const { return variants.size() == 1 || !interleaved(); }
  bool restarts() const {
    return verify || variants.size() * batch_sizes.size() * accumulation_steps.size() * seq_lens.size() > 1 ||
           !dump_grads.empty();
  }
  bool interleaved() const { return order == Order::kInterleaved; }
  // launch_time returns how long a setting (a batch size, a sequence length, ...) is measured in one launch:
  // --time divided by the number of launches. With --order=blocks, each variant gets an equal part of this,
  // which time_in_turn returns; otherwise the variants take turns during the whole time.
  std::chrono::milliseconds launch_time() const { return *time / ranks.num_launches(); }
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(launch_time()) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  // Returns the optimizer that the variant's option `optimizer` names, else the first of --optimizer.
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
