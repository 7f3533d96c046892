#include "model/tensor/random.h"

#include <algorithm>

#include "model/tensor/parallel.h"

namespace gradsync::model {
namespace {

// Elements are made in blocks: word k of counter j of a block is the block's element k * kCountersPerBlock +
// j. So a loop over counters is a loop over adjacent elements, which the compiler vectorises.
constexpr int64_t kCountersPerBlock = 64;
constexpr int64_t kBlock = 4 * kCountersPerBlock;

struct Words {
  uint32_t w0, w1, w2, w3;
};

inline Words PhiloxRounds(uint32_t key0, uint32_t key1, Words c) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c.w0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c.w2;
    c = {static_cast<uint32_t>(product1 >> 32) ^ c.w1 ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c.w3 ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// Computes out[i] = map(random word) for the elements [begin, begin + n) of a stream. begin must be a
// multiple of kBlock.
template <class T, class Map>
void Generate(uint64_t seed, uint64_t stream, int64_t begin, int64_t n, T* out, Map map) {
  const uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  const uint32_t stream0 = static_cast<uint32_t>(stream), stream1 = static_cast<uint32_t>(stream >> 32);
  uint32_t words[4][kCountersPerBlock];
  for (int64_t done = 0; done < n; done += kBlock) {
    const uint64_t first = static_cast<uint64_t>((begin + done) / 4);
#pragma omp simd
    for (int64_t j = 0; j < kCountersPerBlock; ++j) {
      const uint64_t counter = first + static_cast<uint64_t>(j);
      const Words block = PhiloxRounds(
          key0, key1,
          {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), stream0, stream1});
      words[0][j] = block.w0;
      words[1][j] = block.w1;
      words[2][j] = block.w2;
      words[3][j] = block.w3;
    }
    const uint32_t* flat = &words[0][0];
    const int64_t count = std::min(kBlock, n - done);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) out[done + i] = map(flat[i]);
  }
}

// Returns the x for which a standard normal variable is below x with probability (1 + erf(3 / sqrt 2) * t) /
// 2, for t in (-1, 1), which is the inverse of the normal distribution truncated at 3. The function is odd,
// so it is approximated by x * P(x^2) / Q(x^2). The coefficients are a minimax fit against mpmath's erfinv,
// with a relative error of 2.2e-6. It uses only additions, multiplications and a division, because the last
// bit of libm's logarithm differs between versions.
inline double TruncatedNormalQuantile(double t) {
  constexpr double kErfOf3Sigma = 0.9973002039367398;
  const double x = t * kErfOf3Sigma;
  const double y = x * x;
  const double p =
      ((((-0.09765280514488958 * y + 1.1780534487819383) * y - 4.157388417305989) * y + 6.42375159962507) *
           y -
       4.60007890775845) *
          y +
      1.253316867685723;
  const double q =
      ((((-0.19527182363157686 * y + 1.5362144788384295) * y - 4.4189125070707655) * y + 6.010004979018721) *
           y -
       3.9320346487671687) *
          y +
      1.0;
  return x * (p / q);
}

// Calls fill(begin, n, out) for the parts of a tensor in host memory, in parallel, and copies the result to
// the tensor's device.
template <class T, class Fill>
void FillOnHost(const Tensor& tensor, const Fill& fill) {
  const bool on_host = tensor.device()->is_cpu();
  const Tensor host = on_host ? tensor : Tensor::Empty(CpuDevice(), tensor.shape(), tensor.dtype());
  T* out = host.data<T>();
  kernels::ParallelFor(
      *host.device(), host.numel(),
      [&](int64_t begin, int64_t end) { fill(begin, end - begin, out + begin); }, 64 * kBlock);
  if (on_host) {
    tensor.CountWrite();
  } else {
    tensor.CopyFrom(host);
  }
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  const Words words = PhiloxRounds(key[0], key[1], {counter[0], counter[1], counter[2], counter[3]});
  return {words.w0, words.w1, words.w2, words.w3};
}

std::array<uint32_t, 4> RandomWords(uint64_t seed, uint64_t stream, uint64_t counter) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  return Philox4x32({low(seed), low(seed >> 32)},
                    {low(counter), low(counter >> 32), low(stream), low(stream >> 32)});
}

void FillTruncatedNormal(const Tensor& tensor, double stddev, uint64_t seed, uint64_t stream) {
  DispatchFloat(tensor.dtype(), "truncated normal", [&]<class T>() {
    FillOnHost<T>(tensor, [=](int64_t begin, int64_t n, T* out) {
      Generate(seed, stream, begin, n, out, [stddev](uint32_t word) {
        // The numbers are the middles of 2^31 equal intervals of (-1, 1), which are symmetric and reach
        // neither end. Only the upper 31 bits are used, because a signed conversion is one instruction and an
        // unsigned conversion is not.
        const double t = (static_cast<int32_t>(word >> 1) + 0.5) * 0x1p-30 - 1.0;
        return static_cast<T>(static_cast<float>(TruncatedNormalQuantile(t) * stddev));
      });
    });
  });
}

void FillUniform(const Tensor& tensor, double low, double high, uint64_t seed, uint64_t stream) {
  DispatchFloat(tensor.dtype(), "uniform", [&]<class T>() {
    FillOnHost<T>(tensor, [=](int64_t begin, int64_t n, T* out) {
      Generate(seed, stream, begin, n, out, [=](uint32_t word) {
        // Uses as many bits as f32 has, so that numbers from 0 to 1 are exact and less than 1.
        const double t = static_cast<int32_t>(word >> 8) * 0x1p-24;
        return static_cast<T>(static_cast<float>(low + (high - low) * t));
      });
    });
  });
}

void FillUniformIntegers(const Tensor& tensor, int64_t upper, uint64_t seed, uint64_t stream) {
  Require(upper >= 1 && upper <= int64_t{INT32_MAX}, "uniform integers: upper bound ", upper,
          ", expected 1 to 2147483647");
  FillOnHost<int32_t>(tensor, [=](int64_t begin, int64_t n, int32_t* out) {
    Generate(seed, stream, begin, n, out, [upper](uint32_t word) {
      return static_cast<int32_t>((uint64_t{word} * static_cast<uint64_t>(upper)) >> 32);
    });
  });
}

}  // namespace gradsync::model
