#include "bench/collectives/exercise.h"

#include "bench/collectives/pattern.h"

namespace gradsync::bench {

using comm::Collective;
using model::Tensor;

Exercise::Exercise(comm::ProcessGroup& group, const model::DevicePtr& device, const ExerciseSpec& spec)
    : group_(group), spec_(spec) {
  const int64_t part = spec.numel / group.size();
  const bool gathers = spec.collective == Collective::kAllGather;
  input_ = group.Allocate(device, {gathers ? part : spec.numel}, spec.dtype);
  output_ = input_;
  if (gathers) output_ = group.Allocate(device, {spec.numel}, spec.dtype);
  if (spec.collective == Collective::kReduceScatter) output_ = group.Allocate(device, {part}, spec.dtype);
  pattern_ = Tensor::Empty(model::CpuDevice(), input_.shape(), spec.dtype);
  FillPattern(pattern_, group.rank());
}

void Exercise::Fill() { input_.CopyFrom(pattern_); }

void Exercise::Run() {
  switch (spec_.collective) {
    case Collective::kAllReduce:
      return group_.AllReduce(input_, spec_.op).Wait();
    case Collective::kBroadcast:
      return group_.Broadcast(input_, 0).Wait();
    case Collective::kReduceScatter:
      return group_.ReduceScatter(input_, output_, spec_.op).Wait();
    case Collective::kAllGather:
      return group_.AllGather(input_, output_).Wait();
    case Collective::kBarrier:
      return group_.Barrier();
  }
}

int64_t Exercise::CountWrong() const {
  const Tensor output = output_.device()->is_cpu() ? output_ : output_.To(model::CpuDevice());
  const int64_t part = spec_.numel / group_.size();
  switch (spec_.collective) {
    case Collective::kBroadcast:
      return CountDifferent(output, 0);
    case Collective::kAllGather: {
      int64_t wrong = 0;
      for (int rank = 0; rank < group_.size(); ++rank) {
        wrong += CountDifferent(output.Slice(rank * part, {part}), rank);
      }
      return wrong;
    }
    case Collective::kReduceScatter:
      return bench::CountWrong(output, spec_.op, group_.size(), group_.rank() * part);
    default:
      return bench::CountWrong(output, spec_.op, group_.size());
  }
}

}  // namespace gradsync::bench
