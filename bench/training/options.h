#ifndef GRADSYNC_BENCH_TRAINING_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_OPTIONS_H_

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
#include "model/dtype.h"

namespace gradsync::bench {

// What takes turns: after each step, or never.
enum class Order { kInterleaved, kBlocks };
constexpr std::string_view Name(Order order) { return order == Order::kBlocks ? "blocks" : "interleaved"; }

// Sizes of a bucket to compare, see //bench:compare: flags that make variants with bucket_elements or
// published_size of the strategies that have buckets.
struct Sweep {
  bool is_published = false;  // as in the published experiment: batches and steps, too
  std::vector<int64_t> buffer_elements;
  bool in_published_units = false;

  // Every strategy at every size; those without buckets once.
  std::vector<std::string> Variants(const std::vector<std::string>& strategies) const;
};

// What the benchmark that trains a model takes on its command line, as it was given or by default. What
// follows from it is a TrainingPlan.
struct TrainingOptions {
  TrainingOptions();

  std::string model = "tiny";
  std::optional<int64_t> num_layers, d_model, d_ff, num_heads, vocab_size;  // override a transformer's
  std::optional<int64_t> width;                                             // overrides ResNet-50's
  std::string weights;  // a file; empty: drawn from the seed

  std::vector<std::string> strategies;  // all of them
  std::string variants_text;            // instead of strategies
  std::vector<std::string> backends = {"gloo"};
  std::vector<int64_t> bucket_bytes = {kDefaultBucketBytes};
  std::optional<Sweep> sweep;  // of a program that has its flags

  // Every combination is a cell.
  std::vector<int64_t> batch_sizes = {4};         // of one rank, in one pass of forward and backward
  std::vector<int64_t> accumulation_steps = {1};  // passes in a step
  std::vector<int64_t> seq_lens = {128};          // of a language model
  int64_t image_size = 96;                        // pixels on each side, of a model on images
  std::string corpus;                             // a text; empty: uniform tokens

  RankOptions ranks;
  model::DType dtype = model::DType::kF32;  // of activations
  bool tf32 = false;
  // Of a program that learns there may be several: every variant then runs once with each.
  std::vector<OptimizerKind> optimizers = {OptimizerKind::kAdamW};
  double learning_rate = 1e-3;

  int64_t warmup_steps = 5;
  int64_t steps = 14;                             // a block of the seven variants that are the default
  std::optional<std::chrono::milliseconds> time;  // instead of steps: of all launches together
  Order order = Order::kInterleaved;
  std::optional<int64_t> max_memory;  // of a rank, in bytes: nothing is measured, see EstimatesFor

  bool verify = true;
  bool check_gradients = false;
  bool trace = false;
  bool profile = false;
  bool nvtx = false;
  std::string dump_grads;

  PeerOptions peers;

  // Set before AddTo, of a program that trains transformers from random weights to see what they learn: its
  // flags are those alone that say what is trained by whom (model, batches, training, variants, ranks).
  bool learns = false;

  void AddTo(FlagTable& flags);
  bool on_images() const;

 private:
  void AddModelTo(FlagTable& flags);
  void AddVariantsTo(FlagTable& flags);
  void AddStepsTo(FlagTable& flags);
  void AddChecksTo(FlagTable& flags);
};

// The defaults of //bench:compare: ResNet-50, the strategies with buckets, four sizes of a bucket.
TrainingOptions CompareDefaults();

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OPTIONS_H_
