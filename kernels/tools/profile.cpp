#include "tools/profile.h"

#include <executorch/runtime/platform/clock.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>

namespace vpu::tools {
namespace {

namespace runtime = executorch::runtime;

// Names ExecuTorch gives its own events.
constexpr char kMethodEvent[] = "Method::execute";
constexpr char kDelegateEvent[] = "DELEGATE_CALL";
constexpr char kOperatorPrefix[] = "native_call_";

double microseconds(et_timestamp_t start, et_timestamp_t end) {
  return static_cast<double>(runtime::ticks_to_ns(end - start)) * 1e-3;
}

// "Conv2d\tconv2d+relu\t115605504", as the VPU delegate writes it.
bool parse_metadata(const std::string& metadata, std::string* op, std::string* name,
                    int64_t* macs) {
  const size_t first = metadata.find('\t');
  const size_t last = metadata.rfind('\t');
  if (first == std::string::npos || first == last) return false;
  *op = metadata.substr(0, first);
  *name = metadata.substr(first + 1, last - first - 1);
  *macs = std::strtoll(metadata.c_str() + last + 1, nullptr, 10);
  return true;
}

}  // namespace

void Profiler::reset() {
  instructions_.clear();
  events_.clear();
  open_.clear();
}

runtime::EventTracerEntry Profiler::start_profiling(const char* name, runtime::ChainID,
                                                    runtime::DebugHandle) {
  if (std::string(name) == kDelegateEvent) position_ = 0;
  runtime::EventTracerEntry entry{};
  entry.event_id = static_cast<int64_t>(open_.size());
  open_.emplace_back(name);
  entry.start_time = runtime::pal_current_ticks();
  return entry;
}

void Profiler::end_profiling(runtime::EventTracerEntry entry) {
  const et_timestamp_t end = runtime::pal_current_ticks();
  const size_t event = static_cast<size_t>(entry.event_id);
  if (event >= open_.size()) return;  // it began before a reset
  Total& total = events_[open_[event]];
  ++total.calls;
  total.microseconds += microseconds(entry.start_time, end);
}

runtime::EventTracerEntry Profiler::start_profiling_delegate(const char* name,
                                                             runtime::DelegateDebugIntId id) {
  const std::string event = name != nullptr ? name : std::to_string(id);
  return start_profiling(("delegate event " + event).c_str(), runtime::kUnsetChainId,
                         runtime::kUnsetDebugHandle);
}

void Profiler::end_profiling_delegate(runtime::EventTracerEntry entry, const void*, size_t) {
  end_profiling(entry);
}

void Profiler::log_profiling_delegate(const char*, runtime::DelegateDebugIntId,
                                      et_timestamp_t start, et_timestamp_t end,
                                      const void* metadata, size_t metadata_len) {
  const std::string text(static_cast<const char*>(metadata), metadata_len);
  std::string op, name;
  int64_t macs = 0;
  if (!parse_metadata(text, &op, &name, &macs)) return;  // another backend's event
  Row& row = instructions_[{current_chain_id(), current_debug_handle(), position_++}];
  row.op = op;
  row.name = name;
  row.macs = macs;
  ++row.calls;
  row.microseconds += microseconds(start, end);
}

void Profiler::print(std::FILE* file, int runs) const {
  const auto find = [this](const char* name) {
    const auto it = events_.find(name);
    return it == events_.end() ? Total{} : it->second;
  };
  const double method = find(kMethodEvent).microseconds;
  const auto line = [&](const std::string& what, int64_t calls, double time) {
    std::fprintf(file, "  %-52s %6g %10.1f %5.1f%%\n", what.c_str(),
                 static_cast<double>(calls) / runs, time / runs,
                 method > 0 ? 100 * time / method : 0);
  };

  std::fprintf(file, "profile, per run over %d run%s:\n", runs, runs == 1 ? "" : "s");
  std::fprintf(file, "  %-52s %6s %10s %6s %8s\n", "VPU instruction", "calls", "us", "", "GMAC/s");
  double vpu = 0;
  int64_t vpu_calls = 0;
  for (const auto& [key, row] : instructions_) {
    vpu += row.microseconds;
    vpu_calls += row.calls;
    std::fprintf(file, "  %-12s %-39s %6g %10.1f %5.1f%%", row.op.c_str(), row.name.c_str(),
                 static_cast<double>(row.calls) / runs, row.microseconds / runs,
                 method > 0 ? 100 * row.microseconds / method : 0);
    if (row.macs != 0 && row.microseconds > 0) {
      std::fprintf(
          file, " %8.1f",
          static_cast<double>(row.macs) * static_cast<double>(row.calls) / row.microseconds * 1e-3);
    }
    std::fprintf(file, "\n");
  }
  line("all VPU instructions", vpu_calls, vpu);
  const Total delegates = find(kDelegateEvent);
  line("around them, in delegate calls", delegates.calls, delegates.microseconds - vpu);

  double operators = 0;
  for (const auto& [name, total] : events_) {
    if (name.rfind(kOperatorPrefix, 0) != 0) continue;
    operators += total.microseconds;
    line("outside the VPU: " + name.substr(sizeof(kOperatorPrefix) - 1), total.calls,
         total.microseconds);
  }
  line("the rest of the method", find(kMethodEvent).calls,
       method - delegates.microseconds - operators);
  line("the method", find(kMethodEvent).calls, method);
}

}  // namespace vpu::tools
