#include <sys/socket.h>

#include <chrono>

#include "comm/rendezvous/tcp_store.h"
#include "tests/fuzz/fuzz.h"

// A client that sends these bytes, and then an honest one: the server answers it.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(20); };
  const comm::JobIdentity job{.name = "fuzz", .secret = "secret"};
  static comm::TcpStoreServer& server =
      *new comm::TcpStoreServer({.host = "127.0.0.1", .port = "0"}, job, 2, soon());
  const comm::HostPort address{.host = "127.0.0.1", .port = std::to_string(server.port())};
  {
    const comm::FileDescriptor stranger = comm::ConnectToAny({address}, soon());
    for (size_t sent = 0; sent < size;) {
      const ssize_t count = send(stranger.get(), data + sent, size - sent, MSG_NOSIGNAL);
      if (count <= 0) break;  // hung up on
      sent += static_cast<size_t>(count);
    }
  }
  static comm::TcpStoreClient& client = *new comm::TcpStoreClient(address, job, soon());
  client.SetDeadline(soon());
  client.Set("rank.1", "here");
  fuzz::Expect(client.Get("rank.1") == "here" && server.num_bytes() < (size_t{300} << 20));
  return 0;
}
