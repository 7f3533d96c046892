#include "comm/gloo/gloo_process_group.h"

#include <optional>
#include <utility>
#include <vector>

#include "comm/gloo/cuda_staging.h"
#include "comm/gloo/gloo_mesh.h"
#include "comm/gloo/gloo_own.h"
#include "comm/queue/request.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

std::string_view NameFor(const GlooOptions& options) { return options.own_algorithms ? "gloo_own" : "gloo"; }

// The threads take collectives from one queue, in the order of issue, and each runs its own to the end.
//
// Why that cannot deadlock, although at one moment the threads of different ranks may be busy with different
// collectives: consider the first collective, in order of issue, that is not finished on all ranks. Those
// before it are finished everywhere, so on every rank a thread is or becomes free to take it (the queue holds
// none before it), given that every rank issues it. Its messages have slots of their own, and a message only
// enters a connection once its receiver has room for it, so other collectives in flight cannot block their
// way. So it finishes; and so does, by induction, every one after it.
class GlooProcessGroup : public QueueGroup {
 public:
  explicit GlooProcessGroup(const GlooOptions& options)
      : QueueGroup(options.world.rank, options.world.size,
                   options.gpu == nullptr ? "cpu" : options.gpu->name()),
        options_(options),
        memory_(static_cast<size_t>(options.num_threads)) {
    const World& world = options.world;
    const auto first_cause =
        options.first_cause != nullptr ? options.first_cause : std::make_shared<FirstCause>(world);
    if (world.size > 1) {
      mesh_.emplace(world, options.interface_or_address, options.timeout, *first_cause);
    }
    const BlockSigpipe block_sigpipe;
    queue_.emplace(
        RequestQueueOptions{.rank = world.NameOf(world.rank),
                            .backend = NameFor(options),
                            .num_threads = options.num_threads,
                            .run = [this](const Request& request,
                                          int thread) { Run(request, memory_[static_cast<size_t>(thread)]); },
                            .abort =
                                [this] {
                                  if (mesh_.has_value()) mesh_->Abort();
                                },
                            .first_cause = first_cause,
                            .is_part = options.first_cause != nullptr});
  }
  ~GlooProcessGroup() override { queue_.reset(); }

  std::string_view backend() const override { return NameFor(options_); }
  int num_threads() const override { return options_.num_threads; }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    if (!mesh_.has_value() || mesh_->interface().empty()) return {};
    return {{"interface", mesh_->interface()}};
  }

  Work Issue(Request request) override {
    if (options_.gpu == nullptr || !request.output.defined()) return QueueGroup::Issue(std::move(request));
    const auto issued = std::make_shared<model::CudaEvent>(*options_.gpu);
    issued->Record(options_.gpu->compute_stream());
    request.prepare = [this, issued] { WaitOnHost(*issued, options_.timeout); };
    return queue_->Issue(std::move(request));
  }

 private:
  // What a communication thread keeps from one collective to the next.
  struct Memory {
    Scratch scratch;
    std::optional<CudaStaging> staging;
  };

  void Run(const Request& request, Memory& memory) {
    const auto run_on_host = [&](const Request& part) { RunOnHost(part, memory.scratch); };
    if (options_.gpu == nullptr || !request.output.defined()) return run_on_host(request);
    if (!memory.staging.has_value()) memory.staging.emplace(options_.gpu, options_.timeout);
    memory.staging->Run(request, run_on_host);
  }

  void RunOnHost(const Request& request, Scratch& scratch) {
    if (!mesh_.has_value()) return RunAlone(request);
    const bool is_own = options_.own_algorithms && request.collective == Collective::kAllReduce;
    is_own ? RunOwnAllReduce(*mesh_, request) : RunCollective(*mesh_, request, options_.tuning, scratch);
  }

  const GlooOptions options_;
  std::optional<GlooMesh> mesh_;  // nullopt in a world of one
  std::vector<Memory> memory_;    // by thread
};

}  // namespace

std::unique_ptr<QueueGroup> MakeGlooGroup(const GlooOptions& options) {
  CheckOptions(NameFor(options), options.world, options.timeout);
  Require(options.num_threads >= 1, NameFor(options), ": ", options.num_threads,
          " communication threads, expected at least 1");
  return std::make_unique<GlooProcessGroup>(options);
}

}  // namespace gradsync::comm
