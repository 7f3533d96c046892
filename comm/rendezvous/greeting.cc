#include "comm/rendezvous/greeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"

namespace gradsync::comm {

std::string MakeGreeting(const std::string& secret, const std::string& name, int from) {
  return absl::StrCat(ComputeMac(secret, absl::StrCat(name, " ", from)), " ", from);
}

int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline) {
  constexpr size_t kMaxSilent = 64;
  std::deque<FileDescriptor> silent;  // the oldest connections are closed first
  const auto is_missing = [](const FileDescriptor& socket) { return !socket.valid(); };
  for (;;) {
    const auto missing = std::find_if(sockets.begin() + rank + 1, sockets.end(), is_missing);
    if (missing == sockets.end() || std::chrono::steady_clock::now() >= deadline)
      return static_cast<int>(missing - sockets.begin());
    std::vector<pollfd> polled = {{.fd = listener.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& file : silent)
      polled.push_back({.fd = file.get(), .events = POLLIN, .revents = 0});
    poll(polled.data(), polled.size(), PollTimeout(deadline));
    for (size_t i = silent.size(); i > 0; --i) {
      if (polled[i].revents == 0) continue;
      // Reads at most a greeting, because more data may follow in a stream.
      std::string text(greeting(static_cast<int>(sockets.size()) - 1).size(), '\0');
      const ssize_t length = recv(silent[i - 1].get(), text.data(), text.size(), MSG_DONTWAIT);
      text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
      int peer = 0;
      if (absl::SimpleAtoi(text.substr(text.find(' ') + 1), &peer) && peer > rank &&
          peer < std::ssize(sockets) && !sockets[static_cast<size_t>(peer)].valid() &&
          IsSameMac(text, greeting(peer))) {
        sockets[static_cast<size_t>(peer)] = std::move(silent[i - 1]);
      }
      silent.erase(silent.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
    if (polled[0].revents == 0) continue;
    FileDescriptor file(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!file.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) ThrowErrno("accept");
    if (!file.valid() || !admits(file)) continue;
    if (silent.size() == kMaxSilent) silent.pop_front();
    silent.push_back(std::move(file));
  }
}

}  // namespace gradsync::comm
