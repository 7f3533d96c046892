#include "comm/gloo/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "absl/strings/numbers.h"
#include "comm/process_group.h"
#include "comm/rendezvous/network.h"
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
    // gloo's keys end in the number of the rank that sets them. One that does not is put down to rank 0.
    int rank = 0;
    const bool has_rank = absl::SimpleAtoi(key.substr(key.find_last_not_of("0123456789") + 1), &rank) &&
                          rank < std::ssize(rendezvous_.hosts());
    const std::string value = rendezvous_.Get(prefix_ + key, has_rank ? rank : 0);
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

constexpr char kClosed[] = "the connections were closed";

void ThrowIfAborted(bool completed) {
  if (!completed) throw PeerError(kNobody, kClosed);
}

[[noreturn]] void Explain(int peer, milliseconds timeout, const std::string& what) {
  const auto says = [&](const char* words) { return what.find(words) != std::string::npos; };
  if (says("Application timeout caused pair closure")) throw PeerError(kNobody, kClosed);
  if (says("Timed out waiting")) {
    throw PeerError(peer,
                    Join("rank ", peer, " made no progress for ", Seconds(timeout),
                         " (GRADSYNC_CHECK_COLLECTIVES=1 shows whether ranks issue different collectives)"));
  }
  if (says("closed by peer") || says("reset by peer") || says("Broken pipe"))
    throw PeerClosed(peer, Join("rank ", peer, " closed the connection"));
  throw PeerError(peer, Join("connection to rank ", peer, ": ", WithoutPlace(what)));
}

// Calls `action`; gloo's exceptions end here.
template <class Action>
void Guarded(int peer, milliseconds timeout, const Action& action) {
  try {
    action();
  } catch (const gloo::Exception& error) {
    Explain(peer, timeout, error.what());
  }
}

// The address at which ranks on other hosts reach this one, for a tcp:// rendezvous: the one that this host
// sends from to the rendezvous. If that is loopback, as on rank 0's host, the one that it sends from to some
// other host.
std::string AddressTowardsOthers(const World& world, Rendezvous& rendezvous) {
  constexpr std::string_view kScheme = "tcp://";
  const HostPort place = ParseHostPort(world.rendezvous.substr(kScheme.size()), world.rendezvous);
  std::string own = OwnAddressTowards(place, rendezvous.deadline());
  const auto key = [](int rank) { return Join("gloo.address.", rank); };
  rendezvous.Set(key(world.rank), own);
  for (int rank = 0; IsLoopback(own, rendezvous.deadline()) && rank < world.size; ++rank) {
    const HostPort other{rendezvous.Get(key(rank), rank), place.port};
    if (!IsLoopback(other.host, rendezvous.deadline())) own = OwnAddressTowards(other, rendezvous.deadline());
  }
  return own;
}

bool IsLoopbackInterface(const std::string& name) {
  int type = 0;
  std::ifstream("/sys/class/net/" + name + "/type") >> type;
  return type == ARPHRD_LOOPBACK;
}

// What gloo is to listen on: loopback if all ranks are on one host, and never else.
gloo::transport::tcp::attr ChooseNetwork(const World& world, const std::string& interface_or_address,
                                         Rendezvous& rendezvous) {
  gloo::transport::tcp::attr network;
  const std::vector<std::string> hosts = rendezvous.hosts();
  const auto elsewhere =
      std::ranges::find_if(hosts, [&](const std::string& host) { return host != hosts[0]; });
  const bool is_one_host = elsewhere == hosts.end();
  bool is_loopback = false;
  if (!interface_or_address.empty() && if_nametoindex(interface_or_address.c_str()) != 0) {
    network.iface = interface_or_address;
    is_loopback = IsLoopbackInterface(interface_or_address);
  } else {
    Require(interface_or_address.empty() || IsOwnAddress(interface_or_address, rendezvous.deadline()),
            "interface or address is '", interface_or_address,
            "', expected a network interface or an address of this host");
    network.hostname = !interface_or_address.empty()            ? interface_or_address
                       : is_one_host                            ? "127.0.0.1"
                       : world.rendezvous.starts_with("tcp://") ? AddressTowardsOthers(world, rendezvous)
                                                                : OwnAddress(rendezvous.deadline());
    is_loopback = IsLoopback(network.hostname, rendezvous.deadline());
  }
  Require(is_one_host || !is_loopback, "gloo would use ", network.iface, network.hostname,
          ", which no other host reaches, but ranks ", world.NameOf(0), " and ",
          world.NameOf(static_cast<int>(elsewhere - hosts.begin())),
          " are on different hosts (name an interface or an address)");
  return network;
}

