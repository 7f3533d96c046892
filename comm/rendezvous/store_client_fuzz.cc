#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/rendezvous/tcp_store.h"
#include "tests/fuzz/fuzz.h"

// A server that answers with these bytes, whatever it is asked: the client returns something or throws.
int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  static const std::vector<comm::FileDescriptor>& listeners =
      *new std::vector<comm::FileDescriptor>(comm::Listen({.host = "127.0.0.1", .port = "0"}, soon, [] {}));
  const comm::HostPort address{.host = "127.0.0.1", .port = std::to_string(comm::PortOf(listeners.front()))};
  std::thread impostor([&] {
    if (!comm::WaitFor(listeners.front(), POLLIN, soon)) return;
    const comm::FileDescriptor socket(accept(listeners.front().get(), nullptr, nullptr));
    send(socket.get(), data, size, MSG_NOSIGNAL);
    shutdown(socket.get(), SHUT_WR);
    char sink[4096];
    while (recv(socket.get(), sink, sizeof(sink), 0) > 0) {
    }
  });
  try {
    comm::TcpStoreClient client(address, {},
                                std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
    client.Get("key");
    client.Keys("prefix");
  } catch (const std::runtime_error&) {
  }
  impostor.join();
  return 0;
}
