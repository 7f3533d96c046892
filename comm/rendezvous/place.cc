#include "comm/rendezvous/place.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/rendezvous/protocol.h"
#include "model/base/error.h"

namespace gradsync::comm {

Place::Place(const std::string& url, const std::string& job_name) {
  constexpr std::string_view kFile = "file://";
  constexpr std::string_view kTcp = "tcp://";
  if (url.starts_with(kFile)) {
    directory_ = url.substr(kFile.size());
    Require(directory_.starts_with('/') && directory_.size() > 1, "rendezvous is '", url,
            "', expected file:///absolute/directory");
    // A job's name may be an invalid file name.
    path_ = absl::StrCat(directory_, "/rank0", job_name.empty() ? "" : "." + ComputeMac("", job_name));
  } else {
    Require(url.starts_with(kTcp), "rendezvous is '", url,
            "', expected file:///directory or tcp://host:port");
    address_ = ParseHostPort(url.substr(kTcp.size()), url);
  }
}

std::optional<Rank0> Place::Find() const {
  if (!is_file()) return Rank0{address_, ""};
  const FileDescriptor file(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // it may be a FIFO
  struct stat status {};
  char text[512];
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const ssize_t length = read(file.get(), text, sizeof(text));
  if (length <= 0) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(absl::string_view(text, static_cast<size_t>(length)),
                                                        absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return words.size() == 3 ? std::optional(Rank0{{words[0], words[1]}, words[2]}) : std::nullopt;
}

void Place::Publish(const Rank0& rank0) const {
  std::error_code ignored;
  std::filesystem::create_directories(directory_, ignored);
  std::string temporary = directory_ + "/.rank0.XXXXXX";
  FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  const std::string text = absl::StrCat(rank0.address.host, " ", rank0.address.port, " ", rank0.run, "\n");
  const bool is_written = file.valid() && write(file.get(), text.data(), text.size()) == std::ssize(text);
  file.Close();
  // A rename is atomic, also on NFS.
  if (is_written && rename(temporary.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  unlink(temporary.c_str());
  throw std::runtime_error(Join("cannot write to directory ", directory_, ": ", ErrorText(error)));
}

void Place::Withdraw(const std::string& run) const {
  if (const auto rank0 = Find(); rank0.has_value() && rank0->run == run) unlink(path_.c_str());
}

}  // namespace gradsync::comm
