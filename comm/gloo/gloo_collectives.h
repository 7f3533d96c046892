#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/chunks.h"
#include "comm/queue/request.h"

// RunCollective runs the collectives of backend gloo over the TCP connections of a GlooMesh.
//
// In an all-reduce of short vectors, every rank sends its whole vector to every other rank, and reduces the
// vectors of all ranks itself. This all-reduce takes the delay of one message for vectors of up to 4 KiB. It
// takes the delay of two messages for longer vectors, because each rank then also sends a confirmation that
// it has received everything. An all-reduce exchanges vectors of up to ShortMessages::kMaxBytes (4 KiB)
// without gloo, by the class ShortMessages, if two conditions hold. The mesh must have short_messages(), and
// the caller must wait for the result immediately after it issued the collective (Waits::kAtOnce).
//
// In an all-reduce of a long vector, the vector is cut into one part for each rank. A rank receives its part
// of the vectors of all other ranks, reduces it, and sends the result to all other ranks. A part is sent in
// segments: while one segment is reduced, the next segment is received and the result of the previous segment
// is sent. In this algorithm a rank sends as many bytes as in a ring all-reduce (Patarasuk and Yuan, 2009): 2
// (size - 1) / size times the bytes of the vector, where `size` is the number of ranks. But the algorithm
// takes two steps, one after the other; a ring takes 2 (size - 1) steps.
//
// In a broadcast to `size` ranks, each segment of the root's vector passes at most log2(size) connections,
// rounded up, on its way to a rank. In a barrier, a rank sends and receives at most log2(size) messages,
// rounded up, one after the other. But if the mesh has short_messages(), and the caller of the barrier waits
// immediately, each rank sends a short message to all other ranks at once.
//
// Except in RunOwnAllReduce, the rank that computes an element of a result reduces all ranks' values of it in
// one pass, in rank order (comm/queue/reduction.h). So the result is bitwise equal on all ranks, for any
// length and any segments.
namespace gradsync::comm {

struct GlooTuning {
  // In an all-reduce, a rank sends its whole vector to every other rank if all that it sends (the vector's
  // bytes times the number of other ranks) is at most this number of bytes.
  size_t direct_bytes = 256 << 10;
  // RunCollective sends vectors in segments of at most this number of bytes, except in an all-reduce in which
  // a rank sends at most `direct_bytes`. In measurements on loopback, collectives with segments below 512 KiB
  // were slower, because each message costs time, and those with segments above 4 MiB were not faster.
  size_t segment_bytes = 2 << 20;
};

// Memory into which one thread receives messages, kept from one collective to the next.
class Scratch {
 public:
  // Returns a pointer to at least `bytes` bytes with undefined contents. The memory stays valid until the
  // next call of Get.
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
// ranks issue different collectives with the same sequence number, the hashes almost always differ. A rank
// then asks for no message of the wrong collective, so gloo does not send it, and the collectives fail at the
// timeout.
uint64_t BaseSlot(const Request& request);

// Runs the collective of `request` on the calling thread. Several threads may run collectives of one mesh
// concurrently if the sequence numbers differ (modulo 2^32). But collectives that use mesh.short_messages()
// must run one at a time. RunCollective throws PeerError if communication with another rank fails. If the
// collective uses mesh.short_messages(), RunCollective throws std::runtime_error if another rank has issued a
// different collective.
void RunCollective(GlooMesh& mesh, const Request& request, const GlooTuning& tuning, Scratch& scratch);

// Runs the all-reduce of backend `gloo_own`: gloo's own ring algorithm, which PyTorch's gloo backend also
// uses, over the connections of `mesh`. RunOwnAllReduce exists so that benchmarks can compare gloo's
// all-reduce with that of RunCollective. gloo's algorithm rounds an element's sum each time that it has added
// the value of one more rank. If a connection breaks within a message, this rank may notice the break only
// when the timeout has passed. If communication fails, throws PeerError, which names no rank. Backend
// `gloo_own` runs its collectives other than all-reduce with RunCollective.
void RunOwnAllReduce(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm
