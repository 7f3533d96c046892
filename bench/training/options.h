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

// The order in which the variants that a benchmark compares take their timed steps. kInterleaved: in each
// round, each variant takes one turn, in random order. kBlocks: in each setting (batch size, ...), one
// variant takes all its steps before the next variant begins.
enum class Order { kInterleaved, kBlocks };
constexpr std::string_view Name(Order order) { return order == Order::kBlocks ? "blocks" : "interleaved"; }

// The values of those flags that only the program //bench:compare has. //bench:compare compares strategies at
// several bucket sizes.
struct Sweep {
  bool is_published = false;  // whether the defaults are batches, steps and sizes of the published experiment
  std::vector<int64_t> buffer_elements;
  bool in_published_units = false;

  // Returns the variants (strategies with options) that //bench:compare measures unless --variants is given,
  // as texts in the format of --variants. For a strategy of `strategies` that has buckets, there is one
  // variant for each bucket size in buffer_elements. For a strategy without buckets, there is one variant.
  std::vector<std::string> Variants(const std::vector<std::string>& strategies) const;
};

// The values of the flags of //bench:ddp and //bench:compare, some of which //bench:convergence has too. The
// constructor of TrainingPlan checks them and makes the list of variants from them.
struct TrainingOptions {
  TrainingOptions();

  std::string model = "tiny";
  // The values of the flags of the same names, which set sizes of a transformer. A size that is given
  // replaces the size that the transformer named by `model` has by default.
  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size;
  std::optional<int64_t> width;  // channels of ResNet-50's first layer, in place of 64
  std::string weights;           // a file of weights; if empty, weights are drawn from the seed

  std::vector<std::string> strategies;  // names of the strategies to train
  std::string variants_text;            // the value of --variants; if given, replaces strategies
  std::vector<std::string> backends = {"gloo"};
  std::vector<int64_t> bucket_bytes = {kDefaultBucketBytes};
  std::optional<Sweep> sweep;  // set only in //bench:compare, which has the flags of Sweep

  // A setting is a batch size of batch_sizes, a number of accumulation_steps and, for a language model, a
  // length of seq_lens. All variants are compared in every setting, that is, in every such combination.
  std::vector<int64_t> batch_sizes = {4};         // of one rank, in one pass of forward and backward
  std::vector<int64_t> accumulation_steps = {1};  // numbers of passes in a step
  std::vector<int64_t> seq_lens = {128};          // sequence lengths of a language model
  int64_t image_size = 96;                        // pixels on each side of an image
  std::string corpus;                             // path of a text; if empty, //bench:ddp draws random tokens

  RankOptions ranks;
  model::DType dtype = model::DType::kF32;  // of activations; if it is bf16, weights and gradients are f32
  bool tf32 = false;
  // Only //bench:convergence accepts several values of --optimizer. A variant that names its own optimizer is
  // trained only with this optimizer. //bench:convergence trains any other variant once with each of the
  // `optimizers`.
  std::vector<OptimizerKind> optimizers = {OptimizerKind::kAdamW};
  double learning_rate = 1e-3;

  int64_t warmup_steps = 5;
  int64_t steps = 14;                             // timed rounds: a block (RoundOrder) of 7 default variants
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

  // If `learns` is true, AddTo leaves out the flags that //bench:convergence does not need, such as those
  // about timing, checks and PyTorch. Only //bench:convergence, which compares the losses of strategies and
  // not their times, sets `learns` to true, before it calls AddTo.
  bool learns = false;

  void AddTo(FlagTable& flags);
  bool on_images() const;

 private:
  void AddModelTo(FlagTable& flags);
  void AddVariantsTo(FlagTable& flags);
  void AddStepsTo(FlagTable& flags);
  void AddChecksTo(FlagTable& flags);
};

// Returns the defaults of //bench:compare: ResNet-50, the all-reduce strategies that have buckets, four
// bucket sizes, SGD, 2 untimed and 24 timed steps.
TrainingOptions CompareDefaults();

}  // namespace gradsync::bench
