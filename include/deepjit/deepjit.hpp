// deepjit's C++20 API: build an engine from an ONNX model, save it, load it, run it.
//
//   deepjit::Engine engine = deepjit::build("model.onnx");
//   deepjit::Context context = engine.create_context();
//   const float x[6] = {1, 2, 3, 4, 5, 6};
//   for (const deepjit::Output& y : context.run({{"x", deepjit::DataType::FLOAT32, {2, 3}, x}})) use(y);
//
// Every failure is a deepjit::Error; its code is stable (docs/errors.md). An Engine is immutable: copies share it and
// threads may share it. A Context belongs to one thread at a time: a second one gets CONCURRENT_USE (801). All tensors
// are dense and row-major, in host memory or on the engine's GPU. Sizes are bytes, times are as their names say (_us,
// _s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepjit {
inline namespace v1 {

// Element types, numbered as ONNX's TensorProto.DataType. Types of fewer than eight bits take one byte an element;
// floats of 16 bits or fewer are raw bits; STRING elements are std::string objects. A value may also be a SEQUENCE of n
// tensors, of shape {n}, or an OPTIONAL tensor or sequence, of shape {0} when it is empty and {1} otherwise: their
// elements are Input objects in an Input and Output objects in an Output, whose names say nothing.
enum class DataType : int32_t {
  UNDEFINED = 0,
  FLOAT32 = 1,
  UINT8 = 2,
  INT8 = 3,
  UINT16 = 4,
  INT16 = 5,
  INT32 = 6,
  INT64 = 7,
  STRING = 8,
  BOOL = 9,
  FLOAT16 = 10,
  FLOAT64 = 11,
  UINT32 = 12,
  UINT64 = 13,
  BFLOAT16 = 16,
  FLOAT8E4M3FN = 17,
  FLOAT8E4M3FNUZ = 18,
  FLOAT8E5M2 = 19,
  FLOAT8E5M2FNUZ = 20,
  UINT4 = 21,
  INT4 = 22,
  FLOAT4E2M1 = 23,
  FLOAT8E8M0 = 24,
  UINT2 = 25,
  INT2 = 26,
  SEQUENCE = 100,
  OPTIONAL = 101,
};

// "float32", "int4", "float8e4m3fn", ...
std::string data_type_name(DataType dtype);
// Bytes of one element; 0 for STRING, SEQUENCE, OPTIONAL and UNDEFINED.
size_t data_type_size(DataType dtype);

// A failure. what() is "error[E203 SHAPE_MISMATCH]: message", and "hint: ..." on a second line when there is a hint.
class Error : public std::exception {
 public:
  Error(int code, std::string message, std::string hint = "");
  ~Error() override;

  int code() const noexcept { return code_; }                       // 203
  const std::string& name() const noexcept { return name_; }        // "SHAPE_MISMATCH"
  const std::string& message() const noexcept { return message_; }  // one line
  const std::string& hint() const noexcept { return hint_; }        // what to do, or empty; may have several lines
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int code_;
  std::string name_;
  std::string message_;
  std::string hint_;
  std::string text_;
};

// One dimension of a declared shape: a constant, or an expression over the model's symbols ("N", "(H-1)//2+1").
struct Dimension {
  int64_t value = -1;  // -1 when it is not constant
  std::string text;    // always: "3", "N"
};

// Bounds of an input's shape. An engine accepts shapes in [min, max] and is tuned at opt.
struct ShapeRange {
  std::vector<int64_t> min, opt, max;
};

// What an engine says about one input or output.
struct TensorInfo {
  std::string name;
  DataType dtype = DataType::UNDEFINED;
  bool ranked = true;  // false: even the rank depends on the run
  std::vector<Dimension> shape;
  bool optional = false;            // an input with a default value
  bool has_range = false;           // an input built with a range
  ShapeRange range;                 // of several the first; Engine::ranges() has all
  std::vector<TensorInfo> element;  // of a SEQUENCE or OPTIONAL: one entry, what it holds
};

// Where a tensor's memory lies: on the host, or on the device that the engine runs on.
enum class MemoryKind : int32_t { HOST = 0, DEVICE = 1 };

// A tensor to run on. `data` is read during run() only, by run_async() until the stream has come past the run.
struct Input {
  std::string name;
  DataType dtype = DataType::UNDEFINED;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  MemoryKind memory = MemoryKind::HOST;
};

// Device memory that a run gave for an output; a handle, empty where there is none. The memory is kept while anyone
// holds a handle, whatever becomes of context and engine; the last one that lets go may wait for the device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit operator bool() const { return block_ != nullptr; }
  void* data() const;
  size_t bytes() const;
  std::string device() const;  // "cuda:0"
  // To be called before work on other streams may use it: then no later run is given the same memory.
  void share() const;
  // Of run_async(): the stream that writes it; none when the run was waited for.
  std::optional<void*> stream() const;
  void wait() const;                        // on the host
  void read(void* to, size_t bytes) const;  // waits, and copies to the host
  void wait_on(void* stream) const;         // what that stream is given from now on comes after the run
  struct Block;
  explicit DeviceMemory(std::shared_ptr<Block> block) : block_(std::move(block)) {}

 private:
  std::shared_ptr<Block> block_;
};

