#include "comm/shm/shm_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

constexpr size_t kCacheLineBytes = 64;
// A vector is short if those of all other ranks together are not longer.
// What need not be copied to be read is worth less of it.
constexpr size_t kShortBytes = size_t{64} << 10;
constexpr size_t kShortSharedBytes = size_t{8} << 10;
// All ranks' windows should stay in their caches.
constexpr size_t kChunkBytes = size_t{256} << 10;
// One is filled, one reduced, and from one results are read.
constexpr size_t kNumWindows = 3;

std::byte* Bytes(const model::Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

void CopyBytes(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, bytes);
}

// Which bytes of a vector are whose, in slices of whole cache lines.
struct Slices {
  Slices(size_t total, int ranks)
      : total_bytes(total),
        slice_bytes((total / static_cast<size_t>(ranks) / kCacheLineBytes + 1) * kCacheLineBytes) {}
  size_t begin(int rank) const { return std::min(total_bytes, static_cast<size_t>(rank) * slice_bytes); }
  size_t bytes(int rank) const { return begin(rank + 1) - begin(rank); }

  const size_t total_bytes;
  const size_t slice_bytes;
};

std::vector<std::byte*> Offset(std::vector<std::byte*> pointers, size_t bytes) {
  for (std::byte*& pointer : pointers) pointer += bytes;
  return pointers;
}

}  // namespace

void SharedBuffers::Add(const SharedMemory* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  buffers_.emplace(memory->part(rank_), Buffer{++num_buffers_, bytes, memory});
}

void SharedBuffers::Remove(const SharedMemory* memory) {
  const std::lock_guard lock(mutex_);
  buffers_.erase(memory->part(rank_));
}

SharedBuffers::Place SharedBuffers::Find(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto* const address = static_cast<const std::byte*>(data);
  auto buffer = buffers_.upper_bound(address);
  if (buffer == buffers_.begin()) return {};
  --buffer;
  const auto offset = static_cast<size_t>(address - buffer->first);
  if (offset >= buffer->second.bytes) return {};
  return {buffer->second.number, static_cast<int64_t>(offset)};
}

std::byte* SharedBuffers::At(int rank, const Place& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      buffers_, [&](const auto& buffer) { return buffer.second.number == place.buffer; });
  return found->second.memory->part(rank) + place.offset_bytes;
}

struct ShmCollectives::Notice {
  Signature::Numbers signature;
  SharedBuffers::Place place;  // of the input
  bool has_data;               // the input itself is here too
  alignas(kCacheLineBytes) std::array<std::byte, kShortBytes> data;
};

// A part of a vector that is on its way through the windows.
struct ShmCollectives::Chunk {
  size_t number;
  size_t begin;
  size_t bytes;
};

size_t ShmCollectives::AreaBytes() { return 2 * sizeof(Notice) + kNumWindows * kChunkBytes; }

ShmCollectives::ShmCollectives(ShmMesh& mesh, const SharedBuffers& buffers)
    : mesh_(mesh), buffers_(buffers) {}

bool ShmCollectives::IsShort(const Request& request, const SharedBuffers::Place& place) const {
  return static_cast<size_t>(request.bytes()) * static_cast<size_t>(mesh_.size() - 1) <=
         (place.buffer == 0 ? kShortBytes : kShortSharedBytes);
}

ShmCollectives::Notice& ShmCollectives::notice(int rank, const Request& request) const {
  return reinterpret_cast<Notice*>(mesh_.area(rank))[request.sequence % 2];
}

std::byte* ShmCollectives::window(int rank, const Chunk& chunk) const {
  return mesh_.area(rank) + 2 * sizeof(Notice) + chunk.number % kNumWindows * kChunkBytes;
}

void ShmCollectives::Give(const Request& request) {
  Notice& own = notice(mesh_.rank(), request);
  own.signature = Signature(request).ToNumbers();
  if (request.bytes() > 0) {
    own.place = buffers_.Find(request.input.raw_data());
    own.has_data = IsShort(request, own.place);
    if (own.has_data) CopyBytes(own.data.data(), Bytes(request.input), request.input.nbytes());
  }
  given_ = request.sequence;
  mesh_.Step();
}

