#include "comm/gloo/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <stop_token>

#include "absl/strings/str_cat.h"
#include "comm/process_group.h"
#include "comm/processes/random.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

// A slot that no collective uses.
constexpr uint64_t kProofSlot = ~uint64_t{0};
constexpr uint64_t kConnectedSlot = kProofSlot - 1;

// Removes the position in gloo's source from the start of a message.
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
  if (says("Timed out waiting") || says("Read timeout") || says("Write timeout")) {
    throw PeerError(
        peer, Join(rank, " made no progress for ", Seconds(timeout), ", or issues different collectives"));
  }
  // This rank has too few descriptors.
  if (says(ErrorText(EMFILE).c_str())) throw PeerError(kNobody, WithoutPlace(what));
  // "no error": gloo of 2023 reports this for every connection that could not be made.
  if (says("closed by peer") || says("reset by peer") || says("Broken pipe") || says("Connection refused") ||
      says("no error"))
    throw PeerClosed(peer, Join(rank, " closed the connection"));
  throw PeerError(peer, Join("connection to ", rank, ": ", WithoutPlace(what)));
}

// Calls `action` and converts gloo's exceptions.
template <class Action>
void Guarded(int peer, milliseconds timeout, const Action& action) {
  try {
    action();
  } catch (const gloo::Exception& error) {
    Explain(peer, timeout, error.what());
  }
}

// The address at which ranks on other hosts reach this one, for a tcp:// rendezvous: the address from which
// this host sends to the rendezvous. If this is loopback, as on rank 0's host, the address from which it
// sends to another host. All ranks exchange addresses, also ranks that use another address.
std::string AddressTowardsOthers(const World& world, Rendezvous& rendezvous) {
  constexpr std::string_view kScheme = "tcp://";
  const HostPort place = ParseHostPort(world.rendezvous.substr(kScheme.size()), world.rendezvous);
  std::string own = OwnAddressTowards(place, rendezvous.deadline());
  for (const std::string& other : rendezvous.Exchange({own})) {
    if (!IsLoopback(own, rendezvous.deadline())) break;
    if (!IsLoopback(other, rendezvous.deadline()))
      own = OwnAddressTowards({other, place.port}, rendezvous.deadline());
  }
  return own;
}

bool IsLoopbackInterface(const std::string& name) {
  int type = 0;
  std::ifstream("/sys/class/net/" + name + "/type") >> type;
  return type == ARPHRD_LOOPBACK;
}

