#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "comm/gloo/short_messages.h"
#include "comm/processes/stop_signals.h"
#include "comm/queue/request_queue.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// A BlockSigpipe object blocks the signal SIGPIPE in the thread that makes it, until the destructor runs.
// Threads that this thread starts while the object exists keep SIGPIPE blocked. gloo writes to sockets that
// may be closed, and SIGPIPE would end the process. The destructor drops a SIGPIPE that has arrived while the
// object existed.
struct BlockSigpipe : BlockSignals {
  BlockSigpipe() : BlockSignals(SetOf({SIGPIPE})) {}
  ~BlockSigpipe() {
    const sigset_t sigpipe = SetOf({SIGPIPE});
    const timespec at_once{};
    sigtimedwait(&sigpipe, nullptr, &at_once);
  }
};

// A rank's TCP connections to all other ranks of a process group, made by gloo.
//
// Each pair of ranks has two connections, one for each direction. gloo locks a socket while it sends, so with
// one connection per pair gloo's receiving thread would spin on the lock. Each message carries a 64-bit tag,
// which gloo calls slot. A message is sent only after its receiver has asked for a message with this slot. So
// a message that the receiver does not expect yet cannot block other messages.
//
// If a peer sends a message that this rank has not asked for, gloo ends this process. Such a message cannot
// overwrite memory: all buffers are of gloo's class UnboundBuffer, into which gloo writes only messages that
// the receiver has asked for.
class GlooMesh {
 public:
  // Connects to all other ranks, and returns when all ranks have connected. The connections use the network
  // of `interface_or_address`: a network interface or an address of this host; if it is empty, the
  // constructor chooses as GroupOptions::interface_or_address describes. On each connection on which it
  // sends, this rank first proves that it belongs to the job. The proof is an HMAC, keyed with the job's
  // secret, of this rank's number and a random number that the receiver published at the rendezvous. The
  // signal SIGPIPE is blocked in the threads that gloo starts. The constructor throws CollectiveError if
  // ranks cannot connect; this error names the rank that failed first if that rank is known. The constructor
  // throws InvalidInput if the interface or address is unknown or gloo cannot use it. It also throws
  // InvalidInput if gloo would use loopback although the ranks are on several hosts.
  GlooMesh(const World& world, const std::string& interface_or_address, std::chrono::milliseconds timeout,
           FirstCause& first_cause, bool with_short_messages = true);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  int rank() const { return rank_; }
  // Returns, for error messages, the number that rank `rank` of the mesh has in the whole job.
  int NameOf(int rank) const { return MemberName(members_, rank); }
  int size() const { return size_; }
  // Returns the numbers of the other ranks, from this rank's number + 1 on and then from 0, so that ranks do
  // not all send to one rank first.
  const std::vector<int>& others() const { return others_; }
  // Returns the shortest timeout that any rank of the mesh passed to its constructor. On every rank, this
  // shortest timeout limits each wait for a message.
  std::chrono::milliseconds timeout() const { return timeout_; }
  // Returns the network interface of the connections, such as "lo"; empty if gloo does not report it.
  std::string interface() const { return FromDevice("iface=", ","); }

  // Returns when all ranks of the mesh have called WaitForOthers, which is a barrier. All ranks must pass the
  // same `slot`, the tag of the barrier's messages. Throws PeerError if a connection is lost, or if a wait
  // for one of the barrier's messages takes longer than timeout().
  void WaitForOthers(uint64_t slot);
  // Returns the object that exchanges short messages over connections of its own; null if there are more than
  // ShortMessages::kMaxRanks ranks, or if `with_short_messages` was false in the constructor.
  ShortMessages* short_messages() const { return short_messages_.get(); }

  // Returns the gloo context (a set of one connection for each pair of ranks) on which rank `from` sends to
  // rank `to`. gloo's own all-reduce, which backend gloo_own calls, sends all messages of all ranks on
  // context(0, 1).
  std::shared_ptr<gloo::Context> context(int from, int to) const;
  // Runs `action`, which calls gloo, and turns gloo's exceptions into PeerErrors that name no rank.
  void Call(const std::function<void()>& action) const;

