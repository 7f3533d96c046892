#include "model/tensor/tensor.h"

#include <atomic>
#include <utility>

namespace gradsync::model {

struct Tensor::Storage {
  Storage(DevicePtr owner, size_t bytes)
      : device(std::move(owner)), memory(device->allocator().Allocate(bytes)) {}
  Storage(DevicePtr owner, std::shared_ptr<void> borrowed)
      : device(std::move(owner)), memory(borrowed.get()), lender(std::move(borrowed)) {}
  ~Storage() {
    if (lender == nullptr) device->allocator().Free(memory);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const DevicePtr device;
  void* const memory;
  const std::shared_ptr<void> lender;  // null if the memory is from the device's allocator
  std::atomic<uint64_t> num_writes = 0;
};

std::string ToString(const Shape& shape) { return Join(shape); }

int64_t Numel(const Shape& shape) {
  int64_t numel = 1;
  for (const int64_t dim : shape) {
    Require(dim >= 0, "shape ", shape, " has a negative dimension");
    Require(!__builtin_mul_overflow(numel, dim, &numel), "shape ", shape, " has too many elements");
  }
  return numel;
}

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), numel_(Numel(shape_)), dtype_(dtype) {
  Require(numel_ <= PTRDIFF_MAX / static_cast<int64_t>(SizeOf(dtype)), "shape ", shape_, " of ", Name(dtype),
          " has too many bytes");
}

Tensor Tensor::Empty(DevicePtr device, Shape shape, DType dtype) {
  Tensor tensor(std::move(shape), dtype);
  tensor.storage_ = std::make_shared<Storage>(std::move(device), tensor.nbytes());
  tensor.data_ = tensor.storage_->memory;
  return tensor;
}

Tensor Tensor::Zeros(DevicePtr device, Shape shape, DType dtype) {
  Tensor tensor = Empty(std::move(device), std::move(shape), dtype);
  tensor.Zero();
  return tensor;
}

Tensor Tensor::Over(DevicePtr device, std::shared_ptr<void> memory, Shape shape, DType dtype) {
  Require(memory != nullptr, "a tensor over no memory");
  Tensor tensor(std::move(shape), dtype);
  tensor.data_ = memory.get();
  tensor.storage_ = std::make_shared<Storage>(std::move(device), std::move(memory));
  return tensor;
}

Tensor Tensor::FromBytes(DevicePtr device, Shape shape, DType dtype, std::span<const std::byte> bytes) {
  Tensor tensor = Empty(std::move(device), std::move(shape), dtype);
  Require(bytes.size() == tensor.nbytes(), "tensor of shape ", tensor.shape(), " and dtype ", Name(dtype),
          " takes ", tensor.nbytes(), " bytes, got ", bytes.size());
  tensor.device()->Copy(tensor.raw_data(), bytes.data(), bytes.size());
  return tensor;
}

int64_t Tensor::dim(int i) const {
  const int index = i < 0 ? i + rank() : i;
  Require(index >= 0 && index < rank(), "dimension ", i, " of a tensor of shape ", shape_);
  return shape_[static_cast<size_t>(index)];
}

const DevicePtr& Tensor::device() const {
  Require(defined(), "an undefined tensor has no device");
  return storage_->device;
}

Tensor Tensor::View(Shape shape) const {
  Require(Numel(shape) == numel_, "cannot view shape ", shape_, " as ", shape);
  return Slice(0, std::move(shape));
}

Tensor Tensor::Slice(int64_t offset, Shape shape) const {
  Require(defined(), "an undefined tensor has no slices");
  const int64_t numel = Numel(shape);
  Require(offset >= 0 && numel <= numel_ && offset <= numel_ - numel, numel, " elements from element ",
          offset, " on do not lie in a tensor of ", numel_);
  Tensor view = *this;
  view.data_ = static_cast<std::byte*>(data_) + static_cast<size_t>(offset) * SizeOf(dtype_);
  view.shape_ = std::move(shape);
  view.numel_ = numel;
  return view;
}

Tensor Tensor::SliceBytes(size_t offset_bytes, Shape shape, DType dtype) const {
  Require(defined(), "an undefined tensor has no slices");
  Tensor view(std::move(shape), dtype);
  view.storage_ = storage_;
  view.data_ = static_cast<std::byte*>(data_) + offset_bytes;
  Require(offset_bytes <= nbytes() && view.nbytes() <= nbytes() - offset_bytes, "bytes [", offset_bytes, ", ",
          offset_bytes + view.nbytes(), ") do not lie in a tensor of ", nbytes(), " bytes");
  Require(reinterpret_cast<uintptr_t>(view.data_) % SizeOf(dtype) == 0, "offset of ", offset_bytes,
          " bytes is not aligned for ", Name(dtype));
  return view;
}

void Tensor::CopyFrom(const Tensor& source) const {
  Require(source.dtype_ == dtype_, "copy: source is ", Name(source.dtype_), ", target is ", Name(dtype_));
  Require(source.shape_ == shape_, "copy: source has shape ", source.shape_, ", target ", shape_);
  // The device that is not the host copies from or to the other device.
  Device& mover = device()->is_cpu() ? *source.device() : *device();
  mover.Copy(data_, source.data_, nbytes());
  CountWrite();
}

void Tensor::Zero() const {
  device()->Zero(data_, nbytes());
  CountWrite();
}

Tensor::Version Tensor::version() const {
  Version version;
  if (!defined()) return version;
  version.storage_ = storage_;
  version.num_writes_ = storage_->num_writes;
  return version;
}

bool Tensor::Version::changed() const {
  const std::shared_ptr<const Storage> storage = storage_.lock();
  return storage != nullptr && storage->num_writes != num_writes_;
}

void Tensor::CountWrite() const { ++storage_->num_writes; }

Tensor Tensor::To(const DevicePtr& device) const {
  Tensor copy = Empty(device, shape_, dtype_);
  copy.CopyFrom(*this);
  return copy;
}

void Tensor::CopyToHost(void* target) const { device()->Copy(target, data_, nbytes()); }

void Tensor::ThrowWrongDType(DType expected) const {
  throw InvalidInput(
      Join("tensor of shape ", shape_, " holds ", Name(dtype_), ", asked for ", Name(expected)));
}

}  // namespace gradsync::model
