#ifndef GRADSYNC_COMM_GLOO_GLOO_COLLECTIVES_H_
#define GRADSYNC_COMM_GLOO_GLOO_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/chunks.h"
#include "comm/queue/request.h"

// The collectives' algorithms, over the messages of a GlooMesh.
//
// A short vector goes whole from every rank to every other, and each rank reduces all of them: one message's
// delay. If its caller waits at once and ranks are few, it is one of ShortMessages. A long one is cut into a
// part per rank; a rank gets its part from all others, reduces it and sends the result to all others. Parts
// go in segments, so that one segment is reduced while the next one arrives and the last one leaves. Every
// byte crosses the network as often as in a ring (Patarasuk and Yuan, 2009: 2 (size - 1) / size times for an
// all-reduce), but in two steps where a ring takes 2 (size - 1).
//
// A barrier and a broadcast take as many steps as the number of ranks has binary digits. Few ranks meet by
// one short message to each other rank.
//
// Either way all ranks' elements are reduced at once, in rank order and rounded once
// (comm/queue/reduction.h), so a result does not depend on lengths or segments, and is bitwise the same on
// all ranks and as in a local group.
namespace gradsync::comm {

struct GlooTuning {
  // Vectors up to this size (times the number of other ranks) are exchanged whole.
  size_t direct_bytes = 256 << 10;
  // Longer vectors travel in segments of at most this size. Measured on loopback: below 512 KiB the messages'
  // own cost shows, above 4 MiB nothing is gained.
  size_t segment_bytes = 2 << 20;
};

// Memory of one thread for what it receives, kept from one collective to the next.
class Scratch {
 public:
  // At least this many bytes, with any contents, until the next call.
  std::byte* Get(size_t bytes);

 private:
  struct alignas(kCacheLineBytes) Line {
    std::byte bytes[kCacheLineBytes];
  };
  std::vector<Line> lines_;
};

// The slot of a collective's first stream of messages: the sequence number, and what the collective is. The
// last three bits are the stream's number. Because the middle part differs between different collectives,
// ranks that disagree do not take each other's messages for their own.
uint64_t BaseSlot(const Request& request);

// Runs the collective on the calling thread. Collectives of one mesh may run at the same time if they have
// different sequence numbers (modulo 2^32). Throws PeerError.
void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch);

// What backend `gloo_own` has in place of backend `gloo`'s all-reduce, for comparison: the ring that comes
// with gloo, which PyTorch's gloo backend runs, over the same connections. (Other collectives of both are
// ours.) Each rank adds a part to what it has received, and rounds at each of size - 1 steps. A connection
// that breaks in the midst of a message is noticed at the deadline. Otherwise like RunCollective. Throws
// PeerError, which knows no rank.
void RunOwnAllReduce(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_COLLECTIVES_H_
