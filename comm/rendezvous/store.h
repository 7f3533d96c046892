#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/file_descriptor.h"

// A key-value store for the ranks of a job, in rank 0's process; the other ranks reach it over TCP.
namespace gradsync::comm {

struct JobIdentity {
  std::string name{};    // unique, or empty if unknown
  std::string secret{};  // known only to the ranks of the job; empty if there is no secret
};

// An exception: this process and the rank 0 that it found do not accept each other, for example because their
// secrets differ; what() is the reason. The caller must not try to connect again.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class FailureKind { kOfRank, kBadArgument };

// An exception: the job has failed, for example because a rank has called Store::Fail; what() is the cause.
class JobFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Set, Get and Meet throw JobFailed if the job fails before they are done. But a Meet that all `size` ranks
// have called returns its values. Set, Get and Meet throw std::runtime_error if rank 0 cannot be reached or
// does not answer in time.
class Store {
 public:
  virtual ~Store() = default;
  // Stores `value` under `key` in rank 0's process, in place of an older value of `key`. A rank other than
  // rank 0 waits for rank 0's answer, at most until the deadline.
  virtual void Set(const std::string& key, std::string_view value, Deadline deadline) = 0;
  // Waits until a rank has set the value of `key`, and returns the value; returns nullopt if no rank has set
  // it by the deadline.
  virtual std::optional<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Waits until `size` ranks have called Meet with this key, but at most until the deadline. Each rank gives
  // its own `index`, from 0 to size - 1. Each rank gives a list `own`: own[i] is for the rank with index i;
  // if `own` has only one element, this element is for all ranks. Returns, in the order of the indices, the
  // value that each rank gave for the caller. For a rank that has not called Meet with `key` by the deadline,
  // the returned value is nullopt.
  using Values = std::vector<std::optional<std::string>>;
  virtual Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
                      Deadline deadline) = 0;
  // Makes the job fail with `cause`, which must not be empty. Rank 0 sends `cause` to each rank that is still
  // connected, as the answer to that rank's current or next Set, Get or Meet. A Meet that all `size` ranks
  // have called still returns its values. If the job has failed, the destructor of rank 0's StoreServer also
  // sends the cause to each connected rank. Fail has no effect if rank 0 cannot be reached, or if the job has
  // already failed when rank 0 receives `cause`.
  virtual void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept = 0;
  // Returns the `cause` of the job's failure if this rank knows that a call of Fail with kBadArgument has
  // made the job fail, because a rank had a bad argument. Otherwise returns nullopt.
  virtual std::optional<std::string> bad_argument() = 0;
};

}  // namespace gradsync::comm
