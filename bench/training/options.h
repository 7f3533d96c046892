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

// Whether variants take turns after each step, or run one after the other.
enum class Order { kInterleaved, kBlocks };
constexpr std::string_view Name(Order order) { return order == Order::kBlocks ? "blocks" : "interleaved"; }

// The bucket sizes that //bench:compare compares. Its flags make variants with the option bucket_elements or
// published_size of strategies that have buckets.
struct Sweep {
  bool is_published = false;  // true: batches, steps and sizes of the published experiment
  std::vector<int64_t> buffer_elements;
  bool in_published_units = false;

  // Returns every strategy at every size, and each strategy without buckets once.
  std::vector<std::string> Variants(const std::vector<std::string>& strategies) const;
};

// The command line of the training benchmark: given values and defaults. A TrainingPlan is made from these
// options.
struct TrainingOptions {
  TrainingOptions();

  std::string model = "tiny";
  // Override the transformer's values.
  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size;
  std::optional<int64_t> width;  // overrides ResNet-50's width
  std::string weights;           // a file of weights; if empty, weights are drawn from the seed

  std::vector<std::string> strategies;  // all strategies to train
  std::string variants_text;            // replaces strategies
  std::vector<std::string> backends = {"gloo"};
  std::vector<int64_t> bucket_bytes = {kDefaultBucketBytes};
  std::optional<Sweep> sweep;  // sizes of buckets, for programs with flags for them

  // Every combination of the following values is a setting.
  // Batch sizes of one rank, in one pass of forward and backward.
  std::vector<int64_t> batch_sizes = {4};
  std::vector<int64_t> accumulation_steps = {1};  // numbers of passes in a step
  std::vector<int64_t> seq_lens = {128};          // sequence lengths of a language model
  int64_t image_size = 96;                        // pixels on each side of an image
  std::string corpus;                             // path of a text; if empty, tokens are uniform

  RankOptions ranks;
  model::DType dtype = model::DType::kF32;  // dtype of activations
  bool tf32 = false;
  // //bench:convergence accepts several optimizers, and runs every variant once with each of them.
  std::vector<OptimizerKind> optimizers = {OptimizerKind::kAdamW};
  double learning_rate = 1e-3;

  int64_t warmup_steps = 5;
  int64_t steps = 14;                             // a block of rounds of the seven default variants
  std::optional<std::chrono::milliseconds> time;  // total time of all launches; replaces steps
  Order order = Order::kInterleaved;
  std::optional<int64_t> max_memory;  // memory limit of a rank in bytes; with it, see DescribeEstimates

  bool verify = true;
  bool check_gradients = false;
  bool trace = false;
  bool profile = false;
  bool nvtx = false;
  std::string dump_grads;

  PeerOptions peers;

  // Set this before AddTo for a program that trains transformers from random weights and compares their
  // losses. AddTo then adds only flags of the model, batches, training, variants and ranks.
  bool learns = false;

  void AddTo(FlagTable& flags);
  bool on_images() const;

 private:
  void AddModelTo(FlagTable& flags);
  void AddVariantsTo(FlagTable& flags);
  void AddStepsTo(FlagTable& flags);
  void AddChecksTo(FlagTable& flags);
};

// Returns the defaults of //bench:compare: ResNet-50, the strategies with buckets, and four bucket sizes.
TrainingOptions CompareDefaults();

}  // namespace gradsync::bench
