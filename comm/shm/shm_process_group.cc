#include "comm/shm/shm_process_group.h"

#include <optional>
#include <utility>

#include "comm/queue/request.h"
#include "comm/queue/request_queue.h"
#include "comm/shm/shm_collectives.h"
#include "comm/shm/shm_mesh.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

constexpr std::string_view kBackend = "shm";

// Waking a thread takes about 25 us on a virtual machine. If ranks spin for a shorter time, each rank sleeps
// while another rank is being woken, in every collective. If ranks spin longer, they take the core from other
// threads, perhaps from the thread for which they wait, so a caller yields. The communication thread may spin
// on the core on which its own rank computes. It does not yield, because then the computation would keep the
// core for milliseconds.
constexpr std::chrono::microseconds kCallerSpins{50};
constexpr std::chrono::microseconds kThreadSpins{20};

class ShmProcessGroup : public QueueGroup {
 public:
  ShmProcessGroup(const GroupOptions& options, std::shared_ptr<FirstCause> first_cause)
      : QueueGroup(options.world.rank, options.world.size),
        name_(options.world.NameOf(rank())),
        buffers_(std::make_shared<SharedBuffers>(rank())) {
    RequestQueueOptions queue = MakeQueueOptions(kBackend, options, std::move(first_cause));
    queue.num_threads = 1;
    queue.run = [this](const Request& request, int thread) { Run(request, thread); };
    queue.abort = [this] {
      if (mesh_.has_value()) mesh_->Abort();
    };
    queue.begin = [this](const Request& request) {
      return !collectives_.has_value() || collectives_->Begin(request) || request.waits == Waits::kAtOnce;
    };
    queue.waiters_help = true;
    if (options.world.size > 1) {
      mesh_.emplace(options.world, ShmCollectives::AreaBytes(), options.timeout, *queue.first_cause);
      collectives_.emplace(*mesh_, *buffers_);
    }
    queue_.emplace(std::move(queue));
  }
  ~ShmProcessGroup() override { queue_.reset(); }

  std::string_view backend() const override { return kBackend; }
  GroupFacts facts() const override { return {.link = "memory"}; }

  Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    const size_t bytes = static_cast<size_t>(model::Numel(shape)) * SizeOf(dtype);
    if (!mesh_.has_value() || bytes == 0) return ProcessGroup::Allocate(device, std::move(shape), dtype);
    const std::shared_ptr<SharedMemory> memory = Share(device, bytes);
    buffers_->Add(memory.get(), bytes);
    return Tensor::Over(device, {memory, memory->part(rank())}, std::move(shape), dtype);
  }

  // A tensor over all parts.
  Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    const size_t bytes = static_cast<size_t>(model::Numel(shape)) * SizeOf(dtype);
    if (!mesh_.has_value() || bytes == 0) return {};
    const auto num_parts = static_cast<size_t>(size());
    const std::shared_ptr<SharedMemory> memory = Share(device, (bytes + num_parts - 1) / num_parts);
    return Tensor::Over(device, {memory, memory->part(0)}, std::move(shape), dtype);
  }

 private:
  // Memory with a part of `bytes` for each rank, which the device counts.
  std::shared_ptr<SharedMemory> Share(const model::DevicePtr& device, size_t bytes) {
    try {
      std::shared_ptr<SharedMemory> memory(mesh_->Share(bytes).release(),
                                           [buffers = buffers_, device, bytes](SharedMemory* unused) {
                                             buffers->Remove(unused);
                                             device->allocator().CountOut(bytes);
                                             delete unused;
                                           });
      device->allocator().CountIn(bytes);
      return memory;
    } catch (const std::runtime_error& error) {
      // Other ranks may have the memory, so ranks no longer agree on the numbers of buffers.
      const std::string cause = queue_->Fail("allocate", error);
      throw CollectiveError(Join("rank ", name_, ": allocation of ", bytes, " bytes (shm) failed: ", cause));
    }
  }

  void Run(const Request& request, int thread) {
    if (collectives_.has_value()) {
      const bool is_caller = thread == RequestQueueOptions::kCaller;
      mesh_->set_spin(is_caller ? kCallerSpins : kThreadSpins, /*yields=*/is_caller);
      return collectives_->Run(request);
    }
    RunAlone(request);
  }

  const int name_;  // number of this rank in messages
  const std::shared_ptr<SharedBuffers> buffers_;
  std::optional<ShmMesh> mesh_;  // nullopt in a world of one, like the next member
  std::optional<ShmCollectives> collectives_;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& /*device*/,
                                           std::shared_ptr<FirstCause> first_cause) {
  CheckOptions(kBackend, options);
  return std::make_unique<ShmProcessGroup>(options, std::move(first_cause));
}

}  // namespace gradsync::comm
