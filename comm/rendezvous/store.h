#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/file_descriptor.h"

// A key-value store for the ranks of a job before they are connected. Rank 0 keeps the values; the other
// ranks reach it over TCP.
namespace gradsync::comm {

// Identifies the ranks of a job.
struct JobIdentity {
  std::string name{};    // unique, or empty if unknown
  std::string secret{};  // known only to the ranks of the job; empty if there is no secret
};

// Rank 0 has rejected this process, which does not belong to the job; what() is the reason. A retry does not
// help.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class FailureKind { kOfRank, kBadArgument };

// A rank has made the job fail; what() is the cause.
class JobFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// All functions throw JobFailed after any rank has called Fail, and std::runtime_error, one line, if rank 0
// cannot be reached.
class Store {
 public:
  virtual ~Store() = default;
  // Sets a value. Waits for rank 0's answer until the deadline.
  virtual void Set(const std::string& key, std::string_view value, Deadline deadline) = 0;
  // Returns the value of a key. Waits until a rank has set the key; nullopt if no rank has set it by the
  // deadline.
  virtual std::optional<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Waits until each of `size` ranks has called Meet with this key and its own index. Returns one value of
  // each rank: the value that the rank has at this rank's index, or its only value. The value is nullopt for
  // a rank that has not called by the deadline.
  using Values = std::vector<std::optional<std::string>>;
  virtual Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
                      Deadline deadline) = 0;
  // Makes the job fail: sends `cause` to all ranks, if rank 0 can be reached. Only the first call has an
  // effect.
  virtual void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept = 0;
  // If this rank has learned that the job failed because of a bad argument of some rank, returns the cause;
  // else nullopt.
  virtual std::optional<std::string> bad_argument() = 0;
};

}  // namespace gradsync::comm
