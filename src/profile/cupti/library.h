// CUPTI's activity API as far as it is used here, found at run time: own declarations, no headers of CUDA.
//
// Records are read at the offsets that they have had since CUDA 12.0; a library whose version is not known is not used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace deepjit::profile::cupti {

using Result = int;
constexpr Result kSuccess = 0;

// Kinds of records.
constexpr int kCopyKind = 1, kSetKind = 2, kKernelKind = 10;

// Where the fields of a record lie, by its kind.
constexpr size_t kKind = 0, kStart = 16, kEnd = 24;
constexpr size_t kKernelStream = 48, kKernelName = 104;
constexpr size_t kCopyStream = 40, kCopyWay = 4, kCopyBytes = 8;  // of memory sets too, all but the way
constexpr uint8_t kHostToDevice = 1, kDeviceToHost = 2;

using RequestBuffer = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

// X(member, symbol, parameters)
#define DEEPJIT_CUPTI_TABLE(X)                                                           \
  X(get_version, cuptiGetVersion, (uint32_t*))                                           \
  X(get_timestamp, cuptiGetTimestamp, (uint64_t*))                                       \
  X(register_callbacks, cuptiActivityRegisterCallbacks, (RequestBuffer, CompleteBuffer)) \
  X(enable, cuptiActivityEnable, (int))                                                  \
  X(disable, cuptiActivityDisable, (int))                                                \
  X(flush_all, cuptiActivityFlushAll, (uint32_t))                                        \
  X(next_record, cuptiActivityGetNextRecord, (uint8_t*, size_t, uint8_t**))              \
  X(dropped_records, cuptiActivityGetNumDroppedRecords, (void*, uint32_t, size_t*))

struct Library {
#define X(member, symbol, parameters) Result(*member) parameters = nullptr;
  DEEPJIT_CUPTI_TABLE(X)
#undef X
  std::string path;
  uint32_t version = 0;
};

// nullptr when it is not installed, with the reason in `why`.
const Library* find_library(std::string& why);

// Whether records of this version of the API have the fields above.
bool knows_version(uint32_t version);

}  // namespace deepjit::profile::cupti