// The network on which gloo listens: loopback if and only if all ranks are on one host.
gloo::transport::tcp::attr ChooseNetwork(const World& world, const std::string& interface_or_address,
                                         Rendezvous& rendezvous) {
  gloo::transport::tcp::attr network;
  const std::vector<std::string> hosts = rendezvous.hosts();
  const auto elsewhere =
      std::ranges::find_if(hosts, [&](const std::string& host) { return host != hosts[0]; });
  const bool is_one_host = elsewhere == hosts.end();
  const bool asks_others = !is_one_host && world.rendezvous.starts_with("tcp://");
  const std::string towards_others = asks_others ? AddressTowardsOthers(world, rendezvous) : "";
  bool is_loopback = false;
  if (!interface_or_address.empty() && if_nametoindex(interface_or_address.c_str()) != 0) {
    network.iface = interface_or_address;
    is_loopback = IsLoopbackInterface(interface_or_address);
  } else {
    Require(interface_or_address.empty() || IsOwnAddress(interface_or_address, rendezvous.deadline()),
            "interface or address is '", interface_or_address,
            "', expected a network interface or an address of this host");
    network.hostname = !interface_or_address.empty() ? interface_or_address
                       : is_one_host                 ? LoopbackAddress(rendezvous.deadline())
                       : asks_others                 ? towards_others
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

  // The address where this rank waits for the peer, of equal length for every pair; empty for itself.
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
                   FirstCause& first_cause, bool with_short_messages)
    : rank_(world.rank), size_(world.size), members_(world.members), timeout_(timeout) {
  for (int i = 1; i < size_; ++i) others_.push_back((rank_ + i) % size_);
  Rendezvous rendezvous(world, timeout);
  const BlockSigpipe block_sigpipe;
  try {
    device_ = CreateDevice(world, interface_or_address, rendezvous);
    for (int i = 0; i < 2; ++i)
      Call([&] { contexts_.push_back(std::make_shared<Context>(rank_, size_, device_, timeout)); });
    // The note has a nonce for the proofs of other ranks, this rank's timeout, and its addresses.
    constexpr size_t kTimeoutDigits = 16;
    const std::string nonce = RandomHex();
    const std::string head = nonce + absl::StrCat(absl::Dec(timeout.count(), absl::kZeroPad16));
    std::vector<std::string> own;
    for (int peer = 0; peer < size_; ++peer) {
      std::string& note = own.emplace_back(head);
      for (const auto& context : contexts_) note += context->AddressFor(peer);
    }
    const std::vector<std::string> notes = rendezvous.Exchange(own);
    for (const std::string& theirs : notes)
      timeout_ = std::min(timeout_, milliseconds(std::stoll(theirs.substr(nonce.size(), kTimeoutDigits))));
    Connect(notes, head.size());
    Prove(world.job_secret, notes, nonce);
    if (with_short_messages && size_ <= ShortMessages::kMaxRanks)
      short_messages_ =
          std::make_unique<ShortMessages>(world, FromDevice("addr=[", "]"), timeout_, rendezvous);
    WaitForOthers(kConnectedSlot);
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

void GlooMesh::Connect(const std::vector<std::string>& notes, size_t head_bytes) {
  // gloo waits for a connection five times as long as for a message.
  std::atomic<bool> is_late = false;
  const std::jthread watch([&](const std::stop_token& is_done) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, is_done, timeout_, [] { return false; });
    if (is_done.stop_requested()) return;
    is_late = true;
    for (const auto& context : contexts_) context->closeConnections();
  });
  for (size_t i = 0; i < contexts_.size(); ++i) {
    // The order is not the order of others_: each call waits for the peer, so all ranks need one order.
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const std::string& note = notes[static_cast<size_t>(peer)];
      const size_t address_bytes = (note.size() - head_bytes) / contexts_.size();
      try {
        Guarded(NameOf(peer), timeout_, [&] {
          contexts_[i]->Connect(peer, note.substr(head_bytes + i * address_bytes, address_bytes));
        });
      } catch (const std::exception&) {
        if (!is_late) throw;
      }
      if (is_late) {
        throw PeerError(NameOf(peer),
                        Join("rank ", NameOf(peer), " made no progress for ", Seconds(timeout_)));
      }
    }
  }
}

// Each rank proves itself on the connections that it sends on. When all ranks have reached the barrier, all
// proofs are checked. A stranger that replaced a rank has received only the proof.
void GlooMesh::Prove(const std::string& secret, const std::vector<std::string>& notes,
                     const std::string& nonce) {
  const auto proof = [&](const std::string& nonce_of_receiver, int from) {
    return ComputeMac(secret, absl::StrCat("gloo ", nonce_of_receiver, " ", from));
  };
  std::vector<std::string> sent;
  std::vector<std::string> received(others_.size(), proof("", rank_));
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const int peer : others_)
    sent.push_back(proof(notes[static_cast<size_t>(peer)].substr(0, nonce.size()), rank_));
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
}

GlooMesh::~GlooMesh() = default;

std::string GlooMesh::FromDevice(std::string_view name, std::string_view end) const {
  const std::string device = device_->str();
  const size_t begin = device.find(name);
  if (begin == device.npos) return "";
  const std::string rest = device.substr(begin + name.size());
  return rest.substr(0, rest.find(end));
}

// A dissemination barrier (Hensgen, Finkel and Manber, 1988): each round doubles the number of ranks that a
// rank knows to have arrived.
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

std::shared_ptr<gloo::Context> GlooMesh::context(int from, int to) const {
  return contexts_[from < to ? 0 : 1];
}

void GlooMesh::Call(const std::function<void()>& action) const { Guarded(kSomebody, timeout_, action); }

void GlooMesh::Abort() noexcept {
  if (short_messages_ != nullptr) short_messages_->Abort();
  for (const auto& context : contexts_) {
    try {
      // When a wait times out, gloo closes all connections of the context and ends all waits on them. There
      // is no other way to make gloo do this.
      context->createUnboundBuffer(nullptr, 0)->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
      // This exception is the timeout itself.
    }
  }
  // This does not end waits for messages that are partly transferred.
  const std::lock_guard lock(mutex_);
  for (gloo::transport::UnboundBuffer* const buffer : buffers_) {
    buffer->abortWaitSend();
    buffer->abortWaitRecv();
  }
}

GlooMesh::Buffer GlooMesh::NewBuffer(int from, int to, void* data, size_t bytes) {
  Buffer buffer(context(from, to)->createUnboundBuffer(data, bytes).release(), Forget{this});
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

// gloo only reads the data that it sends.
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
