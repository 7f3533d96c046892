#ifndef GRADSYNC_COMM_LINE_RELAY_H_
#define GRADSYNC_COMM_LINE_RELAY_H_

#include <chrono>
#include <string>

namespace gradsync::comm {

// Passes on what comes out of a pipe, line by line, with a prefix before each. What comes within `hold` of
// the start is kept back until then, or until Close.
class LineRelay {
 public:
  // Owns `source`, which it makes non-blocking.
  LineRelay(int source, std::string prefix, int target, std::chrono::milliseconds hold);
  LineRelay(LineRelay&& other) noexcept;
  LineRelay& operator=(LineRelay&&) = delete;
  ~LineRelay();

  int fd() const { return source_; }
  bool open() const { return source_ >= 0; }

  // Takes what there is, and passes on the whole lines.
  void Read();
  // From now on nothing is read, and what is kept back stays so until Close.
  void Keep();
  // Passes on everything there is.
  void Close();

 private:
  void Pass(bool also_unfinished);

  int source_;
  const std::string prefix_;
  const int target_;
  const std::chrono::steady_clock::time_point release_;
  bool kept_ = false;
  std::string pending_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_LINE_RELAY_H_
