// cuDNN 9's backend interface (operation graphs) as far as it is used here, found at run time: own declarations, no
// headers of cuDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace deepjit::cudnn {

using Status = int;
struct HandleObject;
using Handle = HandleObject*;
using Object = void*;  // a descriptor

// Numbers of the library's enums.
constexpr Status kSuccess = 0;
constexpr Status kHostAllocationFailed = 4003, kDeviceAllocationFailed = 4004;

// Types of attributes.
constexpr int kTypeHandle = 0, kTypeDataType = 1, kTypeBoolean = 2, kTypeInt64 = 3, kTypeFloat = 4, kTypePointer = 6;
constexpr int kTypeConvMode = 7, kTypeHeurMode = 8, kTypeKnob = 9, kTypeNanMode = 10, kTypeNumericalNote = 11;
constexpr int kTypePointwiseMode = 14, kTypeObject = 15, kTypeResampleMode = 21, kTypePaddingMode = 22;
constexpr int kTypeChar = 24;

// Types of descriptors.
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kHeuristics = 4, kExecutionPlan = 5;
constexpr int kKnobChoice = 7, kOpConvForward = 10, kOpConvBackwardData = 12, kOpPointwise = 13, kOperationGraph = 15;
constexpr int kVariantPack = 16, kTensor = 17, kMatmul = 18, kOpMatmul = 19, kResample = 24, kOpResampleForward = 25;
constexpr int kOpAttentionForward = 41;  // since cuDNN 9.13

// Attributes.
constexpr int kPointwiseMode = 0, kPointwiseMath = 1, kPointwiseNan = 2, kReluLower = 3, kReluUpper = 4, kReluSlope = 5;
constexpr int kEluAlpha = 6, kSoftplusBeta = 7, kSwishBeta = 8;
constexpr int kConvType = 100, kConvMode = 101, kConvDilations = 102, kConvStrides = 103, kConvPadsEnd = 104;
constexpr int kConvPadsBegin = 105, kConvSpatial = 106;
constexpr int kHeurMode = 200, kHeurGraph = 201, kHeurResults = 202;
constexpr int kConfigEngine = 300, kConfigKnobs = 302;
constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402, kPlanJson = 405;
constexpr int kKnobType = 600, kKnobValue = 601;
constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConv = 702, kForwardW = 703, kForwardX = 704;
constexpr int kForwardY = 705;
constexpr int kBackwardAlpha = 706, kBackwardBeta = 707, kBackwardConv = 708, kBackwardW = 709, kBackwardDx = 710;
constexpr int kBackwardDy = 711;
constexpr int kOpPointwiseDesc = 750, kOpPointwiseX = 751, kOpPointwiseB = 752, kOpPointwiseY = 753;
constexpr int kGraphHandle = 800, kGraphOps = 801;
constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorDims = 902, kTensorStrides = 903, kTensorId = 906;
constexpr int kTensorVirtual = 907, kTensorByValue = 908;
constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
constexpr int kEngineGraph = 1300, kEngineIndex = 1301, kEngineNotes = 1303;
constexpr int kMatmulType = 1500, kOpMatmulA = 1520, kOpMatmulB = 1521, kOpMatmulC = 1522, kOpMatmulDesc = 1523;
constexpr int kResampleMode = 1700, kResampleMath = 1701, kResampleSpatial = 1702, kResamplePadsEnd = 1703;
constexpr int kResamplePadsBegin = 1704, kResampleStrides = 1705, kResampleWindow = 1706, kResampleNan = 1707;
constexpr int kResamplePadding = 1708, kOpResampleX = 1710, kOpResampleY = 1711, kOpResampleDesc = 1716;
constexpr int kAttentionQ = 2800, kAttentionK = 2801, kAttentionV = 2802, kAttentionO = 2803, kAttentionScale = 2805;

// Values.
constexpr int kFloat32 = 0, kFloat16 = 2, kBfloat16 = 9;
constexpr int kCrossCorrelation = 1;
constexpr int kPropagateNan = 1;
constexpr int kPadWithZero = 0, kPadWithNothing = 1;  // the latter: minus infinity
constexpr int kHeurB = 1, kHeurFallback = 2, kHeurA = 3;
constexpr int kNoteTensorCore = 0, kNoteDownConverts = 1, kNoteReducedSums = 2, kNoteNondeterministic = 4;

// X(member, symbol, parameters); all return a status.
#define DEEPJIT_CUDNN_TABLE(X)                                                          \
  X(create, cudnnCreate, (Handle*))                                                     \
  X(destroy, cudnnDestroy, (Handle))                                                    \
  X(set_stream, cudnnSetStream, (Handle, void*))                                        \
  X(object_create, cudnnBackendCreateDescriptor, (int, Object*))                        \
  X(object_destroy, cudnnBackendDestroyDescriptor, (Object))                            \
  X(object_finalize, cudnnBackendFinalize, (Object))                                    \
  X(object_set, cudnnBackendSetAttribute, (Object, int, int, int64_t, const void*))     \
  X(object_get, cudnnBackendGetAttribute, (Object, int, int, int64_t, int64_t*, void*)) \
  X(execute, cudnnBackendExecute, (Handle, Object, Object))

struct Library {
#define X(member, symbol, parameters) Status(*member) parameters = nullptr;
  DEEPJIT_CUDNN_TABLE(X)
#undef X
  size_t (*number)() = nullptr;
  const char* (*status_name)(Status) = nullptr;
  void (*last_error)(char*, size_t) = nullptr;
  std::string file;     // where it was found
  std::string version;  // "9.19.0"
};

// Loaded once a process, and never unloaded; nullptr where there is none.
const Library* find_library();
// LIBRARY_MISSING where there is none.
const Library& library();
// What to say, and what to do, where there is none.
constexpr const char* kMissing = "cuDNN is not installed (libcudnn.so.9)";
constexpr const char* kInstall = "install it with pip install nvidia-cudnn-cu13, or from NVIDIA's cuDNN packages";

// Throws the Error that `status` stands for: INTERNAL with the library's own words for what it does not support; `what`
// says what was tried.
void check(Status status, const char* what);

}  // namespace deepjit::cudnn
