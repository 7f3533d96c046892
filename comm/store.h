#ifndef GRADSYNC_COMM_STORE_H_
#define GRADSYNC_COMM_STORE_H_

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Where ranks leave each other notes before they are connected.
namespace gradsync::comm {

using Deadline = std::chrono::steady_clock::time_point;

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
};

// In this process. Thread-safe.
class MemoryStore : public Store {
 public:
  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

// One file per key in a directory that all ranks see.
class FileStore : public Store {
 public:
  // Makes the directory if need be. Throws std::runtime_error.
  explicit FileStore(std::string directory);
  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;

 private:
  const std::string directory_;
};

// Opens the store at "file:///directory" or "tcp://host:port". For tcp the rank with `serve` answers the
// others, for as long as its object lives, and a little longer for those still connected. Tries until the
// deadline. Throws InvalidInput for a malformed url, std::runtime_error if it cannot be opened.
std::unique_ptr<Store> OpenStore(const std::string& url, bool serve, Deadline deadline);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_STORE_H_