bool ShmCollectives::Begin(const Request& request) {
  Give(request);
  return request.bytes() == 0 || notice(mesh_.rank(), request).has_data;
}

void ShmCollectives::CheckSame(const Request& request) const {
  const Signature::Numbers& first = notice(0, request).signature;
  for (int rank = 1; rank < mesh_.size(); ++rank) {
    const Signature::Numbers& other = notice(rank, request).signature;
    if (other != first)
      throw std::runtime_error(
          Mismatch(mesh_.NameOf(rank), Signature(other), mesh_.NameOf(0), Signature(first)));
  }
}

std::optional<ShmCollectives::Vectors> ShmCollectives::GivenInputs(const Request& request) const {
  Vectors inputs;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    Notice& theirs = notice(rank, request);
    if (!theirs.has_data) return std::nullopt;
    inputs.push_back(theirs.data.data());
  }
  return inputs;
}

std::optional<ShmCollectives::Vectors> ShmCollectives::SharedInputs(const Request& request) const {
  Vectors inputs;
  const int64_t buffer = notice(0, request).place.buffer;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    const SharedBuffers::Place& place = notice(rank, request).place;
    if (place.buffer == 0 || place.buffer != buffer) return std::nullopt;
    inputs.push_back(buffers_.At(rank, place));
  }
  return inputs;
}

void ShmCollectives::Run(const Request& request) {
  if (given_ != request.sequence) Give(request);
  mesh_.WaitForAll();
  CheckSame(request);
  if (request.bytes() == 0) return;
  if (const auto inputs = GivenInputs(request)) return FromInputs(request, *inputs);
  if (const auto inputs = SharedInputs(request)) {
    request.collective == Collective::kAllReduce ? AllReduceInPlace(request, *inputs)
                                                 : FromInputs(request, *inputs);
    return mesh_.Meet();
  }
  switch (request.collective) {
    case Collective::kAllReduce:
      return AllReduceInChunks(request);
    case Collective::kReduceScatter:
      return ReduceScatterInChunks(request);
    default:
      return CopyInChunks(request);
  }
}

void ShmCollectives::FromInputs(const Request& request, const Vectors& inputs) const {
  std::byte* const output = Bytes(request.output);
  const size_t output_bytes = request.output.nbytes();
  const size_t input_bytes = request.input.nbytes();
  switch (request.collective) {
    case Collective::kAllReduce:
      return Reduce(request.dtype(), request.op, inputs, {&output, 1}, request.output.numel());
    case Collective::kReduceScatter:
      return Reduce(request.dtype(), request.op,
                    Offset(inputs, static_cast<size_t>(mesh_.rank()) * output_bytes), {&output, 1},
                    request.output.numel());
    case Collective::kAllGather:
      for (int rank = 0; rank < mesh_.size(); ++rank) {
        const auto r = static_cast<size_t>(rank);
        CopyBytes(output + r * input_bytes, inputs[r], input_bytes);
      }
      return;
    case Collective::kBroadcast:
      return CopyBytes(output, inputs[static_cast<size_t>(request.root)], output_bytes);
    case Collective::kBarrier:
      return;
  }
}

void ShmCollectives::AllReduceInPlace(const Request& request, const Vectors& tensors) const {
  const Slices slices(request.output.nbytes(), mesh_.size());
  const Vectors own = Offset(tensors, slices.begin(mesh_.rank()));
  const size_t numel = slices.bytes(mesh_.rank()) / SizeOf(request.dtype());
  Reduce(request.dtype(), request.op, own, own, static_cast<int64_t>(numel));
}

