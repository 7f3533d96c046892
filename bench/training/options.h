#ifndef GRADSYNC_BENCH_TRAINING_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/peers/options.h"
#include "bench/records/record.h"
#include "bench/training/variant.h"
#include "comm/rendezvous/world.h"
#include "model/base/flags.h"
#include "model/dtype.h"
#include "model/resnet.h"
#include "model/tensor.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What a training needs memory for, in elements.
struct TrainingSize {
  double params = 0;        // of the model
  double activations = 0;   // of one rank's batch, at the moment of the loss
  double batch = 0;         // of one rank's batch itself
  double largest_unit = 1;  // which part of params (model::Model::units)
};

// Sizes of a bucket to compare, see //bench:compare: flags that make variants with bucket_elements or
// published_size of the strategies that have buckets.
struct Sweep {
  std::string preset = "scaled";
  std::vector<int64_t> buffer_elements;
  std::string units = "bytes";

  // Every strategy at every size; those without buckets once.
  std::vector<std::string> Variants(const std::vector<std::string>& strategies) const;
};

// What the benchmark that trains a model takes on its command line.
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
  std::string dtype = "f32";
  bool tf32 = false;
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;

  int64_t warmup_steps = 5;
  int64_t steps = 14;                             // a block of the seven variants that are the default
  std::optional<std::chrono::milliseconds> time;  // instead of steps; once completed, of one launch
  std::optional<double> precision;                // part of a step; repeats launches unless it is reached
  std::string order = "interleaved";
  std::optional<int64_t> max_memory;  // of a rank, in bytes: nothing is measured, see EstimatesFor

  bool verify = true;
  bool check_gradients = false;
  bool trace = false;
  bool profile = false;
  bool nvtx = false;
  std::string dump_grads;

  PeerOptions peers;

  // What Complete makes of them: all that take turns, peers behind gradsync's own.
  std::vector<TrainingVariant> variants;

  void AddTo(FlagTable& flags);
  // Those of them that say what is trained by whom (model, batches, training, variants, ranks), as far as
  // they are about transformers that learn from random weights.
  void AddLearningTo(FlagTable& flags);
  // Fills in what the flags left out. Throws InvalidInput if they do not fit together, a file that they name
  // cannot be used, or this build has not the device. Reads no tensor. To be called once, after Parse, in
  // every process.
  void Complete(const FlagTable& flags, const comm::World& world);

  // What the records of one of the variants say of it, and what every training has in its configuration.
  void Describe(const TrainingVariant& variant, Record& record) const;

  // What the largest cell of completed options needs; what a forward pass keeps is estimated from the model's
  // shape.
  TrainingSize Size() const;
  bool on_images() const;
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
  bool interleaved() const { return order == "interleaved"; }
  // Of the time, what those that take turns have: all variants, or each for itself.
  std::chrono::duration<double> time_in_turn() const {
    return std::chrono::duration<double>(*time) /
           (interleaved() ? 1.0 : static_cast<double>(variants.size()));
  }
  // The type of activations.
  model::DType element_type() const {
    return dtype == "f64" ? model::DType::kF64 : dtype == "bf16" ? model::DType::kBF16 : model::DType::kF32;
  }
  // The type of gradients, and of what is communicated and kept from step to step.
  model::DType gradient_type() const { return WideDType(element_type()); }

 private:
  void AddModelTo(FlagTable& flags, bool learns);
  void AddVariantsTo(FlagTable& flags);
  void AddStepsTo(FlagTable& flags);
  void AddChecksTo(FlagTable& flags);
  void CompleteModel(const FlagTable& flags);
  void CompleteVariants(const FlagTable& flags);
  void CompleteMemory(const FlagTable& flags);

  bool times_steps_ = false;  // of a program that has flags for them
};

// The defaults of //bench:compare: ResNet-50, the strategies with buckets, four sizes of a bucket.
TrainingOptions CompareDefaults();

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OPTIONS_H_
