#include "bench/training/batch_feeder.h"

#include <utility>

namespace gradsync::bench {

using model::Tensor;

BatchFeeder::BatchFeeder(std::unique_ptr<BatchSource> source)
    : source_(std::move(source)), host_(model::CpuDevice()) {}

void BatchFeeder::Fill(int rank, int64_t step, const model::Batch& batch) {
  const Tensor& inputs = batch.inputs;
  const Tensor& targets = batch.targets;
  if (inputs.device()->is_cpu()) return source_->Fill(rank, step, inputs, targets);
  const Tensor host_inputs = Tensor::Empty(host_, inputs.shape(), inputs.dtype());
  const Tensor host_targets = Tensor::Empty(host_, targets.shape(), targets.dtype());
  source_->Fill(rank, step, host_inputs, host_targets);
  inputs.CopyFrom(host_inputs);
  targets.CopyFrom(host_targets);
}

}  // namespace gradsync::bench
