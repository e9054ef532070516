// Points of time on a stream.
#pragma once

#include "device/gpu/gpu_runtime.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {

class GpuEvent {
 public:
  GpuEvent() { ZERODIFF_GPU_CALL(EventCreate, &event_); }
  ~GpuEvent() { static_cast<void>(ZERODIFF_GPU_NAME(EventDestroy)(event_)); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  void record(GpuStream stream) { ZERODIFF_GPU_CALL(EventRecord, event_, stream); }
  void wait() const { ZERODIFF_GPU_CALL(EventSynchronize, event_); }

  // Both must have been recorded and waited for.
  double seconds_since(const GpuEvent& earlier) const {
    float milliseconds = 0;
    ZERODIFF_GPU_CALL(EventElapsedTime, &milliseconds, earlier.event_, event_);
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  GpuEventHandle event_ = nullptr;
};

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
