#pragma once

#include <optional>
#include <string>

#include "comm/rendezvous/network.h"

namespace gradsync::comm {

// Where rank 0 listens. `run` is a random text that rank 0 makes anew each time it starts to listen; `run` is
// empty if the rendezvous is tcp://host:port.
struct Rank0 {
  HostPort address;
  std::string run;
};

// A Place object is the place (rendezvous) at which the ranks of a job find rank 0. With tcp://host:port,
// rank 0 listens at host:port. With file:///directory, rank 0 writes its address to a file in the directory.
// In this directory, each job that has a name uses a file of its own.
class Place {
 public:
  // The constructor throws InvalidInput, which quotes `url`, if `url` is malformed.
  Place(const std::string& url, const std::string& job_name);

  bool is_file() const { return !path_.empty(); }
  // Returns where rank 0 listens. With tcp://host:port, Find returns this host and port at once, even if rank
  // 0 does not listen there yet. With file:///directory, Find reads the address and Rank0::run from the file
  // that rank 0 has written, and returns nullopt while there is no valid file. If the file's path is a FIFO,
  // Find does not wait for a writer.
  std::optional<Rank0> Find() const;
  // Writes the address and the random text in `rank0` into this job's file in the directory, atomically.
  // Makes the directory if it does not exist. Throws std::runtime_error if the file cannot be written.
  void Publish(const Rank0& rank0) const;
  // Removes this job's file if it contains the text `run` (Rank0::run), so that a file of another start of
  // rank 0 stays.
  void Withdraw(const std::string& run) const;

 private:
  HostPort address_;
  std::string directory_;
  std::string path_;
};

}  // namespace gradsync::comm
