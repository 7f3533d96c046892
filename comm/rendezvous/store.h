#ifndef GRADSYNC_COMM_RENDEZVOUS_STORE_H_
#define GRADSYNC_COMM_RENDEZVOUS_STORE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/rendezvous/network.h"

// Where ranks leave each other notes before they are connected.
namespace gradsync::comm {

// Which ranks belong together.
struct JobIdentity {
  std::string name{};    // no other job's, unless it is empty: not known
  std::string secret{};  // known to its ranks alone, unless it is empty
};

// Keys are made of letters, digits and "._-". Nothing blocks for another rank. Calls throw
// std::runtime_error, one line, when the store cannot be reached any more.
class Store {
 public:
  virtual ~Store() = default;
  // Overwrites. Others see the old value or the new one, never a part.
  virtual void Set(const std::string& key, std::string_view value) = 0;
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  virtual void Remove(const std::string& key) = 0;
  // All keys that start with `prefix`, sorted.
  virtual std::vector<std::string> Keys(const std::string& prefix) = 0;
  // Takes a name that only one can have, until its store is gone, however that comes about. False if another
  // has it.
  virtual bool Claim(const std::string& name) = 0;
  // Until when a call may wait for an answer.
  virtual void SetDeadline(Deadline) {}
};

// In this process. Thread-safe.
class MemoryStore : public Store {
 public:
  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;
  // Of all keys and values.
  size_t num_bytes();

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  size_t num_bytes_ = 0;
};

// One file per key in a directory that all ranks see. Files of a job whose name or secret is known begin with
// what follows from it: other jobs in this directory do not meet them.
class FileStore : public Store {
 public:
  // Makes the directory if need be. Throws std::runtime_error.
  explicit FileStore(std::string directory, const JobIdentity& job = {});
  ~FileStore() override;
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;
  bool Claim(const std::string& name) override;

 private:
  std::string PathOf(const std::string& key) const { return directory_ + "/" + prefix_ + key; }

  const std::string directory_;
  const std::string prefix_;
  std::map<std::string, FileDescriptor> claims_;  // locked files, by path
};

// Opens the store at "file:///directory" or "tcp://host:port". For tcp the rank with `serve` answers the
// others of `size` ranks, for as long as its object lives, and a little longer for those still connected.
// Tries until the deadline, but not if another job is there. Throws InvalidInput for a malformed url,
// std::runtime_error if it cannot be opened.
struct StoreOptions {
  std::string url;
  bool serve = false;
  int size = 1;
  JobIdentity job{};
};
std::unique_ptr<Store> OpenStore(const StoreOptions& options, Deadline deadline);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_STORE_H_
