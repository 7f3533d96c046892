#ifndef GRADSYNC_BENCH_TRAINING_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/launch/rank_main.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What the benchmarks that train a model have in common on their command lines.
struct TrainingOptions {
  TrainingOptions();

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

  bool verify = true;
  bool trace = false;
  bool profile = false;
  // Per second, instead of what is measured; for profile.
  std::optional<double> peak_flops, peak_bandwidth;
  bool nvtx = false;
  std::string dump_grads;

  void AddTo(FlagTable& flags);

  bool interleaved() const { return order == "interleaved"; }
  // Of activations.
  model::DType element_type() const {
    return dtype == "f64" ? model::DType::kF64 : dtype == "bf16" ? model::DType::kBF16 : model::DType::kF32;
  }
  // Of gradients, and of what is communicated and kept from step to step.
  model::DType gradient_type() const { return WideDType(element_type()); }
};

// Throws InvalidInput if a file that the options name cannot be used, or this build has not the device.
void CheckTrainingOptions(const TrainingOptions& options, const comm::World& world);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OPTIONS_H_
