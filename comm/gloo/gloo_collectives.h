#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/chunks.h"
#include "comm/queue/request.h"

// RunCollective runs the collectives of backend gloo over the TCP connections of a GlooMesh.
//
// In an all-reduce of short vectors (GlooTuning::direct_bytes), every rank sends its whole vector to every
// other rank, and reduces the vectors of all ranks itself. If the vectors have more than 4 KiB, each rank
// also sends every other rank a confirmation that it has received everything. An all-reduce exchanges short
// vectors of up to ShortMessages::kMaxBytes (4 KiB) without gloo, by the class ShortMessages, if two
// conditions hold. The mesh must have short_messages(), and the caller must wait for the result immediately
// after it issued the collective (Waits::kAtOnce).
//
// In an all-reduce of long vectors, each rank cuts its vector into one part for each rank. Rank r receives
// part r of every other rank's vector, reduces part r of all vectors, and sends the result to all other
// ranks. Parts and results are sent in segments, so that a rank can receive, reduce and send different
// segments at the same time. In this algorithm a rank sends as many bytes as in a ring all-reduce (Patarasuk
// and Yuan, 2009): 2 (size - 1) / size times the bytes of the vector, where `size` is the number of ranks.
// But data passes only two connections, to the reducing rank and from it; in a ring all-reduce, data passes 2
// (size - 1) connections.
//
// In a broadcast to `size` ranks, each segment of the root's vector passes at most log2(size) connections,
// rounded up, on its way to a rank. In a barrier, a rank sends log2(size) messages, rounded up, one after the
// other, and receives as many. But if the mesh has short_messages(), and the caller waits immediately
// (Waits::kAtOnce), each rank directly sends every other rank one short message.
//
// RunCollective reduces all ranks' values of an element in one pass, in rank order (comm/queue/reduction.h).
// So in RunCollective, the result of an element depends only on the ranks' values of this element, and is
// bitwise equal on all ranks that get the element.
namespace gradsync::comm {

struct GlooTuning {
  // In an all-reduce, a rank sends its whole vector to every other rank if all that it sends (the vector's
  // bytes times the number of other ranks) is at most this number of bytes.
  size_t direct_bytes = 256 << 10;
  // The largest number of bytes that RunCollective sends in one message (a segment). An all-reduce in which
  // each rank sends its whole vector to every other rank does not have this limit. In measurements on
  // loopback, segments below 512 KiB made collectives slower, and segments above 4 MiB did not make them
  // faster.
  size_t segment_bytes = 2 << 20;
};

// A Scratch object owns memory into which RunCollective receives messages. Later calls of RunCollective use
// the same memory again if it is large enough. Concurrent calls of RunCollective must have different Scratch
// objects.
class Scratch {
 public:
  // Returns a pointer to at least `bytes` bytes with undefined contents; may return null if `bytes` is 0. The
  // memory stays valid until the next call of Get.
  std::byte* Get(size_t bytes);

 private:
  struct alignas(kCacheLineBytes) Line {
    std::byte bytes[kCacheLineBytes];
  };
  std::vector<Line> lines_;
};

// Returns the first of the eight slots (message tags) that a collective may use. A slot has the collective's
// sequence number, a hash of the properties that must be equal on all ranks, such as kind and bytes
// (Signature), and, in its three low bits, the number of one of the collective's streams of messages. If
// ranks issue different collectives with the same sequence number, their hashes, and so their slots, almost
// always differ. If the slots differ, gloo delivers no message of one collective to the other. A collective
// that waits for such a message fails, at the latest when the timeout has passed.
uint64_t BaseSlot(const Request& request);

// Runs the collective of `request` on the calling thread. Several threads may run collectives with different
// sequence numbers (modulo 2^32) over one `mesh` (connections between ranks) concurrently. But collectives
// that use mesh.short_messages() must run one at a time. RunCollective throws PeerError if communication with
// another rank fails. If the collective uses mesh.short_messages(), RunCollective throws std::runtime_error
// if it receives another rank's short message for a different collective.
void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch);

// Runs the all-reduce of backend `gloo_own`: gloo's own ring algorithm, which PyTorch's gloo backend also
// uses, over the connections of `mesh`. RunOwnAllReduce exists so that benchmarks can compare gloo's
// all-reduce with that of RunCollective. gloo's algorithm rounds an element's sum each time that it has added
// the value of one more rank. If a connection breaks within a message, this rank may notice the break only
// when the timeout has passed. If communication fails, throws PeerError, which names no rank. Backend
// `gloo_own` runs its collectives other than all-reduce with RunCollective.
void RunOwnAllReduce(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm
