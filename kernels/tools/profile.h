// Where the time of a method goes.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace vpu::tools {

// Adds up, over the runs of a method, the time of every VPU instruction, of the delegate calls
// around them, and of the operators outside.
class Profiler final : public executorch::runtime::EventTracer {
 public:
  // Forgets what it saw, such as the warm-up.
  void reset();

  // A table on `file`; times are per run.
  void print(std::FILE* file, int runs) const;

  void create_event_block(const char*) override {}
  executorch::runtime::EventTracerEntry start_profiling(
      const char* name, executorch::runtime::ChainID chain_id,
      executorch::runtime::DebugHandle debug_handle) override;
  void end_profiling(executorch::runtime::EventTracerEntry entry) override;
  executorch::runtime::EventTracerEntry start_profiling_delegate(
      const char* name, executorch::runtime::DelegateDebugIntId id) override;
  void end_profiling_delegate(executorch::runtime::EventTracerEntry entry, const void* metadata,
                              size_t metadata_len) override;
  void log_profiling_delegate(const char* name, executorch::runtime::DelegateDebugIntId id,
                              et_timestamp_t start, et_timestamp_t end, const void* metadata,
                              size_t metadata_len) override;

  // Allocations and values are not of interest here.
  void track_allocation(executorch::runtime::AllocatorID, size_t) override {}
  executorch::runtime::AllocatorID track_allocator(const char*) override { return 0; }
  executorch::runtime::Result<bool> log_evalue(const executorch::runtime::EValue&,
                                               executorch::runtime::LoggedEValueType) override {
    return true;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId,
      const executorch::aten::Tensor&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId,
      const executorch::runtime::ArrayRef<executorch::aten::Tensor>) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId, const int&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId, const bool&) override {
    return false;
  }
  executorch::runtime::Result<bool> log_intermediate_output_delegate(
      const char*, executorch::runtime::DelegateDebugIntId, const double&) override {
    return false;
  }
  void set_delegation_intermediate_output_filter(
      executorch::runtime::EventTracerFilterBase*) override {}

 private:
  struct Row {
    std::string op;
    std::string name;
    int64_t macs = 0;
    int64_t calls = 0;
    double microseconds = 0;
  };
  struct Total {
    int64_t calls = 0;
    double microseconds = 0;
  };
  // An instruction: the delegate call (chain and instruction of the method) it is in, and its
  // position there.
  using Key = std::tuple<executorch::runtime::ChainID, executorch::runtime::DebugHandle, size_t>;

  std::map<Key, Row> instructions_;
  std::map<std::string, Total> events_;
  std::vector<std::string> open_;  // names of the events that began; an entry's id indexes it
  size_t position_ = 0;            // of the next instruction in this delegate call
};

}  // namespace vpu::tools
