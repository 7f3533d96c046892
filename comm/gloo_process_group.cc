#include "comm/gloo_process_group.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/cuda_staging.h"
#include "comm/gloo_mesh.h"
#include "comm/rendezvous.h"
#include "comm/request.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using model::Tensor;

constexpr std::string_view kBackend = "gloo";

// One collective, shared by the caller's handles and the thread that runs it.
class GlooWork : public Work::State {
 public:
  // `issued`: what the compute stream of a GPU has to pass first.
  GlooWork(Request request, std::optional<model::CudaEvent> issued)
      : request_(std::move(request)), signature_(request_), issued_(std::move(issued)) {}

  void Wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    if (!error_.empty()) throw CollectiveError(error_);
  }
  Interval interval() override {
    Wait();
    return interval_;
  }

  const Request& request() const { return request_; }
  const Signature& signature() const { return signature_; }
  // Returns when the tensors hold what they did when the collective was issued.
  void WaitUntilComputed(std::chrono::milliseconds timeout) const {
    if (issued_.has_value()) WaitOnHost(*issued_, timeout);
  }

  // With an error if it failed. The tensors are let go first, so that a caller who waited is their only
  // owner.
  void Complete(Interval interval, std::string error) {
    request_.input = Tensor();
    request_.output = Tensor();
    const std::lock_guard lock(mutex_);
    interval_ = interval;
    error_ = std::move(error);
    done_ = true;
    changed_.notify_all();
  }

 private:
  Request request_;  // of the thread that runs it
  const Signature signature_;
  const std::optional<model::CudaEvent> issued_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Interval interval_;
  std::string error_;
};

// The threads take collectives from one queue, in the order of issue, and each runs its own to the end.
//
// Why that cannot deadlock, although at one moment the threads of different ranks may be busy with different
// collectives: consider the first collective, in order of issue, that is not finished on all ranks. Those
// before it are finished everywhere, so on every rank a thread is or becomes free to take it (the queue holds
// none before it), given that every rank issues it. Its messages have slots of their own, and a message only
// enters a connection once its receiver has room for it, so other collectives in flight cannot block their
// way. So it finishes; and so does, by induction, every one after it.
class GlooProcessGroup : public RequestGroup {
 public:
  explicit GlooProcessGroup(const GlooOptions& options)
      : RequestGroup(
            {.size = options.world.size, .device = options.gpu == nullptr ? "cpu" : options.gpu->name()}),
        options_(options) {
    const World& world = options.world;
    if (world.size > 1) {
      Rendezvous rendezvous(world, options.timeout);
      mesh_.emplace(world, options.interface_or_address, rendezvous, options.timeout);
      rendezvous.Finish();
    }
    const BlockSigpipe block_sigpipe;
    for (int i = 0; i < options.num_threads; ++i) threads_.emplace_back([this, i] { RunThread(i); });
  }

