#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/chunks.h"
#include "comm/queue/request.h"

// Implements the algorithms of collectives with messages of a GlooMesh.
//
// Short vectors: every rank sends its whole vector to every other rank, and each rank reduces all vectors.
// This takes the delay of one message. If the caller waits immediately and there are few ranks, the vectors
// are sent by ShortMessages.
//
// Long vectors: the vector is cut into one part per rank. A rank receives its part from all other ranks,
// reduces the part, and sends the result to all other ranks. Parts are sent in segments: one segment is
// reduced while the next segment is received and the result of the previous segment is sent. A rank sends as
// many bytes as in a ring (Patarasuk and Yuan, 2009: 2 (size - 1) / size times the vector for an all-reduce),
// in two steps instead of 2 (size - 1) steps.
//
// A barrier and a broadcast take log2(size) steps, rounded up. In a barrier of few ranks each rank sends one
// short message to each other rank.
//
// A rank reduces the elements of all ranks in one pass, in rank order, and rounds once
// (comm/queue/reduction.h). So a result does not depend on lengths or segments, is bitwise equal on all
// ranks, and equals the result of a local group.
namespace gradsync::comm {

struct GlooTuning {
  // A vector is sent whole to every rank if its size, multiplied by the number of other ranks, is at most
  // this number of bytes.
  size_t direct_bytes = 256 << 10;
  // Longer vectors are sent in segments of at most this size. Measured on loopback: below 512 KiB the cost
  // per message matters, above 4 MiB nothing is gained.
  size_t segment_bytes = 2 << 20;
};

// Receive memory of one thread, kept between collectives.
class Scratch {
 public:
  // Returns at least this number of bytes, with undefined contents, valid until the next call.
  std::byte* Get(size_t bytes);

 private:
  struct alignas(kCacheLineBytes) Line {
    std::byte bytes[kCacheLineBytes];
  };
  std::vector<Line> lines_;
};

// Returns the slot of a collective's first stream of messages: the sequence number, a code for the
// collective, and the stream's number in the last three bits. Because of the code, ranks that issue different
// collectives do not accept each other's messages.
uint64_t BaseSlot(const Request& request);

// Runs the collective on the calling thread. Collectives of one mesh may run concurrently if their sequence
// numbers differ (modulo 2^32). Throws PeerError.
void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch);

// Runs the all-reduce of backend `gloo_own`, for comparison with backend `gloo`. The algorithm is gloo's
// ring, which PyTorch's gloo backend also uses, over the mesh's connections. Each rank adds a part to the
// part that it has received, and rounds at each of size - 1 steps. A connection that breaks within a message
// is noticed only at the deadline. Throws PeerError without a rank. All other collectives of `gloo_own` are
// RunCollective.
void RunOwnAllReduce(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm
