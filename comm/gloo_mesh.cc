#include "comm/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

#include "comm/process_group.h"
#include "comm/tcp_store.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kConnectedSlot = ~uint64_t{0};  // no collective's

// What gloo reads and writes while it connects one context.
class ContextNotes : public gloo::rendezvous::Store {
 public:
  ContextNotes(Rendezvous& rendezvous, std::string prefix)
      : rendezvous_(rendezvous), prefix_(std::move(prefix)) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    rendezvous_.Set(prefix_ + key, std::string_view(data.data(), data.size()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = rendezvous_.Get(prefix_ + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  Rendezvous& rendezvous_;
  const std::string prefix_;
};

// Without the place in gloo's source that its messages begin with.
std::string WithoutPlace(std::string text) {
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

PeerError Explain(int peer, milliseconds timeout, const std::string& what) {
  const auto says = [&](const char* words) { return what.find(words) != std::string::npos; };
  if (says("Application timeout caused pair closure")) return {"the connections were closed", true};
  if (says("Timed out waiting")) {
    return {Join("rank ", peer, " made no progress for ", Seconds(timeout),
                 " (GRADSYNC_CHECK_COLLECTIVES=1 shows whether ranks issue different collectives)"),
            false};
  }
  if (says("closed by peer") || says("reset by peer") || says("Broken pipe"))
    return {Join("rank ", peer, " closed the connection"), false};
  return {Join("connection to rank ", peer, ": ", WithoutPlace(what)), false};
}

// Calls `action`; gloo's exceptions end here.
template <class Action>
void Guarded(int peer, milliseconds timeout, const Action& action) {
  try {
    action();
  } catch (const gloo::Exception& error) {
    throw Explain(peer, timeout, error.what());
  }
}

// Whether the name or number is an address of this host. gloo would look only when it binds, and leak.
bool IsOwnAddress(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &list) != 0) return false;
  bool is_own = false;
  for (const addrinfo* candidate = list; candidate != nullptr; candidate = candidate->ai_next) {
    const Socket socket(::socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    is_own = is_own || bind(socket.fd(), candidate->ai_addr, candidate->ai_addrlen) == 0;
  }
  freeaddrinfo(list);
  return is_own;
}

bool IsLoopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

// The address by which ranks on other hosts reach this one. It is the one that leads to the rendezvous; on
// the rendezvous' own host, whose name often stands for loopback there, the one that leads to some other
// host.
std::string AddressForOtherHosts(const World& world, Rendezvous& rendezvous) {
  constexpr std::string_view kScheme = "tcp://";
  const HostPort place = ParseHostPort(world.rendezvous.substr(kScheme.size()), world.rendezvous);
  std::string own = OwnAddressTowards(place);
  const auto key = [](int rank) { return Join("gloo.address.", rank); };
  rendezvous.Set(key(world.rank), own);
  for (int rank = 0; IsLoopback(own) && rank < world.size; ++rank) {
    const std::string other = rendezvous.Get(key(rank));
    if (!IsLoopback(other)) own = OwnAddressTowards({other, place.port});
  }
  return own;
}

std::shared_ptr<gloo::transport::Device> CreateDevice(const World& world,
                                                      const std::string& interface_or_address,
                                                      Rendezvous& rendezvous) {
  gloo::transport::tcp::attr attributes;
  if (!interface_or_address.empty() && if_nametoindex(interface_or_address.c_str()) != 0) {
    attributes.iface = interface_or_address;
  } else if (!interface_or_address.empty()) {
    Require(IsOwnAddress(interface_or_address), "interface or address is '", interface_or_address,
            "', expected a network interface or an address of this host");
    attributes.hostname = interface_or_address;
  } else if (world.local_size == world.size) {
    attributes.hostname = "127.0.0.1";
  } else if (world.rendezvous.starts_with("tcp://")) {
    attributes.hostname = AddressForOtherHosts(world, rendezvous);
  }
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    throw InvalidInput(Join("gloo cannot use ",
                            interface_or_address.empty() ? "this host's name" : interface_or_address,
                            " (name an interface or an address): ", WithoutPlace(error.what())));
  }
}

}  // namespace

BlockSigpipe::BlockSigpipe() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &mask, &old_mask_);
}

BlockSigpipe::~BlockSigpipe() { pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr); }

GlooMesh::GlooMesh(const World& world, const std::string& interface_or_address, Rendezvous& rendezvous,
                   milliseconds timeout)
    : rank_(world.rank), size_(world.size), timeout_(timeout) {
  for (int i = 1; i < size_; ++i) others_.push_back((rank_ + i) % size_);
  const BlockSigpipe block_sigpipe;
  try {
    device_ = CreateDevice(world, interface_or_address, rendezvous);
    for (const char* direction : {"up.", "down."}) {
      auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
      // gloo waits five times this long for a connection.
      context->setTimeout(std::max(timeout / 5, milliseconds(1)));
      ContextNotes notes(rendezvous, direction);
      context->connectFullMesh(notes, device_);
      contexts_.push_back(std::move(context));
    }
    WaitForOthers(kConnectedSlot);
  } catch (const CollectiveError&) {
    throw;
  } catch (const InvalidInput&) {
    throw;
  } catch (const std::exception& error) {
    throw CollectiveError(
        Join("rank ", rank_, ": could not connect to the other ranks: ", WithoutPlace(error.what())));
  }
}

GlooMesh::~GlooMesh() = default;

void GlooMesh::WaitForOthers(uint64_t slot) {
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const int peer : others_) {
    incoming.emplace_back(*this, peer, slot, nullptr, 0).Expect(0, 0);
    outgoing.emplace_back(*this, peer, slot, nullptr, 0).Send(0, 0);
  }
  for (Incoming& stream : incoming) stream.Wait();
  for (Outgoing& stream : outgoing) stream.Wait();
}

void GlooMesh::Abort() noexcept {
  for (const auto& context : contexts_) {
    try {
      // When a wait times out, gloo closes all connections of the context and tells everyone who waits on
      // them. That is its one way to be told so.
      context->createUnboundBuffer(nullptr, 0)->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
      // The timeout itself.
    }
  }
}

Outgoing::Outgoing(GlooMesh& mesh, int peer, uint64_t slot, const void* data, size_t bytes)
    : mesh_(&mesh), peer_(peer), slot_(slot) {
  // gloo only reads what it sends.
  buffer_ = mesh.ContextFor(mesh.rank(), peer).createUnboundBuffer(const_cast<void*>(data), bytes);
}

void Outgoing::Send(size_t offset_bytes, size_t bytes) {
  Guarded(peer_, mesh_->timeout(), [&] { buffer_->send(peer_, slot_, offset_bytes, bytes); });
  ++num_pending_;
}

void Outgoing::Wait() {
  for (; num_pending_ > 0; --num_pending_) {
    Guarded(peer_, mesh_->timeout(), [&] { buffer_->waitSend(mesh_->timeout()); });
  }
}

Incoming::Incoming(GlooMesh& mesh, int peer, uint64_t slot, void* data, size_t bytes)
    : mesh_(&mesh), peer_(peer), slot_(slot) {
  buffer_ = mesh.ContextFor(peer, mesh.rank()).createUnboundBuffer(data, bytes);
}

void Incoming::Expect(size_t offset_bytes, size_t bytes) {
  Guarded(peer_, mesh_->timeout(), [&] { buffer_->recv(peer_, slot_, offset_bytes, bytes); });
}

void Incoming::Wait() {
  Guarded(peer_, mesh_->timeout(), [&] { buffer_->waitRecv(nullptr, mesh_->timeout()); });
}

}  // namespace gradsync::comm
