// A thread for what need not be done at once. It starts with the first job and ends with the object.
//
// Jobs run one after another, in order, and throw nothing. In a forked child, where the thread is not, the next job
// starts another one; those of before are lost.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace deepjit {

class BackgroundWorker {
 public:
  BackgroundWorker() = default;
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;
  // Waits for the job that is under way; the others never run.
  ~BackgroundWorker();

  void post(std::function<void()> job);

 private:
  struct Queue;
  std::mutex mutex_;
  std::shared_ptr<Queue> queue_;
  std::unique_ptr<std::thread> thread_;
  pid_t process_ = 0;
};

// A mutex that serves threads in the order in which they come: a loop that locks it again and again keeps nobody out.
class FairMutex {
 public:
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t mine = next_++;
    changed_.wait(lock, [&] { return serving_ == mine; });
  }
  void unlock() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++serving_;
      if (serving_ == next_) return;  // nobody waits
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, serving_ = 0;
};

}  // namespace deepjit