// A result. `data` is valid until the context's next run or end, unless an allocator or a target gave it, or as long as
// anyone holds `owner`.
struct Output {
  std::string name;
  DataType dtype = DataType::UNDEFINED;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  MemoryKind memory = MemoryKind::HOST;
  DeviceMemory owner;
};

// Memory of the caller for one output, of the type and shape that the output is going to have: ARGUMENT otherwise.
struct Target {
  std::string name;
  DataType dtype = DataType::UNDEFINED;
  std::vector<int64_t> shape;
  void* data = nullptr;
  MemoryKind memory = MemoryKind::HOST;
};

// Streams are those of the device's own library: a CUstream or cudaStream_t; nullptr is CUDA's legacy default stream.
struct RunOptions {
  std::vector<Target> outputs;     // the other outputs are the context's
  bool outputs_on_device = false;  // of those: leave them on the device
  std::optional<void*> stream;     // run on this one instead of the context's own
  std::vector<void*> after;        // what these were given so far comes before the run
};

// Bytes of memory that an engine and one context of it take, on the device where it runs on one.
struct MemoryUse {
  size_t constants = 0;  // shared by all contexts of an engine
  size_t values = 0;     // between steps
  size_t scratch = 0;    // of kernels
  size_t inputs = 0;     // copies there; 0 for inputs that lie there already
  size_t outputs = 0;
  size_t total() const { return constants + values + scratch + inputs + outputs; }
};

// Gives memory for output number `index` (order of Engine::outputs()): at least 16-byte aligned, of
// product(shape) * data_type_size(dtype) bytes; nullptr leaves it to the context. Never called for outputs of STRING,
// SEQUENCE and OPTIONAL.
using OutputAllocator = std::function<void*(size_t index, DataType dtype, std::span<const int64_t> shape)>;

struct BuildOptions {
  std::string device = "cpu";                // or "cuda", "cuda:N"
  std::string targets;                       // GPUs to compile for, "sm_80,sm_90"; empty: the one that is here
  bool device_only = false;                  // of a GPU: a step that would run on the CPU is an error
  std::string precision = "fp32";            // on a GPU also "tf32", "fp16", "bf16": docs/precision.md
  int threads = 0;                           // for tuning and running; 0: all cores
  int level = 3;                             // 0 (no pass) to 3 (all passes); 0 and 1 measure nothing on a GPU
  std::map<std::string, ShapeRange> ranges;  // by input name
  // Of an engine with several ranges, each tuned by itself (docs/ranges.md): those of an input after its first. The
  // k-th ranges of all inputs belong together; an input that has none here has its one range in all.
  std::map<std::string, std::vector<ShapeRange>> more_ranges;
  std::vector<std::string> disable;       // names of passes to leave out
  std::string tune_cache;                 // folder for measured choices; empty: none
  std::string lock;                       // lockfile: read when it exists, else written after the build; or empty
  std::string force_tactic;               // "provider" or "provider:variant": taken wherever it is offered
  double tolerance = 0;                   // largest relative error of a kernel; 0: 1e-5, for 16-bit floats 1e-3
  double budget_s = 0;                    // time for tuning; 0: no limit
  bool tune = true;                       // false: the reference implementation everywhere
  std::vector<std::vector<Input>> calib;  // sample inputs, a set for each run: which values fit fp16 or bf16
  std::string model_folder;               // where external data may lie; empty: the folder of the model's file

