#include "runtime/background.h"

#include <signal.h>
#include <unistd.h>

#include <deque>

namespace deepjit {

struct BackgroundWorker::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool stop = false;

  void work() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return stop || !jobs.empty(); });
        if (stop) return;
        job = std::move(jobs.front());
        jobs.pop_front();
      }
      job();
    }
  }
};

namespace {

// Signals are for the threads of the program that uses the library.
std::unique_ptr<std::thread> start(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = std::make_unique<std::thread>(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

BackgroundWorker::~BackgroundWorker() {
  if (thread_ == nullptr) return;
  if (process_ != getpid()) {
    (void)thread_.release();  // it is not here
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(queue_->mutex);
    queue_->stop = true;
  }
  queue_->changed.notify_all();
  thread_->join();
}

void BackgroundWorker::post(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (thread_ == nullptr || process_ != getpid()) {
    (void)thread_.release();
    queue_ = std::make_shared<Queue>();
    process_ = getpid();
    thread_ = start([queue = queue_] { queue->work(); });
  }
  {
    const std::lock_guard<std::mutex> queue_lock(queue_->mutex);
    queue_->jobs.push_back(std::move(job));
  }
  queue_->changed.notify_one();
}

}  // namespace deepjit