// Chunk after chunk: every rank puts it into its window, reduces its share of everyone's, and takes the
// results. Ranks meet once for each chunk: while one is reduced, the next is put in.
template <class In, class Reduce, class Out>
void ShmCollectives::InChunks(size_t bytes, size_t chunk_bytes, const In& in, const Reduce& reduce,
                              const Out& out) {
  const size_t num_chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const auto chunk = [&](size_t i) {
    return Chunk{i, i * chunk_bytes, std::min(chunk_bytes, bytes - i * chunk_bytes)};
  };
  for (size_t i = 0; i <= num_chunks; ++i) {
    if (i < num_chunks) in(chunk(i));
    if (i > 0) reduce(chunk(i - 1));
    mesh_.Meet();
    if (i > 0) out(chunk(i - 1));
  }
}

void ShmCollectives::AllReduceInChunks(const Request& request) {
  const int own = mesh_.rank();
  InChunks(
      request.output.nbytes(), kChunkBytes,
      [&](const Chunk& chunk) {
        CopyBytes(window(own, chunk), Bytes(request.input) + chunk.begin, chunk.bytes);
      },
      [&](const Chunk& chunk) {
        const Slices slices(chunk.bytes, mesh_.size());
        Vectors parts;
        for (int rank = 0; rank < mesh_.size(); ++rank)
          parts.push_back(window(rank, chunk) + slices.begin(own));
        const size_t numel = slices.bytes(own) / SizeOf(request.dtype());
        // Into one's own window: there nobody else reads this slice before all have met.
        Reduce(request.dtype(), request.op, parts, {&parts[static_cast<size_t>(own)], 1},
               static_cast<int64_t>(numel));
      },
      [&](const Chunk& chunk) {
        const Slices slices(chunk.bytes, mesh_.size());
        for (int rank = 0; rank < mesh_.size(); ++rank) {
          const size_t begin = slices.begin(rank);
          CopyBytes(Bytes(request.output) + chunk.begin + begin, window(rank, chunk) + begin,
                    slices.bytes(rank));
        }
      });
}

void ShmCollectives::ReduceScatterInChunks(const Request& request) {
  const auto size = static_cast<size_t>(mesh_.size());
  const size_t part_bytes = request.output.nbytes();
  // A window holds a piece for each rank.
  const size_t piece_bytes = kChunkBytes / size / kCacheLineBytes * kCacheLineBytes;
  InChunks(
      part_bytes, piece_bytes,
      [&](const Chunk& chunk) {
        for (size_t rank = 0; rank < size; ++rank) {
          CopyBytes(window(mesh_.rank(), chunk) + rank * piece_bytes,
                    Bytes(request.input) + rank * part_bytes + chunk.begin, chunk.bytes);
        }
      },
      [&](const Chunk& chunk) {
        Vectors parts;
        for (int rank = 0; rank < mesh_.size(); ++rank) {
          parts.push_back(window(rank, chunk) + static_cast<size_t>(mesh_.rank()) * piece_bytes);
        }
        std::byte* const result = Bytes(request.output) + chunk.begin;
        Reduce(request.dtype(), request.op, parts, {&result, 1},
               static_cast<int64_t>(chunk.bytes / SizeOf(request.dtype())));
      },
      [](const Chunk&) {});
}

void ShmCollectives::CopyInChunks(const Request& request) {
  const int own = mesh_.rank();
  const size_t input_bytes = request.input.nbytes();
  const bool is_gather = request.collective == Collective::kAllGather;
  InChunks(
      input_bytes, kChunkBytes,
      [&](const Chunk& chunk) {
        if (is_gather || own == request.root)
          CopyBytes(window(own, chunk), Bytes(request.input) + chunk.begin, chunk.bytes);
      },
      [](const Chunk&) {},
      [&](const Chunk& chunk) {
        for (int rank = 0; rank < mesh_.size(); ++rank) {
          if (!is_gather && rank != request.root) continue;
          std::byte* const target =
              Bytes(request.output) + (is_gather ? static_cast<size_t>(rank) * input_bytes : 0);
          CopyBytes(target + chunk.begin, window(rank, chunk), chunk.bytes);
        }
      });
}

}  // namespace gradsync::comm
