#ifndef GRADSYNC_BENCH_TRAINING_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/launch/rank_main.h"
#include "bench/peers/options.h"
#include "comm/rendezvous/world.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What a training needs memory for, in elements.
struct TrainingSize {
  double params = 0;       // of the model
  double activations = 0;  // of one rank's batch, at the moment of the loss
  double batch = 0;        // of one rank's batch itself
};

// What the benchmarks that train a model have in common on their command lines.
struct TrainingOptions {
  TrainingOptions();
  virtual ~TrainingOptions() = default;

  std::string model;
  RankOptions ranks;
  std::string backend = "gloo";
  std::string dtype = "f32";
  bool tf32 = false;
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  std::vector<std::string> strategies;  // all of them

  int64_t warmup_steps = 5;
  int64_t steps = 10;
  std::string order = "interleaved";
  std::optional<double> precision;  // of differences, as a part of the first strategy's step
  int64_t max_steps = 1000;         // with a precision

  bool verify = true;
  bool check_gradients = false;
  bool trace = false;
  bool profile = false;
  // Per second, instead of what is measured; for profile.
  std::optional<double> peak_flops, peak_bandwidth;
  bool nvtx = false;
  std::string dump_grads;

  PeerOptions peers;

  virtual void AddTo(FlagTable& flags);
  // Fills in what the flags left out. Throws InvalidInput if they do not fit together, a file that they name
  // cannot be used, or this build has not the device. Reads no tensor. To be called once, after Parse, in
  // every process.
  virtual void Complete(const FlagTable& flags, const comm::World& world);
  // Of the largest case of completed options; what a forward pass keeps is estimated from the model's shape.
  virtual TrainingSize Size() const = 0;

  // What PyTorch trains beside each rank, see PeerStrategy.
  std::vector<std::string> PeersStrategies() const;
  bool interleaved() const { return order == "interleaved"; }
  // Of activations.
  model::DType element_type() const {
    return dtype == "f64" ? model::DType::kF64 : dtype == "bf16" ? model::DType::kBF16 : model::DType::kF32;
  }
  // Of gradients, and of what is communicated and kept from step to step.
  model::DType gradient_type() const { return WideDType(element_type()); }
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OPTIONS_H_
