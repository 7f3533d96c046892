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

// Blocks SIGPIPE for this thread and for threads that it starts, because gloo writes to sockets that may be
// closed. Drops a SIGPIPE that arrives while it is blocked.
struct BlockSigpipe : BlockSignals {
  BlockSigpipe() : BlockSignals(SetOf({SIGPIPE})) {}
  ~BlockSigpipe() {
    const sigset_t sigpipe = SetOf({SIGPIPE});
    const timespec at_once{};
    sigtimedwait(&sigpipe, nullptr, &at_once);
  }
};

// TCP connections between every two ranks.
//
// Each pair of ranks has two connections, one for each direction: gloo handles a socket under one lock, and
// its receiving thread would spin on this lock while another thread sends. Messages carry a 64-bit slot. A
// message is sent after its receiver has asked for the message's slot, so a message that is not expected yet
// cannot block other messages.
//
// A message that nobody has asked for ends the process. It cannot overwrite memory, because all buffers are
// gloo's UnboundBuffers, which have no slot. (For buffers with a slot, gloo's bounds check can overflow.)
class GlooMesh {
 public:
  // Connects to all ranks, and returns when all have connected. If interface_or_address is empty, uses
  // loopback if all ranks are on one host, else the network of a tcp:// rendezvous, else OwnAddress. With the
  // first message of each connection this rank proves that it belongs to the job: it knows the job's secret,
  // and data that only the job's ranks can read at the rendezvous. Threads inherit a blocked SIGPIPE. Throws
  // CollectiveError, with the first cause; InvalidInput for an unknown interface or address, and for loopback
  // between hosts.
  GlooMesh(const World& world, const std::string& interface_or_address, std::chrono::milliseconds timeout,
           FirstCause& first_cause, bool with_short_messages = true);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  int rank() const { return rank_; }
  // Returns the rank's number in messages.
  int NameOf(int rank) const { return MemberName(members_, rank); }
  int size() const { return size_; }
  // Returns the other ranks, starting after this one, so that ranks do not all send to one rank first.
  const std::vector<int>& others() const { return others_; }
  // Returns the shortest timeout of all ranks, because ranks must agree on the lengths of messages.
  std::chrono::milliseconds timeout() const { return timeout_; }
  // Returns the network interface of the connections, such as "lo"; empty if gloo does not report it.
  std::string interface() const { return FromDevice("iface=", ","); }

  // Returns when all ranks have called this with an equal slot. Throws PeerError.
  void WaitForOthers(uint64_t slot);
  // Returns the short messages of this mesh; null if there are more than ShortMessages::kMaxRanks ranks, or
  // if with_short_messages was false in the constructor.
  ShortMessages* short_messages() const { return short_messages_.get(); }

  // Returns the connections for messages from `from` to `to`. gloo's own algorithms use context(0, 1) in both
  // directions.
  std::shared_ptr<gloo::Context> context(int from, int to) const;
  // Calls gloo, and converts exceptions of gloo to PeerErrors without a rank.
  void Call(const std::function<void()>& action) const;

  // Closes all connections. Every wait for a message throws PeerError, here and on the other ranks.
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

  // `notes` has the notes of all ranks. A note begins with `head_bytes` bytes of a nonce and a timeout.
  void Connect(const std::vector<std::string>& notes, size_t head_bytes);
  void Prove(const std::string& secret, const std::vector<std::string>& notes, const std::string& nonce);
  // Returns the text between `name` and `end` in gloo's "tcp, pci=, iface=lo, speed=-1, addr=[127.0.0.1]".
  std::string FromDevice(std::string_view name, std::string_view end) const;
  // Returns a buffer for messages between these ranks; this rank is one of them.
  Buffer NewBuffer(int from, int to, void* data, size_t bytes);

  const int rank_;
  const int size_;
  const std::vector<int> members_;  // see World
  std::chrono::milliseconds timeout_;
  std::vector<int> others_;
  std::shared_ptr<gloo::transport::Device> device_;
  // The contexts for messages to higher ranks, and for messages to lower ranks.
  std::vector<std::shared_ptr<Context>> contexts_;
  std::mutex mutex_;
  std::unordered_set<gloo::transport::UnboundBuffer*> buffers_;  // all existing buffers, for Abort
  std::unique_ptr<ShortMessages> short_messages_;
};

// Sends messages with one slot to one peer. Messages arrive in the order in which they were sent.
//
// If a connection breaks within a message, gloo reports this neither to a receiver that waits for its last
// message nor to a sender: both would wait until the deadline. So an algorithm that sends long messages
// - ends every stream with an empty message, so that the receiver always has one more message to wait for,
//   and
// - waits for its own messages to leave only after the peer's empty message has confirmed their arrival. If
//   another collective's messages are in front of this rank's empty messages and that collective fails, its
//   error calls Abort, which ends all waits of this rank.
class Outgoing {
 public:
  Outgoing(GlooMesh& mesh, int peer, uint64_t slot, const void* data, size_t bytes);
  // Starts to send a part of `data`, which must not change until Wait. All methods throw PeerError.
  void Send(size_t offset_bytes, size_t bytes);
  // Returns when the system has accepted all messages.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
  int num_pending_ = 0;
};

// Receives messages with one slot from one peer.
class Incoming {
 public:
  Incoming(GlooMesh& mesh, int peer, uint64_t slot, void* data, size_t bytes);
  // Receives the next message into this part of `data`. The message has exactly this length.
  void Expect(size_t offset_bytes, size_t bytes);
  // Waits for the oldest expected message that has not been waited for.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
};

}  // namespace gradsync::comm
