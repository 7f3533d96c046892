#ifndef GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_
#define GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_

#include <chrono>
#include <string>
#include <string_view>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Writes to a file and never blocks, not even for a terminal that is halted or a pipe that nobody reads.
class PatientWriter {
 public:
  explicit PatientWriter(int fd);

  int fd() const { return file_.get(); }
  void Write(std::string_view text);
  // Writes as much of what is pending as the file takes: all of it, once it is ready for POLLOUT often
  // enough.
  void Flush();
  size_t pending_bytes() const { return pending_.size(); }

 private:
  FileDescriptor file_;
  std::string pending_;
};

// Passes on what comes out of a pipe, line by line, with a prefix before each. What comes within `hold` of
// the start is held back until then, or until Close.
class LineRelay {
 public:
  // Makes `source` non-blocking. `target` outlives the relay.
  LineRelay(FileDescriptor source, std::string prefix, PatientWriter& target, std::chrono::milliseconds hold);

  int fd() const { return source_.get(); }
  bool open() const { return source_.valid(); }

  // Reads what there is, and passes on the whole lines.
  void Read();
  // From now on nothing is read, and what is held back stays so until Close.
  void Keep();
  // Passes on everything there is.
  void Close();

 private:
  void Pass(bool also_unfinished);

  FileDescriptor source_;
  std::string prefix_;
  PatientWriter* target_;
  Deadline release_;
  bool kept_ = false;
  std::string pending_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_LINE_RELAY_H_
