#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/file_descriptor.h"

// A key-value store for the ranks of a job, in rank 0; the other ranks reach it over TCP.
namespace gradsync::comm {

struct JobIdentity {
  std::string name{};    // unique, or empty if unknown
  std::string secret{};  // known only to the ranks of the job; empty if there is no secret
};

// Rank 0 rejects this process, which is not of its job; what() is the reason. A retry does not help.
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

// Set, Get and Meet throw JobFailed if any rank has called Fail, and std::runtime_error if rank 0 is out of
// reach.
class Store {
 public:
  virtual ~Store() = default;
  // Sets a value. Waits for rank 0's answer until the deadline.
  virtual void Set(const std::string& key, std::string_view value, Deadline deadline) = 0;
  // Waits until a rank has set the key, and returns its value; nullopt if none has by the deadline.
  virtual std::optional<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Waits until each of `size` ranks has called Meet with this key and its own index. Returns one value of
  // each rank, by index: own[index] of that rank's `own`, where `index` is the caller's, or its only value.
  // The value is nullopt for a rank that has not called by the deadline.
  using Values = std::vector<std::optional<std::string>>;
  virtual Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
                      Deadline deadline) = 0;
  // Makes the job fail with `cause`, which rank 0 sends to all ranks; has no effect if rank 0 is out of
  // reach. Only the first call by any rank has an effect.
  virtual void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept = 0;
  // Returns the cause if this rank knows that the job failed by a bad argument of a rank; else nullopt.
  virtual std::optional<std::string> bad_argument() = 0;
};

}  // namespace gradsync::comm