std::shared_ptr<gloo::transport::Device> CreateDevice(const World& world,
                                                      const std::string& interface_or_address,
                                                      Rendezvous& rendezvous) {
  const gloo::transport::tcp::attr network = ChooseNetwork(world, interface_or_address, rendezvous);
  try {
    return gloo::transport::tcp::CreateDevice(network);
  } catch (const std::exception& error) {
    throw InvalidInput(Join("gloo cannot use ", network.iface, network.hostname,
                            " (name an interface or an address): ", WithoutPlace(error.what())));
  }
}

}  // namespace

GlooMesh::GlooMesh(const World& world, const std::string& interface_or_address, milliseconds timeout,
                   FirstCause& first_cause)
    : rank_(world.rank), size_(world.size), members_(world.members), timeout_(timeout) {
  for (int i = 1; i < size_; ++i) others_.push_back((rank_ + i) % size_);
  Rendezvous rendezvous(world, timeout);
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
    // gloo does not say to which rank a connection failed.
    if (dynamic_cast<const PeerError*>(&error) != nullptr) first_cause.Write(error);
    first_cause.Write(PeerError(kSomebody, WithoutPlace(error.what())));  // unless it has been written
    throw CollectiveError(
        Join("rank ", NameOf(rank_), ": could not connect to the other ranks: ", first_cause.Read()));
  }
}

GlooMesh::~GlooMesh() = default;

std::string GlooMesh::interface() const {
  constexpr std::string_view kName = "iface=";  // as in "tcp, pci=, iface=lo, speed=-1, addr=[127.0.0.1]"
  const std::string device = device_->str();
  const size_t name = device.find(kName);
  if (name == device.npos) return "";
  const size_t begin = name + kName.size();
  return device.substr(begin, device.find(',', begin) - begin);
}

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
  // It does not end the waits for messages that are partly transferred.
  const std::lock_guard lock(mutex_);
  for (gloo::transport::UnboundBuffer* const buffer : buffers_) {
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }
}

GlooMesh::Buffer GlooMesh::NewBuffer(int from, int to, void* data, size_t bytes) {
  Buffer buffer(contexts_[from < to ? 0 : 1]->createUnboundBuffer(data, bytes).release(), Forget{this});
  const std::lock_guard lock(mutex_);
  buffers_.insert(buffer.get());
  return buffer;
}

void GlooMesh::Forget::operator()(gloo::transport::UnboundBuffer* buffer) const {
  {
    const std::lock_guard lock(mesh->mutex_);
    mesh->buffers_.erase(buffer);
  }
  delete buffer;
}

// gloo only reads what it sends.
Outgoing::Outgoing(GlooMesh& mesh, int peer, uint64_t slot, const void* data, size_t bytes)
    : mesh_(&mesh),
      peer_(peer),
      slot_(slot),
      buffer_(mesh.NewBuffer(mesh.rank(), peer, const_cast<void*>(data), bytes)) {}

void Outgoing::Send(size_t offset_bytes, size_t bytes) {
  Guarded(mesh_->NameOf(peer_), mesh_->timeout(), [&] { buffer_->send(peer_, slot_, offset_bytes, bytes); });
  ++num_pending_;
}

void Outgoing::Wait() {
  for (; num_pending_ > 0; --num_pending_) {
    Guarded(mesh_->NameOf(peer_), mesh_->timeout(),
            [&] { ThrowIfAborted(buffer_->waitSend(mesh_->timeout())); });
  }
}

Incoming::Incoming(GlooMesh& mesh, int peer, uint64_t slot, void* data, size_t bytes)
    : mesh_(&mesh), peer_(peer), slot_(slot), buffer_(mesh.NewBuffer(peer, mesh.rank(), data, bytes)) {}

void Incoming::Expect(size_t offset_bytes, size_t bytes) {
  Guarded(mesh_->NameOf(peer_), mesh_->timeout(), [&] { buffer_->recv(peer_, slot_, offset_bytes, bytes); });
}

void Incoming::Wait() {
  Guarded(mesh_->NameOf(peer_), mesh_->timeout(),
          [&] { ThrowIfAborted(buffer_->waitRecv(nullptr, mesh_->timeout())); });
}

}  // namespace gradsync::comm
