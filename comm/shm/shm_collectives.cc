#include "comm/shm/shm_collectives.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

// A vector is short if the vectors of all other ranks together have at most this size. For data that can be
// read without a copy the limit is lower.
constexpr size_t kShortBytes = size_t{64} << 10;
constexpr size_t kShortSharedBytes = size_t{8} << 10;
// All ranks' windows should stay in caches.
constexpr size_t kChunkBytes = size_t{256} << 10;
// One window is being filled, one is being reduced, and results are being read from one.
constexpr size_t kNumWindows = 3;

int64_t NumelOf(size_t bytes, const Request& request) {
  return static_cast<int64_t>(bytes / SizeOf(request.dtype()));
}

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

SharedBuffers::Location SharedBuffers::Find(const void* data) const {
  const std::lock_guard lock(mutex_);
  const auto* const address = static_cast<const std::byte*>(data);
  auto buffer = buffers_.upper_bound(address);
  if (buffer == buffers_.begin()) return {};
  --buffer;
  const auto offset = static_cast<size_t>(address - buffer->first);
  if (offset >= buffer->second.bytes) return {};
  return {buffer->second.number, static_cast<int64_t>(offset)};
}

std::byte* SharedBuffers::At(int rank, const Location& place) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      buffers_, [&](const auto& buffer) { return buffer.second.number == place.buffer; });
  return found->second.memory->part(rank) + place.offset_bytes;
}

struct ShmCollectives::Notice {
  Signature signature;
  SharedBuffers::Location place;  // place of the input
  bool has_data;                  // true if the notice also has the input
  alignas(kCacheLineBytes) std::array<std::byte, kShortBytes> data;
};

size_t ShmCollectives::AreaBytes() { return 2 * sizeof(Notice) + kNumWindows * kChunkBytes; }

ShmCollectives::ShmCollectives(ShmMesh& mesh, const SharedBuffers& buffers)
    : mesh_(mesh), buffers_(buffers) {}

bool ShmCollectives::IsShort(const Request& request, const SharedBuffers::Location& place) const {
  return static_cast<size_t>(request.bytes()) * static_cast<size_t>(mesh_.size() - 1) <=
         (place.buffer == 0 ? kShortBytes : kShortSharedBytes);
}

ShmCollectives::Notice& ShmCollectives::notice(int rank) const {
  return reinterpret_cast<Notice*>(mesh_.area(rank))[num_given_ % 2];
}

std::byte* ShmCollectives::window(int rank, size_t chunk) const {
  return mesh_.area(rank) + 2 * sizeof(Notice) + chunk % kNumWindows * kChunkBytes;
}

void ShmCollectives::PublishNotice(const Request& request) {
  ++num_given_;
  Notice& own = notice(mesh_.rank());
  own.signature = Signature(request);
  if (request.bytes() > 0) {
    own.place = buffers_.Find(request.input.raw_data());
    own.has_data = IsShort(request, own.place);
    if (own.has_data) CopyBytes(own.data.data(), Bytes(request.input), request.input.nbytes());
  }
  has_given_ = true;
  mesh_.Step();
}

bool ShmCollectives::Begin(const Request& request) {
  PublishNotice(request);
  return request.bytes() == 0 || notice(mesh_.rank()).has_data;
}

void ShmCollectives::CheckSame() const {
  const Signature& first = notice(0).signature;
  for (int rank = 1; rank < mesh_.size(); ++rank) {
    const Signature& other = notice(rank).signature;
    if (other != first)
      throw std::runtime_error(DescribeMismatch(mesh_.NameOf(rank), other, mesh_.NameOf(0), first));
  }
}

std::optional<ShmCollectives::Vectors> ShmCollectives::PublishedInputs() const {
  Vectors inputs;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    Notice& theirs = notice(rank);
    if (!theirs.has_data) return std::nullopt;
    inputs.push_back(theirs.data.data());
  }
  return inputs;
}

std::optional<ShmCollectives::Vectors> ShmCollectives::SharedInputs() const {
  Vectors inputs;
  const int64_t buffer = notice(0).place.buffer;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    const SharedBuffers::Location& place = notice(rank).place;
    if (place.buffer == 0 || place.buffer != buffer) return std::nullopt;
    inputs.push_back(buffers_.At(rank, place));
  }
  return inputs;
}

