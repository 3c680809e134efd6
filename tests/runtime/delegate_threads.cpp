// Executes a program through VpuBackend from two threads at once: delegate_threads BLOB
//
// Two handles, one for each thread, must give right results whatever the size of ExecuTorch's pool,
// which changes between runs. Of one handle that both threads execute every result must be right or
// refused. Exits with 1 and says what is wrong.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/platform/runtime.h>

#if __has_include(<vpu/vpu.h>)
#include <vpu/vpu.h>  // as it is installed
#else
#include "vpu.h"  // in this project
#endif

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <vector>

// Exported by the wheel's library, which has no header of it.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace {

using namespace executorch::runtime;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "delegate_threads: %s\n", what);
  std::exit(1);
}

ScalarType type_of(vpu_dtype dtype) {
  return dtype == VPU_INT8 ? ScalarType::Char : ScalarType::Float;
}

// A tensor with memory of its own.
struct Value {
  std::vector<TensorImpl::SizesType> sizes;
  std::vector<TensorImpl::DimOrderType> dim_order;
  std::vector<TensorImpl::StridesType> strides;
  std::vector<uint8_t> bytes;
  std::unique_ptr<TensorImpl> impl;
  EValue value;

  explicit Value(const vpu_argument& a)
      : sizes(a.sizes, a.sizes + a.rank),
        dim_order(a.dim_order, a.dim_order + a.rank),
        strides(a.rank),
        bytes(a.bytes) {
    TensorImpl::StridesType stride = 1;
    for (size_t i = a.rank; i-- > 0;) {
      strides[dim_order[i]] = stride;
      stride *= sizes[dim_order[i]];
    }
    impl =
        std::make_unique<TensorImpl>(type_of(a.dtype), static_cast<ssize_t>(a.rank), sizes.data(),
                                     bytes.data(), dim_order.data(), strides.data());
    value = EValue(Tensor(impl.get()));
  }
};

// The arguments of one thread's executions. Each thread's inputs are others: two that were mixed up
// would not show otherwise.
struct Arguments {
  std::vector<std::unique_ptr<Value>> values;
  std::vector<EValue*> pointers;
  size_t inputs;

  Arguments(const vpu_program* program, int thread) : inputs(vpu_input_count(program)) {
    vpu_argument argument;
    for (size_t i = 0; i < inputs; ++i) {
      vpu_input_at(program, i, &argument);
      values.push_back(std::make_unique<Value>(argument));
      std::mt19937 generator(static_cast<uint32_t>(2 * i) + static_cast<uint32_t>(thread));
      std::normal_distribution<float> normal(0, 40);
      if (argument.dtype != VPU_FLOAT32) continue;
      auto* data = reinterpret_cast<float*>(values.back()->bytes.data());
      for (size_t k = 0; k < argument.bytes / 4; ++k) data[k] = normal(generator);
    }
    for (size_t i = 0; i < vpu_output_count(program); ++i) {
      vpu_output_at(program, i, &argument);
      values.push_back(std::make_unique<Value>(argument));
    }
    for (const auto& value : values) pointers.push_back(&value->value);
  }

  Error execute(const BackendInterface* backend, DelegateHandle* handle) {
    for (size_t i = inputs; i < values.size(); ++i) {
      std::memset(values[i]->bytes.data(), 0x55, values[i]->bytes.size());
    }
    BackendExecutionContext context;
    return backend->execute(context, handle, {pointers.data(), pointers.size()});
  }

  bool same_outputs(const Arguments& other) const {
    for (size_t i = inputs; i < values.size(); ++i) {
      if (values[i]->bytes != other.values[i]->bytes) return false;
    }
    return true;
  }
};

DelegateHandle* load(const BackendInterface* backend, const std::vector<char>& blob) {
  BackendInitContext context(nullptr);
  FreeableBuffer buffer(blob.data(), blob.size(), nullptr);
  Result<DelegateHandle*> handle = backend->init(context, &buffer, {});
  require(handle.ok(), "the delegate refuses the program");
  return *handle;
}

template <class Body>
void in_two_threads(Body body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "expected the path of a blob");
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<char> blob((std::istreambuf_iterator<char>(file)), {});
  runtime_init();
  const BackendInterface* backend = get_backend_class("VpuBackend");
  require(backend != nullptr, "VpuBackend is not registered");
  vpu_program* program = nullptr;
  require(vpu_load(blob.data(), blob.size(), nullptr, 1, &program) == VPU_OK, vpu_last_error());

  DelegateHandle* handles[] = {load(backend, blob), load(backend, blob)};
  Arguments expected[] = {{program, 0}, {program, 1}};
  for (Arguments& alone : expected) {
    require(alone.execute(backend, handles[0]) == Error::Ok, "an execution alone fails");
  }
  require(!expected[0].same_outputs(expected[1]), "the threads' results are equal");

  constexpr int kRuns = 30;
  for (const uint32_t threads : {1u, 2u, 3u, 2u}) {
    auto* pool = executorch::extension::threadpool::get_threadpool();
    require(pool->_unsafe_reset_threadpool(threads), "the pool cannot be resized");
    in_two_threads([&](int thread) {
      Arguments own(program, thread);
      for (int run = 0; run < kRuns; ++run) {
        require(own.execute(backend, handles[thread]) == Error::Ok, "a handle of its own fails");
        require(own.same_outputs(expected[thread]), "a handle of its own gives another result");
      }
    });
  }

  std::atomic<int> right{0}, refused{0};
  constexpr int kMost = 20000;  // until both are seen; some ten are enough
  in_two_threads([&](int thread) {
    Arguments own(program, thread);
    for (int run = 0; run < kMost && (right < kRuns || refused == 0); ++run) {
      const Error error = own.execute(backend, handles[0]);
      if (error == Error::Ok) {
        require(own.same_outputs(expected[thread]), "a handle of two threads gives a wrong result");
        ++right;
      } else {
        require(error == Error::InvalidState, "a handle of two threads fails otherwise");
        ++refused;
      }
    }
  });
  require(right > 0 && refused > 0, "two threads on one handle were never there at once");
  Arguments again(program, 0);
  require(again.execute(backend, handles[0]) == Error::Ok && again.same_outputs(expected[0]),
          "the handle does not work any more");

  for (DelegateHandle* handle : handles) backend->destroy(handle);
  vpu_destroy(program);
  std::printf("right %d, refused %d\n", right.load(), refused.load());
}