  ~GlooProcessGroup() override {
    bool is_busy = false;
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      is_busy = num_unfinished_ > 0;
      if (is_busy && failure_.empty()) failure_ = "the group was destroyed before it finished";
    }
    issued_.notify_all();
    // Those that run lose their connections; those that wait fail when they are taken.
    if (is_busy && mesh_.has_value()) mesh_->Abort();
    for (std::thread& thread : threads_) thread.join();
  }

  int rank() const override { return options_.world.rank; }
  std::string_view backend() const override { return kBackend; }
  int num_threads() const override { return options_.num_threads; }

  void Barrier() override {
    Issue(Request{}).Wait();
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return num_unfinished_ == 0; });
    if (!failure_.empty())
      throw CollectiveError(Join("rank ", rank(), ": barrier (gloo) failed: ", failure_));
  }

 private:
  // What a communication thread keeps from one collective to the next.
  struct Memory {
    Scratch scratch;
    std::optional<CudaStaging> staging;
  };

  Work Issue(Request request) override {
    std::optional<model::CudaEvent> issued;
    if (options_.gpu != nullptr && request.output.defined()) {
      issued.emplace(*options_.gpu);
      issued->Record(options_.gpu->compute_stream());
    }
    const std::lock_guard lock(mutex_);
    request.sequence = next_sequence_++;
    auto work = std::make_shared<GlooWork>(std::move(request), std::move(issued));
    queue_.push_back(work);
    ++num_unfinished_;
    issued_.notify_one();
    return Work(work);
  }

  void RunThread(int index) {
    pthread_setname_np(pthread_self(), Join("comm_", rank(), "_", index).substr(0, 15).c_str());
    Memory memory;
    while (const auto work = Take()) {
      int64_t start_ns = Now();
      std::string error;
      try {
        ThrowIfFailed();
        work->WaitUntilComputed(options_.timeout);
        start_ns = Now();
        Run(work->request(), memory);
      } catch (const std::exception& exception) {
        error = Fail(*work, exception, start_ns);
      }
      work->Complete({.start_ns = start_ns, .end_ns = Now()}, std::move(error));
      const std::lock_guard lock(mutex_);
      if (--num_unfinished_ == 0) finished_.notify_all();
    }
  }

  // The next collective in order of issue; null when the group is being destroyed and none is left.
  std::shared_ptr<GlooWork> Take() {
    std::unique_lock lock(mutex_);
    issued_.wait(lock, [&] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return nullptr;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    return work;
  }

  void Run(const Request& request, Memory& memory) {
    if (mesh_.has_value() && options_.check_collectives) CheckSameOnAllRanks(*mesh_, request);
    const auto run_on_host = [&](const Request& part) { RunOnHost(part, memory.scratch); };
    if (options_.gpu == nullptr || !request.output.defined()) return run_on_host(request);
    if (!memory.staging.has_value()) memory.staging.emplace(options_.gpu, options_.timeout);
    memory.staging->Run(request, run_on_host);
  }

  void RunOnHost(const Request& request, Scratch& scratch) {
    if (mesh_.has_value()) return RunCollective(*mesh_, request, options_.tuning, scratch);
    if (request.output.defined()) request.output.CopyFrom(request.input.View(request.output.shape()));
  }

  void ThrowIfFailed() {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw PeerError(failure_, /*is_consequence=*/true);
  }

  // Makes this failure, or the first one before it, that of all later collectives. Returns the whole message.
  std::string Fail(const GlooWork& work, const std::exception& exception, int64_t start_ns) {
    const auto* peer_error = dynamic_cast<const PeerError*>(&exception);
    std::unique_lock lock(mutex_);
    if (peer_error != nullptr && peer_error->is_consequence()) {
      // Whoever ran into the cause is about to say so.
      failed_.wait_for(lock, std::chrono::seconds(1), [&] { return !failure_.empty(); });
    }
    std::string cause = failure_;
    if (failure_.empty()) {
      cause = exception.what();
      failure_ =
          Join(Name(work.signature().collective), " #", work.signature().sequence, " had failed: ", cause);
      failed_.notify_all();
      lock.unlock();
      if (mesh_.has_value()) mesh_->Abort();
    }
    return Failure(rank(), work.signature(), kBackend, Now() - start_ns, cause);
  }

  const GlooOptions options_;
  std::optional<GlooMesh> mesh_;  // nullopt in a world of one
  std::mutex mutex_;
  std::condition_variable issued_;
  std::condition_variable finished_;  // all that were issued
  std::condition_variable failed_;
  std::deque<std::shared_ptr<GlooWork>> queue_;
  int64_t next_sequence_ = 0;
  int num_unfinished_ = 0;
  bool is_stopping_ = false;
  std::string failure_;  // the first one's cause; empty while all is well
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeGlooGroup(const GlooOptions& options) {
  const World& world = options.world;
  Require(world.size >= 1 && world.rank >= 0 && world.rank < world.size, "gloo: rank ", world.rank,
          " of a world of ", world.size);
  Require(options.num_threads >= 1, "gloo: ", options.num_threads,
          " communication threads, expected at least 1");
  Require(options.timeout.count() >= 1, "gloo: timeout is ", options.timeout.count(),
          " ms, expected at least 1");
  return std::make_unique<GlooProcessGroup>(options);
}

}  // namespace gradsync::comm
