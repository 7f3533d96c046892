#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/peers/options.h"
#include "bench/training/variant.h"
#include "model/base/flags.h"
#include "model/tensor/dtype.h"

namespace gradsync::bench {

// The order of the variants' steps. kInterleaved: the variants take one step each, in turn. kBlocks: one
// variant takes all its steps before the next one begins.
enum class Order { kInterleaved, kBlocks };
constexpr std::string_view Name(Order order) { return order == Order::kBlocks ? "blocks" : "interleaved"; }

// The flags with which //bench:compare chooses bucket sizes, at which it compares strategies.
struct Sweep {
  bool is_published = false;  // whether the defaults are batches, steps and sizes of the published experiment
  std::vector<int64_t> buffer_elements;
  bool in_published_units = false;

  // Returns the texts of the variants to compare: each strategy that has buckets with each of the sizes, and
  // each other strategy once.
  std::vector<std::string> Variants(const std::vector<std::string>& strategies) const;
};

// The flags of the training benchmark. A TrainingPlan is made from them.
struct TrainingOptions {
  TrainingOptions();

  std::string model = "tiny";
  // If given, each of these replaces a size of the transformer that `model` names.
  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size;
  std::optional<int64_t> width;  // overrides ResNet-50's width
  std::string weights;           // a file of weights; if empty, weights are drawn from the seed

  std::vector<std::string> strategies;  // all strategies to train
  std::string variants_text;            // replaces strategies
  std::vector<std::string> backends = {"gloo"};
  std::vector<int64_t> bucket_bytes = {kDefaultBucketBytes};
  std::optional<Sweep> sweep;  // set only if the program has the flags of Sweep

  // One value of each of the next three lists makes a setting. All variants are compared in every setting.
  std::vector<int64_t> batch_sizes = {4};         // of one rank, in one pass of forward and backward
  std::vector<int64_t> accumulation_steps = {1};  // numbers of passes in a step
  std::vector<int64_t> seq_lens = {128};          // sequence lengths of a language model
  int64_t image_size = 96;                        // pixels on each side of an image
  std::string corpus;                             // path of a text; if empty, tokens are random

  RankOptions ranks;
  model::DType dtype = model::DType::kF32;  // of activations; if it is bf16, weights and gradients are f32
  bool tf32 = false;
  // Only //bench:convergence accepts several optimizers, and trains every variant once with each of them.
  std::vector<OptimizerKind> optimizers = {OptimizerKind::kAdamW};
  double learning_rate = 1e-3;

  int64_t warmup_steps = 5;
  int64_t steps = 14;                             // rounds; one block (RoundOrder) of the 7 default variants
  std::optional<std::chrono::milliseconds> time;  // time to measure a setting in all launches; replaces steps
  Order order = Order::kInterleaved;
  std::optional<int64_t> max_memory;  // limit of a rank in bytes; if set, nothing trains, memory is estimated

  bool verify = true;
  bool check_gradients = false;
  bool trace = false;
  bool profile = false;
  bool nvtx = false;
  std::string dump_grads;

  PeerOptions peers;

  // True for //bench:convergence, which compares losses and not times. AddTo then leaves out flags that this
  // program does not need, such as those about timing, checks and PyTorch. So set this before AddTo is
  // called.
  bool learns = false;

  void AddTo(FlagTable& flags);
  bool on_images() const;

 private:
  void AddModelTo(FlagTable& flags);
  void AddVariantsTo(FlagTable& flags);
  void AddStepsTo(FlagTable& flags);
  void AddChecksTo(FlagTable& flags);
};

// Returns the defaults of //bench:compare: ResNet-50, strategies with buckets, and four bucket sizes.
TrainingOptions CompareDefaults();

}  // namespace gradsync::bench
