#ifndef GRADSYNC_TESTS_CUDA_EMULATION_MMA_H_
#define GRADSYNC_TESTS_CUDA_EMULATION_MMA_H_

#include <cuda_bf16.h>
#include <cuda_block.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

// Tensor cores, for fragments of 16 x 16 x 16 with bf16 operands and f32 sums. As on a GPU a lane holds 8 of
// a fragment's 256 numbers; which ones is the emulation's own choice, as it is the GPU's. Addresses and
// strides are held to what NVIDIA's documentation demands of them.
namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int kM, int kN, int kK, class T, class Layout = void>
struct fragment {
  static_assert(kM == 16 && kN == 16 && kK == 16);
  static constexpr int num_elements = 8;
  T x[num_elements];
};

namespace emulation {

using cuda_emulation::Site;

inline int Row(int element) { return (static_cast<int>(threadIdx.x % 32) + 32 * element) / 16; }
inline int Col(int element) { return (static_cast<int>(threadIdx.x % 32) + 32 * element) % 16; }

inline void CheckAddress(const void* address, unsigned stride, size_t element_bytes) {
  if (reinterpret_cast<uintptr_t>(address) % 32 != 0) {
    cuda_emulation::Fail("a fragment begins at no multiple of 32 bytes");
  }
  if (stride * element_bytes % 16 != 0) {
    cuda_emulation::Fail("rows of a fragment are apart by no multiple of 16 bytes");
  }
}

inline float Float(float x) { return x; }
inline float Float(__nv_bfloat16 x) { return __bfloat162float(x); }

// A fragment, put together from what its lanes have.
template <class T>
class Gathered {
 public:
  Gathered(const T (&mine)[8], const Site& site) : room_(cuda_emulation::NextRoom()) {
    std::memcpy(room_.lanes[threadIdx.x % 32], mine, sizeof(mine));
    cuda_emulation::SyncWarp(0xffffffffu, site);
  }
  float At(int row, int col) const {
    const int index = row * 16 + col;
    T number;
    std::memcpy(&number, room_.lanes[index % 32] + static_cast<size_t>(index / 32) * sizeof(T), sizeof(T));
    return Float(number);
  }

 private:
  cuda_emulation::Room& room_;
};

}  // namespace emulation

template <class F, class T>
void fill_fragment(F& fragment, T value) {
  for (auto& x : fragment.x) x = value;
}

template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* from, unsigned stride,
                      emulation::Site site = emulation::Site::current()) {
  emulation::CheckAddress(from, stride, sizeof(T));
  cuda_emulation::SyncWarp(0xffffffffu, site);
  constexpr bool kRows = std::is_same_v<Layout, row_major>;
  for (int i = 0; i < 8; ++i) {
    const int row = emulation::Row(i), col = emulation::Col(i);
    to.x[i] = from[kRows ? row * static_cast<int>(stride) + col : col * static_cast<int>(stride) + row];
  }
}

// d = a b + c
template <class A, class B, class C>
void mma_sync(C& d, const A& a, const B& b, const C& c, emulation::Site site = emulation::Site::current()) {
  const emulation::Gathered left(a.x, site), right(b.x, site);
  for (int i = 0; i < 8; ++i) {
    float sum = c.x[i];
    for (int k = 0; k < 16; ++k) {
      sum += left.At(emulation::Row(i), k) * right.At(k, emulation::Col(i));
    }
    d.x[i] = sum;
  }
}

template <class T>
void store_matrix_sync(T* to, const fragment<accumulator, 16, 16, 16, T>& from, unsigned stride,
                       layout_t layout, emulation::Site site = emulation::Site::current()) {
  emulation::CheckAddress(to, stride, sizeof(T));
  cuda_emulation::SyncWarp(0xffffffffu, site);
  for (int i = 0; i < 8; ++i) {
    const int row = emulation::Row(i), col = emulation::Col(i);
    const int at =
        layout == mem_row_major ? row * static_cast<int>(stride) + col : col * static_cast<int>(stride) + row;
    to[at] = from.x[i];
  }
}

}  // namespace nvcuda::wmma

#endif  // GRADSYNC_TESTS_CUDA_EMULATION_MMA_H_
