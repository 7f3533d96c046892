#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/tensor/device.h"
#include "model/tensor/dtype.h"

namespace gradsync::model {

using Shape = std::vector<int64_t>;

// Returns the shape as a text such as "(2, 128, 768)".
std::string ToString(const Shape& shape);
// Returns the number of elements: the product of the dimensions, 1 for a scalar's empty shape. Throws
// InvalidInput for a negative dimension, or if the product of the first k dimensions exceeds 2^63 - 1 for any
// k.
int64_t Numel(const Shape& shape);

// A Tensor is a dense row-major array on a device. Copying a Tensor object copies no elements: both objects
// share the storage. A view is a Tensor over all or a part of another tensor's storage, and keeps this
// storage alive.
class Tensor {
 public:
  // Makes an undefined tensor, which has no storage and must not be read or written. The functions device(),
  // View, Slice and SliceBytes of an undefined tensor throw InvalidInput.
  Tensor() = default;

  static Tensor Empty(DevicePtr device, Shape shape, DType dtype);
  static Tensor Zeros(DevicePtr device, Shape shape, DType dtype);
  // Returns a tensor over existing memory of `device`, for example memory shared between processes. This
  // memory must be large enough and aligned for `dtype`; Over checks neither. The tensor keeps `memory`
  // alive. Throws InvalidInput if `memory` is null.
  static Tensor Over(DevicePtr device, std::shared_ptr<void> memory, Shape shape, DType dtype);
  // Returns a tensor on `device` with a copy of `values`, which are row-major and in CPU memory. Throws
  // InvalidInput unless `values` has Numel(shape) elements.
  template <class T>
  static Tensor From(DevicePtr device, Shape shape, std::span<const T> values) {
    return FromBytes(std::move(device), std::move(shape), kDTypeOf<T>, std::as_bytes(values));
  }
  static Tensor FromBytes(DevicePtr device, Shape shape, DType dtype, std::span<const std::byte> bytes);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  // Returns the size of dimension i; a negative i counts from the end. Throws InvalidInput if i is out of
  // range.
  int64_t dim(int i) const;
  int64_t numel() const { return numel_; }
  size_t nbytes() const { return static_cast<size_t>(numel_) * SizeOf(dtype_); }
  DType dtype() const { return dtype_; }
  const DevicePtr& device() const;

  // Returns a pointer to the first element; null for an undefined tensor. On CUDA the pointer is to GPU
  // memory, which CPU code must neither read nor write.
  void* raw_data() const { return data_; }
  // Returns a pointer to the first element. Throws InvalidInput if T is not the C++ type of the dtype.
  template <class T>
  T* data() const {
    if (kDTypeOf<T> != dtype_) [[unlikely]]
      ThrowWrongDType(kDTypeOf<T>);
    return static_cast<T*>(data_);
  }

  // Returns a view of all elements with another shape. Throws InvalidInput if Numel(shape) is not numel().
  Tensor View(Shape shape) const;
  // Returns a view of Numel(shape) consecutive elements from flat index `offset` on. Throws InvalidInput if
  // these elements are not all inside this tensor.
  Tensor Slice(int64_t offset, Shape shape) const;

  // Returns a view of this tensor's memory, with the given shape and dtype, from byte `offset_bytes` on.
  // Throws InvalidInput if the view is not inside this tensor, or not aligned for `dtype`.
  Tensor SliceBytes(size_t offset_bytes, Shape shape, DType dtype) const;

  // Returns whether no other Tensor object shares this tensor's storage; false for an undefined tensor.
  // Tensors that two calls of Over() have returned for the same memory have separate storages.
  bool unique() const { return storage_.use_count() == 1; }
  // Returns whether this tensor and `other` begin at the same address and have equally many elements.
  bool SameStorage(const Tensor& other) const { return data_ == other.data_ && numel_ == other.numel_; }

  // A Version remembers how many writes to a tensor's storage have been counted (CountWrite).
  // Version::changed() tells whether more writes have been counted since version() returned the Version;
  // false if the storage has been freed.
  class Version;
  Version version() const;
  // Counts a write to the storage, so that changed() returns true for each Version of this storage that
  // version() returned earlier. CopyFrom, Zero, and the functions of random.h and tensor_ops.h that write a
  // tensor (except Cast) call CountWrite themselves. After a write by a kernel, by a collective or through
  // data(), the caller must call CountWrite if changed() is to report the write.
  void CountWrite() const;

  // Copies the elements of `source` into this tensor. Either both tensors must be on the same device, or one
  // of them on the CPU. Throws InvalidInput if the shapes or dtypes differ.
  void CopyFrom(const Tensor& source) const;
  void Zero() const;
  // Clone() copies the tensor into new storage on the tensor's device. To() copies the tensor into new
  // storage on `device`.
  Tensor Clone() const { return To(device()); }
  Tensor To(const DevicePtr& device) const;

  // Returns a std::vector, in CPU memory, with this tensor's elements. Throws InvalidInput if T is not the
  // C++ type of the dtype.
  template <class T>
  std::vector<T> ToVector() const {
    if (kDTypeOf<T> != dtype_) [[unlikely]]
      ThrowWrongDType(kDTypeOf<T>);
    std::vector<T> values(static_cast<size_t>(numel_));
    CopyToHost(values.data());
    return values;
  }
  void CopyToHost(void* target) const;

 private:
  struct Storage;

  // Makes a tensor that has no memory until the caller sets storage_ and data_. Throws InvalidInput if
  // Numel(shape) does, or if the size in bytes exceeds 2^63 - 1.
  Tensor(Shape shape, DType dtype);
  [[noreturn]] void ThrowWrongDType(DType expected) const;

  std::shared_ptr<Storage> storage_;
  void* data_ = nullptr;
  Shape shape_;
  int64_t numel_ = 0;
  DType dtype_ = DType::kF32;
};

class Tensor::Version {
 public:
  Version() = default;
  // Returns whether a write to the tensor's storage has been counted (CountWrite) since Tensor::version()
  // returned this Version; false if the storage has been freed.
  bool changed() const;

 private:
  friend class Tensor;
  std::weak_ptr<const Storage> storage_;
  uint64_t num_writes_ = 0;
};

}  // namespace gradsync::model
