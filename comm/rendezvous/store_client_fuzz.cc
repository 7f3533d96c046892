#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/rendezvous/store_client.h"
#include "tests/fuzz/fuzz.h"

namespace gradsync {
namespace {

using comm::FrameType;

// Sends these bytes instead of the answer to a hello, or, if the last byte is odd, instead of the messages
// after a rank has joined.
void Answer(const comm::FileDescriptor& listener, std::string_view bytes, comm::Deadline deadline) {
  if (!comm::WaitFor(listener, POLLIN, deadline)) return;
  comm::FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
  const comm::FileDescriptor raw(dup(socket.get()));
  comm::Channel channel(std::move(socket));
  const std::string hello = channel.Receive(comm::kMaxPayloadBytes, deadline).payload;
  if (!bytes.empty() && bytes.back() % 2 != 0) {
    channel.Send({FrameType::kChallenge, absl::StrCat("nonce\n", comm::ProofOfRank0("", hello, "nonce"))},
                 deadline);
    channel.Receive(comm::kMaxPayloadBytes, deadline);
    channel.Send({FrameType::kYes, "host\nhost"}, deadline);
    channel.Receive(comm::kMaxPayloadBytes, deadline);
  }
  send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(raw.get(), SHUT_WR);
  char sink[4096];
  while (comm::WaitFor(raw, POLLIN, deadline) && recv(raw.get(), sink, sizeof(sink), 0) > 0) {
  }
}

}  // namespace
}  // namespace gradsync

// The client must return or throw.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  static const std::vector<comm::FileDescriptor>& listeners =
      *new std::vector<comm::FileDescriptor>(comm::Listen({.host = "127.0.0.1", .port = "0"}, soon, [] {}));
  const comm::HostPort address{.host = "127.0.0.1", .port = std::to_string(comm::PortOf(listeners.front()))};
  std::thread impostor([&] {
    try {
      Answer(listeners.front(), fuzz::Text(data, size), soon);
    } catch (const std::runtime_error&) {
    }
  });
  try {
    comm::StoreClient client(address, {}, "", soon);
    client.Join(1, "host", "", soon);
    client.Set("key", "value", soon);
    client.Get("key", std::chrono::steady_clock::now());
  } catch (const std::runtime_error&) {
  }
  impostor.join();
  return 0;
}