  // Called from the building thread. What they throw ends the build and passes through it.
  std::function<void(const std::string& stage, size_t done, size_t total)> progress;
  std::function<void(const std::string& line)> log;
};

// For Engine::tune().
struct TuneOptions {
  std::string device;                        // one of the engine's kind, such as "cuda:1"; empty: the engine's own
  std::string targets;                       // GPUs to compile for; empty: the one that is here
  int threads = 0;                           // 0: the engine's, at most as many as there are cores
  std::map<std::string, ShapeRange> ranges;  // by input name; within what the engine was built for
  std::string tune_cache;                    // these as for a build
  std::string lock;
  std::string force_tactic;
  double tolerance = 0;
  double budget_s = 0;
  std::function<void(const std::string& stage, size_t done, size_t total)> progress;
  std::function<void(const std::string& line)> log;
};

// What a build did. An engine that was loaded knows only the arena's sizes.
struct BuildReport {
  struct Stage {
    std::string name;
    double seconds = 0;
  };
  // One pass over the graph; disabling it by this name must not change any result.
  struct Pass {
    std::string name;
    int changed = 0;        // runs that changed the graph
    int nodes_removed = 0;  // negative: added
    double seconds = 0;
  };
  std::vector<Stage> stages;
  std::vector<Pass> passes;
  double seconds = 0;
  int nodes_before = 0, nodes_after = 0;  // of the graph, around the passes
  size_t steps_measured = 0;              // distinct steps that were timed
  size_t steps_reused = 0;                // taken from the lockfile or the cache
  size_t steps_out_of_budget = 0;         // left at the reference because time was up
  int kernels_compiled = 0;               // generated kernels that were compiled for this build
  int kernels_loaded = 0;                 // ... that the tuning cache had
  double compile_seconds = 0;             // spent compiling them, over all threads
  // Of a GPU that was there: kinds of steps whose kernels reach less than 30 % of what its memory and its arithmetic
  // allow, and such as look faster than that, a line each.
  std::vector<std::string> flagged, suspicious;
  size_t arena_bytes = 0;        // intermediate values at the largest shapes
  size_t arena_lower_bound = 0;  // what no arena could go below
  std::vector<std::string> warnings;
};

// One launch of an engine.
struct StepInfo {
  std::string name;
  std::string op;
  std::string tactic;                  // "provider:variant"
  double time_us = 0;                  // measured at build; 0 when it was not timed
  double max_error = 0;                // largest relative error against the reference at build
  std::vector<std::string> origins;    // the model's nodes it stands for
  std::vector<std::string> user_ops;   // those of them that are ops of the user: "my.ops::Swish"
  std::vector<std::string> precision;  // the types it computes in, and why: "fp16: convolution"; empty for fp32
};

// An edge between two kernels: a value that goes through memory, and why. docs/why.md has the rules.
struct WhyEntry {
  std::string value, type;
  std::string producer, producer_op;  // the node that writes it
  std::string consumer, consumer_op;  // the node that reads it
  std::string rule;                   // "dims-not-equal"; stable
  std::string reason;                 // in words, with this edge's dims and types
  std::string fix;                    // the smallest change that would lift it
  std::string bytes;                  // written and read, as an expression; "?" when nobody can tell
  int64_t bytes_at_opt = -1;          // the same at the tuned shapes; -1: not known
  int launches = 0;                   // that would be saved
  std::vector<std::string> producer_user_ops, consumer_user_ops;  // as in StepInfo
};

// How to profile; docs/profile.md.
struct ProfileOptions {
  int iterations = 0;    // profiled runs; 0: as many as fit into `seconds`
  double seconds = 2;    // for runs with and without profiling
  double warm_up_s = 1;  // at least, before
  int contexts = 1;      // that run at once; the first is profiled
  int threads = 0;       // of each; 0: the engine's
};

