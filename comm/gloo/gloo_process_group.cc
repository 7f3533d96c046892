#include "comm/gloo/gloo_process_group.h"

#include <optional>
#include <utility>
#include <vector>

#include "comm/gloo/cuda_staging.h"
#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/request.h"
#include "comm/queue/request_queue.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::comm {
namespace {

// The threads take collectives from one queue, in the order of issue, and each runs its collective to the
// end.
//
// This cannot deadlock, although the threads of different ranks may run different collectives at one time.
// Consider the first collective, in order of issue, that is not finished on all ranks. Earlier collectives
// are finished on all ranks, so on every rank that issues it a thread is or becomes free to run it, because
// the queue has no earlier collective. Its messages have separate slots, and a message enters a connection
// only when its receiver has room for it, so other collectives in flight cannot block its messages. So it
// finishes, and by induction every later collective finishes.
class GlooProcessGroup : public QueueGroup {
 public:
  GlooProcessGroup(const GroupOptions& options, const model::DevicePtr& device,
                   std::shared_ptr<FirstCause> first_cause, const GlooTuning& tuning)
      : QueueGroup(options.world.rank, options.world.size, device->name()),
        options_(options),
        tuning_(tuning),
        gpu_(device->is_cpu() ? nullptr : std::static_pointer_cast<model::CudaDevice>(device)),
        memory_(static_cast<size_t>(options.num_threads) + 1) {
    RequestQueueOptions queue = MakeQueueOptions(options_.backend, options, std::move(first_cause));
    queue.run = [this](const Request& request, int thread) { Run(request, thread); };
    queue.abort = [this] {
      if (mesh_.has_value()) mesh_->Abort();
    };
    queue.begin = [this](const Request& request) { return IsForCaller(request); };
    if (size() > 1) {
      // No caller waits immediately for a request to a part.
      mesh_.emplace(options.world, options.interface_or_address, options.timeout, *queue.first_cause,
                    !queue.is_part);
    }
    const BlockSigpipe block_sigpipe;
    queue_.emplace(std::move(queue));
  }
  ~GlooProcessGroup() override { queue_.reset(); }

  std::string_view backend() const override { return options_.backend; }
  GroupFacts facts() const override {
    // Sockets copy each byte several times in memory.
    GroupFacts facts{.channels = options_.num_threads, .limit_per_second = 50e9};
    if (!mesh_.has_value()) return facts;
    facts.receivers = 1;
    facts.interface = mesh_->interface();
    return facts;
  }

  Work Issue(Request request) override {
    if (gpu_ == nullptr || !request.output.defined()) return QueueGroup::Issue(std::move(request));
    const auto issued = std::make_shared<model::CudaEvent>(*gpu_);
    issued->Record(gpu_->compute_stream());
    request.prepare = [this, issued] { WaitOnHost(*issued, options_.timeout); };
    return queue_->Issue(std::move(request));
  }

 private:
  // Memory that a thread keeps between collectives.
  struct Memory {
    Scratch scratch;
    std::optional<CudaStaging> staging;
  };

  // Returns whether the request takes less time than waking a communication thread.
  bool IsForCaller(const Request& request) const {
    return request.waits == Waits::kAtOnce && gpu_ == nullptr &&
           static_cast<size_t>(request.bytes()) * (static_cast<size_t>(size()) - 1) <= tuning_.direct_bytes;
  }

  void Run(const Request& request, int thread) {
    // Communication threads inherit the mask.
    std::optional<BlockSigpipe> block_sigpipe;
    if (thread == RequestQueueOptions::kCaller) block_sigpipe.emplace();
    Memory& memory = memory_[static_cast<size_t>(thread - RequestQueueOptions::kCaller)];
    const auto run_on_host = [&](const Request& part) { RunOnHost(part, memory.scratch); };
    if (gpu_ == nullptr || !request.output.defined()) return run_on_host(request);
    if (!memory.staging.has_value()) memory.staging.emplace(gpu_, options_.timeout);
    memory.staging->Run(request, run_on_host);
  }

  void RunOnHost(const Request& request, Scratch& scratch) {
    if (!mesh_.has_value()) return RunAlone(request);
    const bool is_own = options_.backend == "gloo_own" && request.collective == Collective::kAllReduce;
    if (is_own) {
      RunOwnAllReduce(*mesh_, request);
    } else {
      RunCollective(*mesh_, request, tuning_, scratch);
    }
  }

  const GroupOptions options_;
  const GlooTuning tuning_;
  const std::shared_ptr<model::CudaDevice> gpu_;  // null for tensors of the CPU
  std::optional<GlooMesh> mesh_;                  // nullopt in a world of one
  std::vector<Memory> memory_;                    // memory of a caller and of each communication thread
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause) {
  return MakeGlooGroup(options, device, std::move(first_cause), {});
}

std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause,
                                            const GlooTuning& tuning) {
  CheckOptions(options.backend, options);
  return std::make_unique<GlooProcessGroup>(options, device, std::move(first_cause), tuning);
}

}  // namespace gradsync::comm
