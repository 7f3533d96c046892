#ifndef GRADSYNC_COMM_GLOO_GLOO_MESH_H_
#define GRADSYNC_COMM_GLOO_GLOO_MESH_H_

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

// Blocks SIGPIPE for this thread and those it starts, because gloo writes to sockets that may be closed. One
// that came meanwhile is dropped.
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
// Each pair of ranks has two, one for each direction: gloo handles a socket under one lock, and its receiving
// thread would spin on that lock while another thread sends. Messages carry a 64-bit slot. A message is sent
// when its receiver has asked for that slot, so a message that is not wanted yet cannot block others.
//
// A message that is not wanted ends the process, but goes nowhere, because every buffer is an unbound one: of
// one that is registered with a slot, gloo's check of a message's place wraps around.
class GlooMesh {
 public:
  // Connects to all ranks, and returns when they have connected too. If interface_or_address is empty, uses
  // loopback if all ranks are on one host, else the network of a tcp:// rendezvous, else OwnAddress. The
  // first message of each connection proves to the peer that this rank knows the job's secret, and what only
  // ranks read at the rendezvous. Threads inherit a blocked SIGPIPE. Throws CollectiveError, with the first
  // cause; InvalidInput for an unknown interface or address, and for loopback between hosts.
  GlooMesh(const World& world, const std::string& interface_or_address, std::chrono::milliseconds timeout,
           FirstCause& first_cause, bool with_short_messages = true);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  int rank() const { return rank_; }
  // The rank's number in messages.
  int NameOf(int rank) const { return MemberName(members_, rank); }
  int size() const { return size_; }
  // The other ranks, starting after this one, so that not everybody sends to the same one first.
  const std::vector<int>& others() const { return others_; }
  // The shortest of those of all ranks, which have to agree on the lengths of messages.
  std::chrono::milliseconds timeout() const { return timeout_; }
  // The network interface that it communicates over, such as "lo"; empty if gloo does not say.
  std::string interface() const { return FromDevice("iface=", ","); }

  // Returns when all ranks have called this with the same slot. Throws PeerError.
  void WaitForOthers(uint64_t slot);
  // Null if there are more than ShortMessages::kMaxRanks ranks, or nobody wants them.
  ShortMessages* short_messages() const { return short_messages_.get(); }

  // The connections that carry what these ranks send each other. gloo's own algorithms use those of
  // context(0, 1) both ways.
  std::shared_ptr<gloo::Context> context(int from, int to) const;
  // A call into gloo, whose exceptions become PeerErrors that know no rank.
  void Call(const std::function<void()>& action) const;

  // Closes all connections: whoever waits for a message gets a PeerError, here and on the other ranks.
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

  // `notes`: of all ranks, which begin with `head_bytes` of a nonce and a timeout.
  void Connect(const std::vector<std::string>& notes, size_t head_bytes);
  void Prove(const std::string& secret, const std::vector<std::string>& notes, const std::string& nonce);
  // What follows `name`, up to `end`, in gloo's "tcp, pci=, iface=lo, speed=-1, addr=[127.0.0.1]".
  std::string FromDevice(std::string_view name, std::string_view end) const;
  // For messages between these ranks, of which this is one.
  Buffer NewBuffer(int from, int to, void* data, size_t bytes);

  const int rank_;
  const int size_;
  const std::vector<int> members_;  // see World
  std::chrono::milliseconds timeout_;
  std::vector<int> others_;
  std::shared_ptr<gloo::transport::Device> device_;
  // To higher ranks, to lower ranks.
  std::vector<std::shared_ptr<Context>> contexts_;
  std::mutex mutex_;
  std::unordered_set<gloo::transport::UnboundBuffer*> buffers_;  // all there are, for Abort
  std::unique_ptr<ShortMessages> short_messages_;
};

// Messages to one peer, all of one slot. They arrive in the order in which they were sent.
//
// gloo does not tell a receiver that the connection broke in the midst of the last message it waits for, nor
// a sender that it broke in the midst of one it writes: both would sit there until the deadline. So an
// algorithm that sends long messages
// - ends every stream with an empty one, so that there is always one more to wait for, and
// - waits for its own messages to have left only when the peer has said, by its empty one, that they arrived.
// Its own empty messages may still be behind those of another collective, which breaks: then that one
// notices, and Abort ends all waits of this rank.
class Outgoing {
 public:
  Outgoing(GlooMesh& mesh, int peer, uint64_t slot, const void* data, size_t bytes);
  // Starts to send a part of `data`, which must not change until Wait. Throws PeerError, like all of these.
  void Send(size_t offset_bytes, size_t bytes);
  // Returns when all messages have been handed to the system.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
  int num_pending_ = 0;
};

// Messages from one peer, all of one slot.
class Incoming {
 public:
  Incoming(GlooMesh& mesh, int peer, uint64_t slot, void* data, size_t bytes);
  // The next message goes to this part of `data`, and is exactly that long.
  void Expect(size_t offset_bytes, size_t bytes);
  // Waits for the first expected message that has not been waited for.
  void Wait();

 private:
  GlooMesh* mesh_;
  int peer_;
  uint64_t slot_;
  GlooMesh::Buffer buffer_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_MESH_H_