// What an engine's steps take, and what else a run's time is made of. Times are of one run: P50 and P95 over the runs,
// and the mean over the half of them whose wall times lie in the middle, which adds up.
struct Profile {
  struct Times {
    double p50_us = 0, p95_us = 0, typical_us = 0;
  };
  struct Step {
    int step = -1;  // index in Engine::steps(); -1: copies of outputs that are inputs or constants
    std::string op, name, tactic;
    std::vector<std::string> origins;          // the model's nodes it stands for
    std::vector<std::string> inputs, outputs;  // "float32[1,64]", of its last call
    double calls = 0, launches = 0;            // a run
    Times times;                               // without steps of its bodies
    double share = 0;                          // of the typical wall time
    double bytes = 0, flops = 0, gb_s = 0, gflop_s = 0;
    double of_roofline = -1;      // 0 to 1; -1 where no limit was measured that holds for it
    std::string bound;            // "memory" or "compute"; empty without a roofline
    double time_at_build_us = 0;  // 0: it was not timed
  };
  struct Part {
    std::string name;  // "steps", "copy in", "copy out", "gaps", "host", "profiling"
    Times times;
    double share = 0;
  };
  std::string device, method;  // method: "clock", "cupti" or "events"
  std::string note;            // why not a better method, or empty
  int threads = 0, contexts = 1;
  size_t runs = 0, launches = 0;
  Times wall, unprofiled;   // of runs with and without profiling
  std::vector<Step> steps;  // the longest first
  std::vector<Part> parts;  // their typical times add up to that of the wall
  std::string json;         // all of it and more, as `deepjit profile --json` prints it
  std::string trace;        // one run as Chrome's trace events, for ui.perfetto.dev
};

class Engine;

// Runs an engine. After the first run at a shape, a run at that shape allocates no memory of its own, unless values are
// strings, sequences or optionals.
class Context {
 public:
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  // Runs once; inputs by name in any order. Throws INPUT_NAME (501), INPUT_DTYPE (502), INPUT_SHAPE (503),
  // OUT_OF_RANGE (504), INDEX_RANGE (505), CONCURRENT_USE (801), AFTER_FORK (802) and others. A context is good for
  // use after any of them. The outputs are in the order of Engine::outputs() and valid until the next run.
  const std::vector<Output>& run(const std::vector<Input>& inputs, const OutputAllocator& allocate = nullptr);
  // The same with outputs in memory of the caller, or left on the device, or on a stream of the caller. Tensors of the
  // device are used where they lie; docs/device_tensors.md says what that asks of addresses and order. ARGUMENT (804)
  // for memory that is not where it is said to be.
  const std::vector<Output>& run(const std::vector<Input>& inputs, const RunOptions& options);
  // Enqueues a run on `stream` and returns. Inputs and targets lie on the device or in page-locked host memory, and
  // stay as they are until the stream has come past the run; outputs without a target stay on the device. The next run
  // of this context comes after this one, on any stream. Errors that are known now are thrown, those of the device
  // later.
  const std::vector<Output>& run_async(const std::vector<Input>& inputs, void* stream, const RunOptions& options = {});
  // Waits for what run_async() enqueued, and until the launches of the runs so far are ready to be replayed.
  void synchronize();
  // The stream of runs that name none; nullptr on the CPU.
  void* stream() const;

  // Bytes held for intermediate values and outputs.
  size_t memory_bytes() const;
  // Those of them that lie on the device; 0 on the CPU.
  size_t device_bytes() const;
  int threads() const;

