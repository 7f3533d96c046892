#ifndef GRADSYNC_COMM_RENDEZVOUS_PLACE_H_
#define GRADSYNC_COMM_RENDEZVOUS_PLACE_H_

#include <optional>
#include <string>

#include "comm/rendezvous/network.h"

namespace gradsync::comm {

// Where rank 0 listens, and for which run: a text that nobody can guess, empty if nobody has to know it.
struct Rank0 {
  HostPort address;
  std::string run;
};

// Where the ranks of a job find rank 0: at tcp://host:port, or where a file in file:///directory says. A job
// with a name has a file of its own.
class Place {
 public:
  // Throws InvalidInput, which quotes the malformed url.
  Place(const std::string& url, const std::string& job_name);

  bool is_file() const { return !path_.empty(); }
  // nullopt while there is no file, or none that says so. Whatever is there instead, this does not block.
  std::optional<Rank0> Find() const;
  // Writes the file, atomically, and makes the directory if need be. Throws std::runtime_error.
  void Publish(const Rank0& rank0) const;
  // Removes the file if it is of this run.
  void Withdraw(const std::string& run) const;

 private:
  HostPort address_;
  std::string directory_;
  std::string path_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_PLACE_H_
