#include "comm/gloo/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "comm/process_group.h"
#include "comm/processes/random.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

// No collective's.
constexpr uint64_t kProofSlot = ~uint64_t{0};
constexpr uint64_t kConnectedSlot = kProofSlot - 1;

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
  const std::string rank = peer == kSomebody ? kAnotherRank : Join("rank ", peer);
  const auto says = [&](const char* words) { return what.find(words) != std::string::npos; };
  if (says("Application timeout caused pair closure")) throw PeerError(kNobody, kClosed);
  if (says("Timed out waiting")) {
    throw PeerError(
        peer, Join(rank, " made no progress for ", Seconds(timeout), ", or issues different collectives"));
  }
  if (says("Connect timeout")) throw PeerError(peer, Join(rank, " made no progress for ", Seconds(timeout)));
  // This rank's own lack.
  if (says(ErrorText(EMFILE).c_str())) throw PeerError(kNobody, WithoutPlace(what));
  if (says("closed by peer") || says("reset by peer") || says("Broken pipe") || says("Connection refused"))
    throw PeerClosed(peer, Join(rank, " closed the connection"));
  throw PeerError(peer, Join("connection to ", rank, ": ", WithoutPlace(what)));
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
  for (const std::string& other : rendezvous.Exchange({own})) {
    if (!IsLoopback(own, rendezvous.deadline())) break;
    if (!IsLoopback(other, rendezvous.deadline())) {
      own = OwnAddressTowards({other, place.port}, rendezvous.deadline());
    }
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
          world.NameOf(is_one_host ? 0 : static_cast<int>(elsewhere - hosts.begin())),
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

// One connection between every two ranks.
class GlooMesh::Context : public gloo::Context {
 public:
  Context(int own_rank, int world_size, const std::shared_ptr<gloo::transport::Device>& device,
          milliseconds timeout)
      : gloo::Context(own_rank, world_size) {
    setTimeout(timeout);
    device_ = device;
    transportContext_ = device->createContext(rank, size);
    transportContext_->setTimeout(timeout);
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) transportContext_->createPair(peer);
    }
  }

  // Where this rank waits for the peer, in as many bytes for every pair; none for itself.
  std::string AddressFor(int peer) {
    if (peer == rank) return "";
    const std::vector<char> bytes = getPair(peer)->address().bytes();
    return {bytes.begin(), bytes.end()};
  }
  void Connect(int peer, const std::string& address) {
    getPair(peer)->connect({address.begin(), address.end()});
  }
};

GlooMesh::GlooMesh(const World& world, const std::string& interface_or_address, milliseconds timeout,
                   FirstCause& first_cause)
    : rank_(world.rank), size_(world.size), members_(world.members), timeout_(timeout) {
  for (int i = 1; i < size_; ++i) others_.push_back((rank_ + i) % size_);
  Rendezvous rendezvous(world, timeout);
  const BlockSigpipe block_sigpipe;
  try {
    device_ = CreateDevice(world, interface_or_address, rendezvous);
    // gloo waits five times this long for a connection.
    const milliseconds patience = std::max(timeout / 5, milliseconds(1));
    for (int i = 0; i < 2; ++i) {
      Call([&] { contexts_.push_back(std::make_shared<Context>(rank_, size_, device_, patience)); });
    }
    // A nonce for the others' proofs, and where this rank waits for them.
    const std::string nonce = RandomHex();
    std::vector<std::string> own;
    for (int peer = 0; peer < size_; ++peer) {
      own.push_back(nonce + contexts_[0]->AddressFor(peer) + contexts_[1]->AddressFor(peer));
    }
    const std::vector<std::string> notes = rendezvous.Exchange(own);
    const size_t address_bytes = (own[static_cast<size_t>(others_[0])].size() - nonce.size()) / 2;
    for (size_t i = 0; i < contexts_.size(); ++i) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const std::string& note = notes[static_cast<size_t>(peer)];
        Guarded(NameOf(peer), timeout, [&] {
          contexts_[i]->Connect(peer, note.substr(nonce.size() + i * address_bytes, address_bytes));
        });
      }
    }
    Prove(world.job_secret, notes, nonce);
  } catch (const CollectiveError&) {
    throw;
  } catch (const InvalidInput&) {
    throw;
  } catch (const std::exception& error) {
    first_cause.Write(error);
    throw CollectiveError(
        Join("rank ", NameOf(rank_), ": could not connect to the other ranks: ", first_cause.Read()));
  }
}

// Each connection is proven in the direction that carries messages. When all ranks have come to the barrier,
// all have been convinced: what a stranger in the place of one received was the proof alone.
void GlooMesh::Prove(const std::string& secret, const std::vector<std::string>& notes,
                     const std::string& nonce) {
  const auto proof = [&](const std::string& nonce_of_receiver, int from) {
    return Mac(secret, absl::StrCat("gloo ", nonce_of_receiver, " ", from));
  };
  std::vector<std::string> sent;
  std::vector<std::string> received(others_.size(), proof("", rank_));
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const int peer : others_) {
    sent.push_back(proof(notes[static_cast<size_t>(peer)].substr(0, nonce.size()), rank_));
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    const size_t bytes = sent[i].size();
    incoming.emplace_back(*this, others_[i], kProofSlot, received[i].data(), bytes).Expect(0, bytes);
    outgoing.emplace_back(*this, others_[i], kProofSlot, sent[i].data(), bytes).Send(0, bytes);
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    incoming[i].Wait();
    if (IsSameMac(received[i], proof(nonce, others_[i]))) continue;
    throw PeerError(kNobody, Join("whoever connected as rank ", NameOf(others_[i]), " is not of this job"));
  }
  for (Outgoing& stream : outgoing) stream.Wait();
  WaitForOthers(kConnectedSlot);
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

// By dissemination (Hensgen, Finkel and Manber, 1988): in each round a rank hears of twice as many others.
void GlooMesh::WaitForOthers(uint64_t slot) {
  for (int distance = 1; distance < size_; distance *= 2) {
    Incoming incoming(*this, (rank_ - distance + size_) % size_, slot, nullptr, 0);
    Outgoing outgoing(*this, (rank_ + distance) % size_, slot, nullptr, 0);
    incoming.Expect(0, 0);
    outgoing.Send(0, 0);
    incoming.Wait();
    outgoing.Wait();
  }
}

std::shared_ptr<gloo::Context> GlooMesh::context() const { return contexts_[0]; }

void GlooMesh::Call(const std::function<void()>& action) const { Guarded(kSomebody, timeout_, action); }

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