 private:
  friend class Engine;
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Engine {
 public:
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  // The model's metadata, the build's options and versions.
  const std::map<std::string, std::string>& metadata() const;
  // `threads` 0 takes the number of build() or load().
  Context create_context(int threads = 0) const;

  // Writes the engine file: afterwards `path` holds the old file or the whole new one. Throws DISK_FULL (603).
  void save(const std::string& path) const;
  // The same bytes in memory.
  std::vector<std::byte> serialize() const;

  int threads() const;
  // "cpu", or the device that contexts run on: "cuda:0".
  std::string device() const;
  // What a context is going to take at these input shapes, by input name; of an input that is not among them, at the
  // largest of its range. ARGUMENT when that leaves a dimension open.
  MemoryUse memory_use(const std::map<std::string, std::vector<int64_t>>& shapes = {}) const;
  // Bytes of the constants.
  size_t weight_bytes() const;
  const BuildReport& report() const;
  // The shape ranges that it was built with, each by input name; a run takes the one that its shapes lie in.
  std::vector<std::map<std::string, ShapeRange>> ranges() const;
  // The steps as they were tuned for one of the ranges. ARGUMENT when there is no such.
  std::vector<StepInfo> steps(size_t range = 0) const;
  // Every edge that is not inside a kernel, the largest first.
  std::vector<WhyEntry> why(size_t range = 0) const;
  // Runs it on these inputs, in a context of its own. Throws what a run throws, and ARGUMENT.
  Profile profile(const std::vector<Input>& inputs, const ProfileOptions& options = {}) const;
  // The same model with every kernel chosen anew by measuring on this machine: for an engine that was built without its
  // GPU, or on another machine. Its report tells what was measured. Throws DEVICE_MISSING (704) and the like where the
  // engine's kind of device is not here, ENGINE_INCOMPATIBLE (404) for a device of another kind, ARGUMENT.
  Engine tune(const TuneOptions& options = {}) const;
  // The chosen tactics as the text of a lockfile.
  const std::string& lock_text() const;
  // For people: inputs, outputs, steps with tactics and times, the graph before and after the passes.
  std::string inspect() const;

  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

// Builds an engine from an ONNX file, or from the bytes of one (external data then needs options.model_folder).
// Throws 1xx (bytes), 2xx (the model's meaning), 3xx (files and external data), ARGUMENT (804) for a bad option.
Engine build(const std::string& model_path, const BuildOptions& options = {});
Engine build(std::span<const std::byte> model, const BuildOptions& options = {});

// Loads a saved engine; its constants are used from the mapped file. `threads` 0 keeps the build's number.
// Throws FILE_NOT_FOUND (304) and 4xx (not an engine, another version, damaged, built for another device).
// `device` picks one of the kind that the engine was built for, such as "cuda:1".
Engine load(const std::string& engine_path, int threads = 0, const std::string& device = "");
Engine load(std::span<const std::byte> engine, int threads = 0, const std::string& device = "");

// A mistake in a model, or in the settings it is going to be built and run with. docs/doctor.md has the rules.
struct Finding {
  std::string rule;              // "DJ201"; stable
  std::string name;              // "transpose-pair"
  std::string severity;          // "note", "warning" or "error"
  std::string node, op, value;   // where; empty when it is about none
  std::string message;           // what is wrong there
  std::string title, why, hint;  // of the rule: what, why it hurts, what to do
  size_t nodes = 0;              // what it costs: nodes,
  int64_t bytes = 0;             // bytes,
  double time_us = 0;            // and measured time; 0 when it was not measured
  bool fixable = false;          // whether `deepjit doctor --fix` mends it
};

struct DoctorOptions {
  std::vector<std::string> settings;  // each JSON, or a trtexec command line
  std::vector<std::string> traffic;   // shapes that will be fed: "x=1x3x224x224,x=8x3x640x640"
  std::vector<std::string> ignore;    // rules to leave out
  bool measure = false;               // builds the model for the CPU and times the nodes of each finding
  std::string model_folder;           // where external data may lie; empty: the folder of the model's file
};

// What is wrong with an ONNX model, the worst first. Throws 1xx (no ONNX model), FILE_NOT_FOUND, ARGUMENT, INPUT_NAME.
std::vector<Finding> diagnose(const std::string& model_path, const DoctorOptions& options = {});
std::vector<Finding> diagnose(std::span<const std::byte> model, const DoctorOptions& options = {});

// "0.1.0"
std::string version();

}  // namespace v1
}  // namespace deepjit