void ShmCollectives::Run(const Request& request) {
  if (!has_given_) PublishNotice(request);
  has_given_ = false;
  mesh_.WaitForAll();
  CheckSame();
  if (request.bytes() == 0) return;
  if (const auto inputs = PublishedInputs()) return RunFromInputs(request, mesh_.rank(), *inputs);
  if (const auto inputs = SharedInputs()) {
    if (request.collective == Collective::kAllReduce) {
      AllReduceInPlace(request, *inputs);
    } else {
      RunFromInputs(request, mesh_.rank(), *inputs);
    }
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

void ShmCollectives::AllReduceInPlace(const Request& request, const Vectors& tensors) const {
  const auto own = static_cast<size_t>(mesh_.rank());
  const Slices slices = Slices::OfRanks(request.output.nbytes(), mesh_.size());
  const Vectors parts = Offset(tensors, slices.begin(own));
  Reduce(request.dtype(), request.op, parts, parts, NumelOf(slices.bytes(own), request));
}

// For each chunk every rank copies its data into its window, reduces its share of all windows, and copies the
// results out. Ranks wait for each other once per chunk: while one chunk is reduced, the next chunk is copied
// in.
template <class In, class Reduce, class Out>
void ShmCollectives::InChunks(const Slices& chunks, const In& in, const Reduce& reduce, const Out& out) {
  Pipeline(
      static_cast<int64_t>(chunks.count()), 2,
      [&](int64_t chunk) {
        in(static_cast<size_t>(chunk));
        if (chunk == 0) mesh_.Meet();
      },
      [&](int64_t chunk) {
        reduce(static_cast<size_t>(chunk));
        mesh_.Meet();
        out(static_cast<size_t>(chunk));
      });
}

void ShmCollectives::AllReduceInChunks(const Request& request) {
  const int own = mesh_.rank();
  const Slices chunks(request.output.nbytes(), kChunkBytes);
  const auto slices_of = [&](size_t chunk) { return Slices::OfRanks(chunks.bytes(chunk), mesh_.size()); };
  InChunks(
      chunks,
      [&](size_t chunk) {
        CopyBytes(window(own, chunk), Bytes(request.input) + chunks.begin(chunk), chunks.bytes(chunk));
      },
      [&](size_t chunk) {
        const Slices slices = slices_of(chunk);
        Vectors parts;
        for (int rank = 0; rank < mesh_.size(); ++rank)
          parts.push_back(window(rank, chunk) + slices.begin(static_cast<size_t>(own)));
        // The result is written to this rank's window. No other rank reads this slice before the next step of
        // all ranks.
        Reduce(request.dtype(), request.op, parts, {&parts[static_cast<size_t>(own)], 1},
               NumelOf(slices.bytes(static_cast<size_t>(own)), request));
      },
      [&](size_t chunk) {
        const Slices slices = slices_of(chunk);
        for (size_t rank = 0; rank < static_cast<size_t>(mesh_.size()); ++rank) {
          CopyBytes(Bytes(request.output) + chunks.begin(chunk) + slices.begin(rank),
                    window(static_cast<int>(rank), chunk) + slices.begin(rank), slices.bytes(rank));
        }
      });
}

void ShmCollectives::ReduceScatterInChunks(const Request& request) {
  const auto size = static_cast<size_t>(mesh_.size());
  const size_t part_bytes = request.output.nbytes();
  // A window holds a piece for each rank.
  const Slices chunks(part_bytes, WholeLines(kChunkBytes / size));
  InChunks(
      chunks,
      [&](size_t chunk) {
        for (size_t rank = 0; rank < size; ++rank) {
          CopyBytes(window(mesh_.rank(), chunk) + rank * chunks.part_bytes,
                    Bytes(request.input) + rank * part_bytes + chunks.begin(chunk), chunks.bytes(chunk));
        }
      },
      [&](size_t chunk) {
        Vectors parts;
        for (int rank = 0; rank < mesh_.size(); ++rank) {
          parts.push_back(window(rank, chunk) + static_cast<size_t>(mesh_.rank()) * chunks.part_bytes);
        }
        std::byte* const result = Bytes(request.output) + chunks.begin(chunk);
        Reduce(request.dtype(), request.op, parts, {&result, 1}, NumelOf(chunks.bytes(chunk), request));
      },
      [](size_t) {});
}

void ShmCollectives::CopyInChunks(const Request& request) {
  const int own = mesh_.rank();
  const Slices chunks(request.input.nbytes(), kChunkBytes);
  const bool is_gather = request.collective == Collective::kAllGather;
  InChunks(
      chunks,
      [&](size_t chunk) {
        if (is_gather || own == request.root)
          CopyBytes(window(own, chunk), Bytes(request.input) + chunks.begin(chunk), chunks.bytes(chunk));
      },
      [](size_t) {},
      [&](size_t chunk) {
        for (int rank = 0; rank < mesh_.size(); ++rank) {
          if (!is_gather && rank != request.root) continue;
          const size_t begin = is_gather ? static_cast<size_t>(rank) * chunks.total_bytes : 0;
          CopyBytes(Bytes(request.output) + begin + chunks.begin(chunk), window(rank, chunk),
                    chunks.bytes(chunk));
        }
      });
}

}  // namespace gradsync::comm