  // Closes all connections. From then on, a wait of this rank for a message that has not arrived throws
  // PeerError. A wait of another rank for a message that this rank has not sent also throws PeerError, at the
  // latest when the timeout of this wait has passed.
  void Abort() noexcept;

 private:
  friend class Outgoing;
  friend class Incoming;
  class Context;
  struct Forget {
    void operator()(gloo::transport::UnboundBuffer* buffer) const;
    GlooMesh* mesh;
  };
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer, Forget>;

  // Connect connects this rank to all other ranks, for the constructor. `notes[r]` is the text that rank r
  // published for this rank at the rendezvous: `head_bytes` bytes with a random nonce and rank r's timeout,
  // then the addresses at which rank r waits for this rank.
  void Connect(const std::vector<std::string>& notes, size_t head_bytes);
  void Prove(const std::string& secret, const std::vector<std::string>& notes, const std::string& nonce);
  // Returns the text between `name` and the next `end` in gloo's description of its network device; empty if
  // the description lacks `name`. If no `end` follows, returns all text after `name`. From "iface=lo,
  // speed=-1", FromDevice("iface=", ",") returns "lo".
  std::string FromDevice(std::string_view name, std::string_view end) const;
  // Returns a gloo buffer over the memory `data`, for messages from rank `from` to rank `to`; this rank is
  // one of the two.
  Buffer NewBuffer(int from, int to, void* data, size_t bytes);

  const int rank_;
  const int size_;
  const std::vector<int> members_;  // see World
  std::chrono::milliseconds timeout_;
  std::vector<int> others_;
  std::shared_ptr<gloo::transport::Device> device_;
  // Two gloo contexts, each with one connection to each other rank: this rank sends to ranks with higher
  // numbers by the first, and to ranks with lower numbers by the second.
  std::vector<std::shared_ptr<Context>> contexts_;
  std::mutex mutex_;
  std::unordered_set<gloo::transport::UnboundBuffer*> buffers_;  // all existing buffers, for Abort
  std::unique_ptr<ShortMessages> short_messages_;
};

// An Outgoing sends messages with the tag `slot` to rank `peer`. They arrive in the order of the Send calls.
//
// If a connection breaks within a message, gloo does not report this to the sender, nor to a receiver that
// expects no message after this one. Both would wait until the timeout has passed. So an algorithm that sends
// a vector in several segments follows two rules:
// - The algorithm ends every stream with an empty message, for which the receiver calls Incoming::Expect
//   before all data have arrived.
// - Before the algorithm calls Outgoing::Wait, which blocks until all messages are sent, it waits for a
//   confirmation. The confirmation is an empty message that the peer sends when the peer has received all
//   data. The confirmation may be queued behind messages of another collective. If the other collective
//   fails, its error handler calls Abort, which ends the wait for the confirmation.
class Outgoing {
 public:
  Outgoing(GlooMesh& mesh, int peer, uint64_t slot, const void* data, size_t bytes);
  // Starts to send `bytes` bytes of the constructor's `data`, from byte `offset_bytes` on. The caller must
  // not change these bytes until Wait returns. Send throws PeerError if this rank or the peer has closed the
  // connection.
  void Send(size_t offset_bytes, size_t bytes);
  // Blocks until the operating system has accepted all messages of earlier Send calls. Throws PeerError if
  // the connection closes before that, or if the wait for one message exceeds the mesh's timeout.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
  int num_pending_ = 0;
};

// An Incoming receives the messages that rank `peer` sends with the tag `slot`.
class Incoming {
 public:
  Incoming(GlooMesh& mesh, int peer, uint64_t slot, void* data, size_t bytes);
  // Starts to receive the next message, of `bytes` bytes, into the constructor's `data`, from byte
  // `offset_bytes` on.
  void Expect(size_t offset_bytes, size_t bytes);
  // The n-th call of Wait blocks until the message of the n-th call of Expect has arrived. Throws PeerError
  // if the connection closes or the mesh's timeout passes before this message arrives.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
};

}  // namespace gradsync::comm
