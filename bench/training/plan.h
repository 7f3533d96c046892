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

// The numbers of elements of one rank's parameters, activations and batch in training.
struct TrainingSize {
  double params = 0;       // elements of all parameters of the model
  double activations = 0;  // elements of the activations that one rank keeps for backward
  double batch = 0;        // elements of one rank's batch
  // The strategy zero3 divides the parameters among the ranks. When a rank needs parameters, it gathers a
  // group of them, such as those of a transformer's block, from all ranks. largest_unit is the number of
  // elements of the largest group, divided by `params`, the number of elements of all parameters.
  double largest_unit = 1;
};

// What a training benchmark trains and measures: the checked values of its flags, and the list of variants
// that the flags ask for.
struct TrainingPlan : TrainingOptions {
  // `given` has the values of the program's flags. `flags` is the table of these flags, which also records
  // which flags the user gave. Throws InvalidInput if an option is wrong (such as an unknown strategy), or if
  // options contradict each other. Also throws InvalidInput if the directory of the file that --dump_grads
  // names does not exist. Except in //bench:convergence, it also throws if the file that --corpus names
  // cannot be read, is too short, or is given for a vocabulary of fewer than 256 tokens.
  TrainingPlan(const TrainingOptions& given, const FlagTable& flags);

  // All variants that are compared: gradsync's strategies first, then PyTorch's.
  std::vector<TrainingVariant> variants;

  // Sets Record::variant: the strategy, its options and the backend that were measured. Also sets the values
  // of Record::config that follow from flags and `variant` alone, such as the dtype and the optimizer's name.
  // Leaves out the values that depend on the setting (batch size, sequence length, ...).
  void Describe(const TrainingVariant& variant, Record& record) const;

  // Returns the sizes of the tensors that one rank needs if it trains with the largest batch size, the
  // longest sequences and the most passes in a step that the flags name.
  TrainingSize Size() const;
  // transformer_config returns the sizes of the transformer that --model names, and resnet_config those of
  // ResNet-50. A size that a flag such as --d_model or --width sets replaces the named model's default size.
  // The transformer's context_length is the longest sequence length of --seq_len.
  model::TransformerConfig transformer_config() const;
  model::ResNetConfig resnet_config() const;
  int64_t longest_seq_len() const;
  // Returns, without repetitions, the backends (with options) over which variants of gradsync communicate. If
  // no variant of gradsync communicates, returns only the first value of --backend. The benchmark's own
  // barriers and checks communicate over the first returned backend.
  std::vector<std::string> GroupBackends() const;

  // is_alone returns whether at most one variant exists in memory at a time, because there is only one or
  // --order=blocks is set. restarts returns whether the initial weights are needed again after the first
  // steps: to check results, to train a second variant, to train with a second batch size or sequence length,
  // or for --dump_grads.
  bool is_alone() const { return variants.size() == 1 || !interleaved(); }
  bool restarts() const {
    return verify || variants.size() * batch_sizes.size() * accumulation_steps.size() * seq_lens.size() > 1 ||
           !dump_grads.empty();
  }
  bool interleaved() const { return order == Order::kInterleaved; }
  // launch_time returns how long one launch (one start of all ranks) measures a setting (a batch size, a
  // sequence length, ...): --time divided by the number of launches. With --order=interleaved, in which
  // variants take turns, time_in_turn returns the result of launch_time. With --order=blocks, time_in_turn
  // returns the result of launch_time divided by the number of variants.
  std::chrono::milliseconds launch_time() const { return *time / ranks.num_launches(); }
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(launch_time()) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  // Returns the optimizer that the variant's option `optimizer` names, or, without this option, the first
  // value of --optimizer.
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
