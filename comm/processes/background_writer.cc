#include "comm/processes/background_writer.h"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace gradsync::comm {

struct BackgroundWriter::State {
  explicit State(int fd) : target(fd) {}

  const int target;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  size_t in_hand_bytes = 0;  // taken by the thread, and not yet written
  bool is_over = false;

  void Run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_over || !waiting.empty(); });
      if (is_over) return;
      const std::string text = std::exchange(waiting, "");
      in_hand_bytes = text.size();
      while (in_hand_bytes > 0 && !is_over) {
        const char* const rest = text.data() + text.size() - in_hand_bytes;
        const size_t count = in_hand_bytes;
        lock.unlock();
        const ssize_t written = write(target, rest, count);
        const bool again = written < 0 && (errno == EINTR || errno == EAGAIN);
        if (again) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        lock.lock();
        // What cannot be written at all is as good as written.
        if (!again) in_hand_bytes -= written < 0 ? count : static_cast<size_t>(written);
      }
      changed.notify_all();
    }
  }
};

BackgroundWriter::BackgroundWriter(int fd) : state_(std::make_shared<State>(fd)) {
  std::thread([state = state_] { state->Run(); }).detach();
}

BackgroundWriter::~BackgroundWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
}

void BackgroundWriter::Write(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting += text;
  state_->changed.notify_all();
}

size_t BackgroundWriter::pending_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() + state_->in_hand_bytes;
}

bool BackgroundWriter::Drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(lock, deadline,
                                    [this] { return state_->waiting.empty() && state_->in_hand_bytes == 0; });
}

}  // namespace gradsync::comm
