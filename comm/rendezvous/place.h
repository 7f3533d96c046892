#pragma once

#include <optional>
#include <string>

#include "comm/rendezvous/network.h"

namespace gradsync::comm {

// The address and the run of rank 0. The run is a random text that identifies one start of rank 0; empty if
// ranks need not know it.
struct Rank0 {
  HostPort address;
  std::string run;
};

// The place at which the ranks of a job find rank 0: tcp://host:port, or the address in a file of
// file:///directory. A named job has its own file.
class Place {
 public:
  // Throws InvalidInput, which quotes the malformed url.
  Place(const std::string& url, const std::string& job_name);

  bool is_file() const { return !path_.empty(); }
  // Returns rank 0; nullopt while there is no file with an address. Never blocks, also if the path is not a
  // regular file.
  std::optional<Rank0> Find() const;
  // Writes the file atomically, and makes the directory if it does not exist. Throws std::runtime_error.
  void Publish(const Rank0& rank0) const;
  // Removes the file if it belongs to this run.
  void Withdraw(const std::string& run) const;

 private:
  HostPort address_;
  std::string directory_;
  std::string path_;
};

}  // namespace gradsync::comm
