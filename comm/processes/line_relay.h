#ifndef GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_
#define GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_

#include <chrono>
#include <string>

#include "comm/processes/background_writer.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Passes on what comes out of a pipe, line by line, with a prefix before each. What comes within `hold` of
// the start is kept back until then, or until Close.
class LineRelay {
 public:
  // Makes `source` non-blocking. `target` outlives the relay.
  LineRelay(FileDescriptor source, std::string prefix, BackgroundWriter& target,
            std::chrono::milliseconds hold);

  int fd() const { return source_.get(); }
  bool open() const { return source_.valid(); }

  // Takes what there is, and passes on the whole lines.
  void Read();
  // From now on nothing is read, and what is kept back stays so until Close.
  void Keep();
  // Passes on everything there is.
  void Close();

 private:
  void Pass(bool also_unfinished);

  FileDescriptor source_;
  std::string prefix_;
  BackgroundWriter* target_;
  std::chrono::steady_clock::time_point release_;
  bool kept_ = false;
  std::string pending_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_
