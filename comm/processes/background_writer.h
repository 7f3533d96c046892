#ifndef GRADSYNC_COMM_PROCESSES_BACKGROUND_WRITER_H_
#define GRADSYNC_COMM_PROCESSES_BACKGROUND_WRITER_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

namespace gradsync::comm {

// Writes to a file from a thread of its own, so that a terminal that is halted or a pipe that nobody reads
// does not hold up its owner.
class BackgroundWriter {
 public:
  explicit BackgroundWriter(int fd);
  // Forgets what has not been written.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // Never blocks, however much is waiting.
  void Write(std::string_view text);
  // What has not been written yet.
  size_t pending_bytes() const;
  // Waits until nothing is pending, but not longer than until the deadline: then false.
  bool Drain(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;
  std::shared_ptr<State> state_;  // also the thread's, which may be stuck in a call for ever
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_BACKGROUND_WRITER_H_
