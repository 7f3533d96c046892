#include "comm/rendezvous/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "comm/rendezvous/tcp_store.h"
#include "model/error.h"

namespace gradsync::comm {
namespace fs = std::filesystem;
namespace {

// Names that a user may choose need not make file names. FNV-1a.
std::string PrefixOf(const JobIdentity& job) {
  if (job.name.empty() && job.secret.empty()) return "";
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : job.name + '\n' + job.secret) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx-", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

void MemoryStore::Set(const std::string& key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = values_.try_emplace(key);
  num_bytes_ += (is_new ? key.size() : 0) + value.size() - it->second.size();
  it->second = value;
}

std::optional<std::string> MemoryStore::Get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional<std::string>(it->second);
}

void MemoryStore::Remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = values_.find(key);
  if (it == values_.end()) return;
  num_bytes_ -= key.size() + it->second.size();
  values_.erase(it);
}

size_t MemoryStore::num_bytes() {
  const std::lock_guard lock(mutex_);
  return num_bytes_;
}

std::vector<std::string> MemoryStore::Keys(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

FileStore::FileStore(std::string directory, const JobIdentity& job)
    : directory_(std::move(directory)), prefix_(PrefixOf(job)) {
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
  if (fd >= 0 && file) fs::rename(temporary, PathOf(key), error);
  if (fd < 0 || !file || error) throw std::runtime_error("cannot write " + PathOf(key));
}

std::optional<std::string> FileStore::Get(const std::string& key) {
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void FileStore::Remove(const std::string& key) {
  std::error_code ignored;
  fs::remove(PathOf(key), ignored);
}

bool FileStore::Claim(const std::string& name) {
  // The system lets go of a lock when its owner ends. The file may be another's by the time it is locked:
  // only the one that the directory still has counts.
  const std::string path = PathOf(name + ".lock");
  for (;;) {
    FileDescriptor file = OpenFile(path, O_RDWR | O_CREAT);
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
    struct stat locked {};
    struct stat current {};
    fstat(file.get(), &locked);
    if (stat(path.c_str(), &current) != 0 || locked.st_ino != current.st_ino) continue;
    claims_.insert_or_assign(path, std::move(file));
    return true;
  }
}

FileStore::~FileStore() {
  for (const auto& [path, file] : claims_) unlink(path.c_str());
}

std::vector<std::string> FileStore::Keys(const std::string& prefix) {
  std::vector<std::string> keys;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix_ + prefix) && !name.starts_with(".tmp.")) {
      keys.push_back(name.substr(prefix_.size()));
    }
  }
  if (error) throw std::runtime_error(Join("cannot read directory ", directory_, ": ", error.message()));
  std::ranges::sort(keys);
  return keys;
}

std::unique_ptr<Store> OpenStore(const StoreOptions& options, Deadline deadline) {
  constexpr std::string_view kFile = "file://";
  constexpr std::string_view kTcp = "tcp://";
  const std::string& url = options.url;
  if (url.starts_with(kFile)) {
    std::string directory = url.substr(kFile.size());
    Require(directory.starts_with('/') && directory.size() > 1, "rendezvous is '", url,
            "', expected file:///absolute/directory");
    return std::make_unique<FileStore>(std::move(directory), options.job);
  }
  Require(url.starts_with(kTcp), "rendezvous is '", url, "', expected file:///directory or tcp://host:port");
  const HostPort address = ParseHostPort(url.substr(kTcp.size()), url);
  if (options.serve) {
    return std::make_unique<TcpStoreServer>(address, options.job, options.size - 1, deadline);
  }
  return std::make_unique<TcpStoreClient>(address, options.job, deadline);
}

}  // namespace gradsync::comm
