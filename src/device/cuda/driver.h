// The CUDA driver API as far as it is used here, found at run time: own declarations, no CUDA headers.
//
// driver() loads libcuda.so.1 once (or the file that DEEPJIT_CUDA_DRIVER names) and looks up every function; it throws
// LIBRARY_MISSING or DRIVER_MISMATCH where that fails. check() turns a result into an Error.
#pragma once

#include <cstddef>
#include <string>

namespace deepjit::device::cuda {

using Result = int;
using DeviceNumber = int;
using Address = unsigned long long;
struct ContextObject;
struct StreamObject;
struct EventObject;
struct ModuleObject;
struct FunctionObject;
struct GraphObject;
struct GraphExecObject;
using Context = ContextObject*;
using StreamHandle = StreamObject*;
using EventHandle = EventObject*;
using ModuleHandle = ModuleObject*;
using FunctionHandle = FunctionObject*;
using GraphHandle = GraphObject*;
using GraphExec = GraphExecObject*;
struct GraphUpdate {
  int result = 0;
  void* node = nullptr;
  void* from = nullptr;
};

// Numbers of the driver's enums.
constexpr Result kSuccess = 0;
constexpr int kAttributeThreadsPerBlock = 1;
constexpr int kAttributeClockKhz = 13;
constexpr int kAttributeProcessors = 16;
constexpr int kAttributeMemoryClockKhz = 36;
constexpr int kAttributeMemoryBusBits = 37;
constexpr int kAttributeL2Bytes = 38;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;
constexpr int kAttributeSharedPerProcessor = 81;
constexpr int kAttributeSharedPerBlockOptIn = 97;
constexpr int kFunctionDynamicSharedBytes = 8;
constexpr unsigned kStreamNonBlocking = 1;
constexpr int kPointerMemoryType = 2;
constexpr int kPointerIsManaged = 8;
constexpr int kPointerDevice = 9;
constexpr unsigned kMemoryHost = 1;
constexpr unsigned kMemoryDevice = 2;
constexpr int kCaptureThreadLocal = 1;
constexpr unsigned kRecordExternal = 1;
constexpr int kJitErrorLogBuffer = 5;
constexpr int kJitErrorLogBufferBytes = 6;

// X(member, symbol, parameters)
#define DEEPJIT_CUDA_DRIVER_TABLE(X)                                                                                 \
  X(init, cuInit, (unsigned))                                                                                        \
  X(driver_version, cuDriverGetVersion, (int*))                                                                      \
  X(error_name, cuGetErrorName, (Result, const char**))                                                              \
  X(error_text, cuGetErrorString, (Result, const char**))                                                            \
  X(device_count, cuDeviceGetCount, (int*))                                                                          \
  X(device_get, cuDeviceGet, (DeviceNumber*, int))                                                                   \
  X(device_name, cuDeviceGetName, (char*, int, DeviceNumber))                                                        \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, DeviceNumber))                                               \
  X(device_memory, cuDeviceTotalMem_v2, (size_t*, DeviceNumber))                                                     \
  X(context_retain, cuDevicePrimaryCtxRetain, (Context*, DeviceNumber))                                              \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (DeviceNumber))                                                   \
  X(context_push, cuCtxPushCurrent_v2, (Context))                                                                    \
  X(context_pop, cuCtxPopCurrent_v2, (Context*))                                                                     \
  X(memory_info, cuMemGetInfo_v2, (size_t*, size_t*))                                                                \
  X(memory_alloc, cuMemAlloc_v2, (Address*, size_t))                                                                 \
  X(memory_free, cuMemFree_v2, (Address))                                                                            \
  X(host_alloc, cuMemAllocHost_v2, (void**, size_t))                                                                 \
  X(host_free, cuMemFreeHost, (void*))                                                                               \
  X(copy_in, cuMemcpyHtoDAsync_v2, (Address, const void*, size_t, StreamHandle))                                     \
  X(copy_out, cuMemcpyDtoHAsync_v2, (void*, Address, size_t, StreamHandle))                                          \
  X(copy, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, StreamHandle))                                            \
  X(fill, cuMemsetD8Async, (Address, unsigned char, size_t, StreamHandle))                                           \
  X(stream_create, cuStreamCreate, (StreamHandle*, unsigned))                                                        \
  X(stream_destroy, cuStreamDestroy_v2, (StreamHandle))                                                              \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned, int*, void**, Address))                                   \
  X(stream_synchronize, cuStreamSynchronize, (StreamHandle))                                                         \
  X(stream_wait, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                                           \
  X(begin_capture, cuStreamBeginCapture_v2, (StreamHandle, int))                                                     \
  X(end_capture, cuStreamEndCapture, (StreamHandle, GraphHandle*))                                                   \
  X(event_create, cuEventCreate, (EventHandle*, unsigned))                                                           \
  X(event_destroy, cuEventDestroy_v2, (EventHandle))                                                                 \
  X(event_record, cuEventRecordWithFlags, (EventHandle, StreamHandle, unsigned))                                     \
  X(event_synchronize, cuEventSynchronize, (EventHandle))                                                            \
  X(event_elapsed, cuEventElapsedTime, (float*, EventHandle, EventHandle))                                           \
  X(module_load, cuModuleLoadDataEx, (ModuleHandle*, const void*, unsigned, int*, void**))                           \
  X(module_unload, cuModuleUnload, (ModuleHandle))                                                                   \
  X(module_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))                              \
  X(function_set, cuFuncSetAttribute, (FunctionHandle, int, int))                                                    \
  X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, FunctionHandle, int, size_t))                     \
  X(launch, cuLaunchKernel,                                                                                          \
    (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**,     \
     void**))                                                                                                        \
  X(map_tiled, cuTensorMapEncodeTiled,                                                                               \
    (void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int, int, int, \
     int))                                                                                                           \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (GraphExec*, GraphHandle, unsigned long long))                   \
  X(graph_update, cuGraphExecUpdate_v2, (GraphExec, GraphHandle, GraphUpdate*))                                      \
  X(graph_upload, cuGraphUpload, (GraphExec, StreamHandle))                                                          \
  X(graph_launch, cuGraphLaunch, (GraphExec, StreamHandle))                                                          \
  X(graph_destroy, cuGraphDestroy, (GraphHandle))                                                                    \
  X(graph_exec_destroy, cuGraphExecDestroy, (GraphExec))

struct Driver {
#define X(member, symbol, parameters) Result(*member) parameters = nullptr;
  DEEPJIT_CUDA_DRIVER_TABLE(X)
#undef X
  std::string file;  // where it was found
  int version = 0;   // 13000 for 13.0
};

const Driver& driver();
// The driver's own version, "580.95.05", as its file's name has it; "" where it does not.
std::string file_version();

// Throws the Error that `result` stands for; `what` says what was tried.
void check(Result result, const char* what);

}  // namespace deepjit::device::cuda
