#include "comm/store.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "comm/tcp_store.h"
#include "model/error.h"

namespace gradsync::comm {
namespace fs = std::filesystem;

void MemoryStore::Set(const std::string& key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
}

std::optional<std::string> MemoryStore::Get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional<std::string>(it->second);
}

void MemoryStore::Remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

std::vector<std::string> MemoryStore::Keys(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

FileStore::FileStore(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || access(directory_.c_str(), W_OK | X_OK) != 0) {
    const std::string reason = error ? error.message() : std::generic_category().message(errno);
    throw std::runtime_error(Join("cannot write to directory ", directory_, ": ", reason));
  }
}

void FileStore::Set(const std::string& key, std::string_view value) {
  // A rename is atomic, on NFS too.
  std::string temporary = directory_ + "/.tmp.XXXXXX";
  const int fd = mkstemp(temporary.data());
  if (fd >= 0) close(fd);
  std::ofstream file(temporary, std::ios::binary);
  file.write(value.data(), static_cast<std::streamsize>(value.size()));
  file.close();
  std::error_code error;
  if (fd >= 0 && file) fs::rename(temporary, directory_ + "/" + key, error);
  if (fd < 0 || !file || error) throw std::runtime_error(Join("cannot write ", directory_, "/", key));
}

std::optional<std::string> FileStore::Get(const std::string& key) {
  std::ifstream file(directory_ + "/" + key, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void FileStore::Remove(const std::string& key) {
  std::error_code ignored;
  fs::remove(directory_ + "/" + key, ignored);
}

std::vector<std::string> FileStore::Keys(const std::string& prefix) {
  std::vector<std::string> keys;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && !name.starts_with(".tmp.")) keys.push_back(std::move(name));
  }
  if (error) throw std::runtime_error(Join("cannot read directory ", directory_, ": ", error.message()));
  std::ranges::sort(keys);
  return keys;
}

std::unique_ptr<Store> OpenStore(const std::string& url, bool serve, Deadline deadline) {
  constexpr std::string_view kFile = "file://";
  constexpr std::string_view kTcp = "tcp://";
  if (url.starts_with(kFile)) {
    std::string directory = url.substr(kFile.size());
    Require(directory.starts_with('/') && directory.size() > 1, "rendezvous is '", url,
            "', expected file:///absolute/directory");
    return std::make_unique<FileStore>(std::move(directory));
  }
  Require(url.starts_with(kTcp), "rendezvous is '", url, "', expected file:///directory or tcp://host:port");
  const HostPort address = ParseHostPort(url.substr(kTcp.size()), url);
  if (serve) return std::make_unique<TcpStoreServer>(address, deadline);
  return std::make_unique<TcpStoreClient>(address, deadline);
}

}  // namespace gradsync::comm
