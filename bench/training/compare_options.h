#ifndef GRADSYNC_BENCH_TRAINING_COMPARE_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_COMPARE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/peers/options.h"
#include "bench/training/memory.h"
#include "bench/training/options.h"
#include "comm/world.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What //bench:compare takes on its command line. The defaults are those of the preset `scaled`.
struct CompareOptions : TrainingOptions {
  CompareOptions();

  std::string preset = "scaled";
  std::string model = "resnet50";
  std::optional<int64_t> width;  // overrides ResNet-50's

  // At each size all strategies are measured before the next begins.
  std::vector<int64_t> buffer_elements;
  std::string units = "bytes";

  int64_t batch_size = 4;   // of one rank
  int64_t image_size = 96;  // pixels on each side
  int64_t seq_len = 128;    // of a language model

  PeerOptions peers;

  void AddTo(FlagTable& flags);

  bool on_images() const { return model == "resnet50"; }
  // Of a model on images.
  model::ResNetConfig resnet_config() const;
  // Of the others.
  model::TransformerConfig transformer_config() const;
};

// The one place where elements become bytes: how large the strategy's buckets are at a size.
//
//   bytes      elements x size of an element, for every strategy
//   published  as in the original: `core` gets as many MiB as the others get Mi elements, so that with f32
//              theirs are 4 times as large
int64_t BucketBytes(const CompareOptions& options, std::string_view strategy, int64_t buffer_elements);

// Puts the preset's values where no flag was given. Throws InvalidInput if the flags do not fit together, a
// file that they name cannot be used, or this build has not the device. Call it once, after Parse, in every
// process.
void CompleteCompareOptions(const FlagTable& flags, const comm::World& world, CompareOptions& options);

// What a forward pass keeps is estimated from the model's shape.
TrainingSize SizeOfTraining(const CompareOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_COMPARE_OPTIONS_H_
