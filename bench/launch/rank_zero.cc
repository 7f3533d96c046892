#include "bench/launch/rank_zero.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "model/tensor.h"

namespace gradsync::bench {
namespace {

using model::Tensor;

// Sends `beat` in every period until it is stopped.
class Heart {
 public:
  Heart(comm::ProcessGroup& group, Tensor beat, std::chrono::milliseconds period)
      : thread_([this, &group, beat, period] { Run(group, beat, period); }) {}
  ~Heart() { Join(); }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  // Throws CollectiveError if a beat did not get through.
  void Stop() {
    Join();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  void Run(comm::ProcessGroup& group, const Tensor& beat, std::chrono::milliseconds period) {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, period, [this] { return stop_; })) {
      try {
        group.Broadcast(beat, 0).Wait();
      } catch (...) {
        error_ = std::current_exception();
        return;
      }
    }
  }

  void Join() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void OnRankZero(comm::ProcessGroup& group, const model::DevicePtr& device, std::chrono::milliseconds period,
                const std::function<void()>& work) {
  const auto message = [&](int32_t done) {
    return Tensor::From<int32_t>(device, {1}, std::vector<int32_t>{done});
  };
  const Tensor beat = message(0);
  if (group.rank() != 0) {
    do {
      group.Broadcast(beat, 0).Wait();
    } while (beat.ToVector<int32_t>().front() == 0);
    return;
  }
  Heart heart(group, beat, period);
  work();
  heart.Stop();
  group.Broadcast(message(1), 0).Wait();
}

}  // namespace gradsync::bench
