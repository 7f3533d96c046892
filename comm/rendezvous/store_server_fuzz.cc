#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace gradsync::comm;  // NOLINT: a program of its own

const JobIdentity kJob{.name = "fuzz", .secret = "secret"};

Deadline DeadlineInAMinute() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

// Joins as this rank, and then sends the bytes as a request.
void AskAs(int rank, const HostPort& address, std::string_view bytes) {
  FileDescriptor socket = Connect(address, DeadlineInAMinute());
  const int fd = socket.get();
  Channel channel(std::move(socket));
  const std::string hello = absl::StrCat(kProtocol, "\nfuzz\n\nnonce");
  channel.Send({FrameType::kHello, hello}, DeadlineInAMinute());
  const std::string nonce = channel.Receive(kMaxPayloadBytes, DeadlineInAMinute()).payload.substr(0, 32);
  const std::string rest = absl::StrCat(rank, "\nhost\n");
  channel.Send({FrameType::kJoin, absl::StrCat(ProofOfRank("secret", hello, nonce, rest), "\n", rest)},
               DeadlineInAMinute());
  gradsync::fuzz::Expect(channel.Receive(kMaxPayloadBytes, DeadlineInAMinute()).type == FrameType::kYes);
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

}  // namespace

// A stranger and a rank send these bytes. Another rank must be served, unless the first rank made the job
// fail.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  StoreServer server(Listen({.host = "127.0.0.1", .port = "0"}, DeadlineInAMinute(), [] {}),
                     {.job = kJob, .size = 3, .check = [](int, const std::string&) { return ""; }});
  const HostPort address{.host = "127.0.0.1", .port = std::to_string(server.port())};
  {
    const FileDescriptor stranger = Connect(address, DeadlineInAMinute());
    send(stranger.get(), data, size, MSG_NOSIGNAL);
  }
  StoreClient client(address, kJob, "", DeadlineInAMinute());
  std::thread other([&] { client.Join(2, "host", "", DeadlineInAMinute()); });
  AskAs(1, address, fuzz::Text(data, size));
  other.join();
  try {
    client.Set("rank.2", "here", DeadlineInAMinute());
    fuzz::Expect(client.Get("rank.2", DeadlineInAMinute()).has_value());
  } catch (const JobFailed&) {
  }
  return 0;
}
