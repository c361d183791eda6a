// A machine that kernels run on: memory, streams, events, code, graphs. One folder a kind: cpu, cuda, null.
//
// A device is opened by name and shared: open() gives the same object while anyone holds it. Streams, events, modules,
// graphs and memory must not outlive it. A stream runs what it is given in order, later; synchronize() waits for it.
// A stream belongs to one thread at a time, a device to all. Failures are Error: DEVICE_OOM, DEVICE_LOST (nothing on
// the device can be used any more), DRIVER_MISMATCH, LIBRARY_MISSING, DEVICE_MISSING. Destructors never throw.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace deepjit::device {

struct Info {
  std::string name;            // as open() takes it, with the number: "cuda:0"
  std::string kind;            // "cpu", "cuda", "null"
  std::string model;           // "NVIDIA H200"
  std::string driver;          // version and file of what drives it; empty on the CPU
  std::string driver_version;  // "CUDA 13.0, 580.95.05"; empty on the CPU
  int architecture = 0;        // of its code, such as 90; 0: it loads none
  int processors = 1;          // multiprocessors of a GPU
  int threads_per_block = 1024;
  size_t shared_bytes_per_block = 0;  // the most that a block may ask for
  size_t shared_bytes_per_processor = 0;
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  // The largest clocks and the width of its memory; 0: not told.
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
};

// A kernel's argument that tells its tensor copies where rows of 16-bit elements lie: the driver's own format.
using RowMap = std::array<uint64_t, 16>;

// The shape of one launch.
struct Launch {
  uint32_t blocks = 1;
  uint32_t threads = 1;  // of a block
  size_t shared_bytes = 0;
  bool maps = false;  // the last 16 words of the arguments are one argument, a RowMap

  // Of what a driver takes: where each argument lies.
  size_t arguments_in(std::span<const uint64_t> words) const {
    return maps ? words.size() - std::tuple_size_v<RowMap> + 1 : words.size();
  }
};

// Where an address lies: in host memory that nothing is known of, in page-locked host memory, in memory of this device
// (managed memory too), or of another one.
enum class Where { PAGEABLE, PINNED, HERE, ELSEWHERE };

class Event {
 public:
  virtual ~Event() = default;
  // Waits until its stream has passed its last record; does not wait when there was none.
  virtual void synchronize() = 0;
};

class Graph {
 public:
  virtual ~Graph() = default;
};

// What a stream captured. A graph of it may be made on any thread; that takes far longer than to capture.
class Recording {
 public:
  virtual ~Recording() = default;
  // Once. `older`, a graph that has been made before, becomes this one when it has the same nodes and only addresses
  // and numbers differ, which is much faster than a new one; its launches that are under way are not touched. Nobody
  // may launch it meanwhile.
  virtual std::unique_ptr<Graph> make(std::unique_ptr<Graph> older = nullptr) = 0;
};

class Function {
 public:
  virtual ~Function() = default;
  // Blocks of this shape that one processor holds at once; 0 when a block does not fit.
  virtual int blocks_per_processor(uint32_t threads, size_t shared_bytes) const = 0;
};

class Module {
 public:
  virtual ~Module() = default;
  // Lives as long as the module. Throws ENGINE_RANGE when it has no such function.
  virtual const Function& function(const std::string& name) = 0;
};

// Between begin_capture() and end_recording() nothing runs: copies, fills, launches and records of events become the
// nodes of a graph, and other calls are not allowed. Host memory that a copy names must stay until the stream is past
// it, and as long as a graph that holds the copy; an event too.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;   // host to device
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;  // device to host
  virtual void copy(void* to, const void* from, size_t bytes) = 0;      // device to device
  virtual void fill(void* to, uint8_t value, size_t bytes) = 0;
  // Every argument is eight bytes: an address or an integer.
  virtual void launch(const Function& function, const Launch& shape, std::span<const uint64_t> arguments) = 0;
  virtual void record(Event& event) = 0;
  // What comes later on this stream runs when the stream of the event has passed its last record, if there was one.
  virtual void wait(const Event& event) = 0;
  virtual void synchronize() = 0;
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  // The graph of it at once.
  std::unique_ptr<Graph> end_capture(std::unique_ptr<Graph> older = nullptr) {
    return end_recording()->make(std::move(older));
  }
  virtual void launch(const Graph& graph) = 0;
  // As the device's own library knows it: a CUstream.
  virtual void* handle() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Info& info() const = 0;
  virtual size_t free_bytes() const = 0;
  // At least 256-byte aligned. DEVICE_OOM when there is no more; free(nullptr) does nothing.
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  // Host memory that copies run fastest from and to.
  virtual void* allocate_host(size_t bytes) = 0;
  virtual void free_host(void* memory) noexcept = 0;
  virtual Where locate(const void* address) const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // A stream of somebody else by its handle(): it must outlive the one that is made, which does not destroy it.
  virtual std::unique_ptr<Stream> borrow_stream(void* handle) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Between two events that their streams have passed.
  virtual double elapsed_us(const Event& from, const Event& to) = 0;
  // A map of rows for copies of `box_rows` rows of 64 elements each, which lie in the 128-byte swizzle where they
  // arrive; zeros beyond the rows' ends. Rows lie `pitch` bytes apart. Address and pitch are multiples of 16.
  virtual RowMap map_rows(const void* address, int64_t rows, int64_t columns, int64_t pitch, int64_t box_rows) const;
  // Code for this device's architecture; ENGINE_INCOMPATIBLE when it is for another.
  virtual std::shared_ptr<Module> load(std::span<const uint8_t> code) = 0;

  // Between the two, what libraries of the device's kind call the current device is this one; see Entered.
  virtual void enter() {}
  virtual void leave() noexcept {}
  // What a library keeps for a device, such as its handle: made once a key, and destroyed before the device, while it
  // is the current one. In a forked child, where nothing of the device works, it is left alone.
  std::shared_ptr<void> keep(const std::string& key, const std::function<std::shared_ptr<void>()>& make);

 protected:
  void drop_kept() noexcept;
  void leave_kept() noexcept;

 private:
  std::mutex kept_mutex_;
  std::map<std::string, std::shared_ptr<void>> kept_;
};

// Makes the device the current one of this thread for its libraries, and then what was current before.
class Entered {
 public:
  explicit Entered(Device& device) : device_(device) { device_.enter(); }
  ~Entered() { device_.leave(); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Device& device_;
};

// "cpu", "cuda", "cuda:1", "null" (a GPU that computes nothing, for tests; "null:80" has that architecture).
// ARGUMENT for another name, DEVICE_MISSING or LIBRARY_MISSING when the machine has no such device.
std::shared_ptr<Device> open(const std::string& name);
// "cuda" for "cuda:1"; checks the form only.
std::string kind_of(const std::string& name);

// What a machine has: every device that opens, and for kinds with none the reason.
struct Found {
  std::string name;
  std::shared_ptr<Device> device;
  std::string reason;  // why there is none
};
std::vector<Found> find_all();

// A block of device memory, or of host memory for copies, that only grows.
class Memory {
 public:
  enum class Kind { DEVICE, HOST };
  Memory(Device& device, Kind kind) : device_(&device), kind_(kind) {}
  Memory(Memory&& other) noexcept
      : device_(other.device_), kind_(other.kind_), data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(); }

  // At least `bytes` bytes; what it held is lost when it has to grow.
  void* ensure(size_t bytes);
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void release() noexcept;
  Device* device_;
  Kind kind_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace deepjit::device
