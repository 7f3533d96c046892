#include "bench/collectives/exercise.h"

#include <utility>

#include "bench/collectives/pattern.h"

namespace gradsync::bench {

using comm::Collective;
using model::Tensor;

Exercise::Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
                   const model::DevicePtr& device, Collective collective, Tensor pattern, int64_t numel,
                   int64_t in_flight)
    : group_(group), pattern_(std::move(pattern)), part_(numel / group.size()) {
  if (is_limit) limit_.emplace(group, options.ranks.timeout);
  for (int64_t i = 0; i < in_flight; ++i) {
    comm::Request& request = requests_.emplace_back();
    request = {.collective = collective,
               .op = options.op,
               .root = 0,
               .waits = in_flight == 1 ? comm::Waits::kAtOnce : comm::Waits::kLater,
               .input = measured().Allocate(device, pattern_.shape(), pattern_.dtype()),
               .output = {}};
    request.output = request.input;
    const bool gathers = collective == Collective::kAllGather;
    if (gathers || collective == Collective::kReduceScatter)
      request.output = measured().Allocate(device, {gathers ? numel : part_}, pattern_.dtype());
  }
}

void Exercise::Prepare() {
  for (const comm::Request& request : requests_) request.input.CopyFrom(pattern_);
  group_.Barrier();
}

int64_t Exercise::Measure(PhaseTimer& timer, int64_t count) {
  std::vector<comm::Work> works;
  timer.Take(Mark::kStepBegin);
  for (int64_t i = 0; i < count; ++i) {
    works.clear();
    for (const comm::Request& request : requests_) works.push_back(measured().Issue(request));
    for (comm::Work& work : works) work.Wait();
  }
  timer.Take(Mark::kStepEnd);
  const int64_t time_ns = timer.Read().step_ns();
  group_.Finish();
  group_.Clear();
  return time_ns;
}

int64_t Exercise::CountWrongElements() const {
  int64_t wrong = 0;
  for (const comm::Request& request : requests_) wrong += CountWrongElementsIn(request.output);
  return wrong;
}

int64_t Exercise::CountWrongElementsIn(const Tensor& there) const {
  const comm::Request& request = requests_.front();
  const Tensor output = there.device()->is_cpu() ? there : there.To(model::CpuDevice());
  if (request.collective == Collective::kBroadcast) return CountDifferent(output, request.root);
  if (request.collective == Collective::kAllGather) {
    int64_t wrong = 0;
    for (int rank = 0; rank < group_.size(); ++rank)
      wrong += CountDifferent(output.Slice(rank * part_, {part_}), rank);
    return wrong;
  }
  const bool scatters = request.collective == Collective::kReduceScatter;
  return CountWrong(output, request.op, group_.size(), scatters ? group_.rank() * part_ : 0);
}

}  // namespace gradsync::bench
