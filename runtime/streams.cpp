// Streams, events and time. All work is done when it is given, in the order in which it is given.
#include "connection.hpp"

#include "graphs.hpp"

#include <cstdio>
#include <ctime>
#include <dlfcn.h>
#include <sys/time.h>

namespace perfmodel {

namespace {

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    unsigned long long id = 0;
    Graph *captured = nullptr;
    cudaStream_t captured_from = nullptr;  // the stream at which the capture began
};

struct Event {
    unsigned flags = 0;
    bool recorded = false;
    double seconds = 0;
    Graph *captured = nullptr;
    cudaStream_t captured_from = nullptr;
};

std::map<cudaStream_t, Stream> &streams() {
    static auto *known = new std::map<cudaStream_t, Stream>{
        {nullptr, {}}, {cudaStreamLegacy, {}}, {cudaStreamPerThread, {}}};
    return *known;
}

Stream *stream_of(cudaStream_t handle) {
    auto found = streams().find(handle);
    return found == streams().end() ? nullptr : &found->second;
}

double device_time = 0;  // of all launches
double waited_time = 0;  // of it, what the host has waited for
long long simulation_time = 0;
std::string printed;  // by kernels, since the host last waited

Event *event_of(cudaEvent_t handle) { return reinterpret_cast<Event *>(handle); }

}  // namespace

double device_seconds() { return device_time; }
void add_device_seconds(double seconds) { device_time += seconds; }
void add_simulation_nanoseconds(long long nanoseconds) { simulation_time += nanoseconds; }

void add_printed(const std::string &text) { printed += text; }

void wait_for_device() {
    waited_time = device_time;
    if (printed.empty()) return;
    std::fwrite(printed.data(), 1, printed.size(), stdout);
    printed.clear();
}

cudaError_t enqueue(cudaStream_t handle, cudaGraphNodeType type, std::function<cudaError_t()> work) {
    Stream *stream = stream_of(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!stream->captured) return work();
    stream->captured->add(type, std::move(work));
    return cudaSuccess;
}

// ---- the clocks of the host: they stand still while the simulator works, and go on by the device's time when the host waits

namespace {
template <class F> F next(const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

int real_clock(clockid_t clock, timespec *time) {
    static auto real = next<int (*)(clockid_t, timespec *)>("clock_gettime");
    return real(clock, time);
}

long long shift_nanoseconds() { return (long long)(waited_time * 1e9) - simulation_time; }
}  // namespace

long long real_nanoseconds() {
    timespec now;
    real_clock(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

}  // namespace perfmodel

using namespace perfmodel;

EXPORTED int clock_gettime(clockid_t clock, timespec *time) noexcept {
    int status = real_clock(clock, time);
    if (status) return status;
    bool of_processor = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
    long long shift = of_processor ? (long long)(waited_time * 1e9) : shift_nanoseconds();
    long long now = time->tv_sec * 1000000000LL + time->tv_nsec + shift;
    time->tv_sec = now / 1000000000LL;
    time->tv_nsec = now % 1000000000LL;
    return 0;
}
EXPORTED int gettimeofday(struct timeval *time, void *) noexcept {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
EXPORTED clock_t clock(void) noexcept {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * CLOCKS_PER_SEC + now.tv_nsec / (1000000000LL / CLOCKS_PER_SEC);
}

// ---- streams

EXPORTED cudaError_t cudaStreamCreateWithPriority(cudaStream_t *made, unsigned flags, int priority) {
    Guard guard(lock());
    load_modules();
    if (!made) return result(cudaErrorInvalidValue);
    static unsigned long long count = 0;
    *made = reinterpret_cast<cudaStream_t>(new char);
    Stream &stream = streams()[*made];
    stream.flags = flags;
    stream.priority = priority;
    stream.id = ++count;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t *made, unsigned flags) {
    return cudaStreamCreateWithPriority(made, flags, 0);
}
EXPORTED cudaError_t cudaStreamCreate(cudaStream_t *made) { return cudaStreamCreateWithPriority(made, 0, 0); }
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    Guard guard(lock());
    if (!handle || !stream_of(handle)) return result(cudaErrorInvalidResourceHandle);
    streams().erase(handle);
    delete reinterpret_cast<char *>(handle);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream) return result(cudaErrorInvalidResourceHandle);
    if (stream->captured) return result(cudaErrorStreamCaptureUnsupported);
    wait_for_device();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t handle) { return cudaStreamSynchronize(handle); }
EXPORTED cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !flags) return result(cudaErrorInvalidResourceHandle);
    *flags = stream->flags;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !priority) return result(cudaErrorInvalidResourceHandle);
    *priority = stream->priority;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !id) return result(cudaErrorInvalidResourceHandle);
    *id = stream->id;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamGetDevice(cudaStream_t, int *device) {
    *device = 0;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t waited, unsigned) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !waited) return result(cudaErrorInvalidResourceHandle);
    Event *event = event_of(waited);
    if (event->captured && !stream->captured) {  // the stream joins the capture that the event stems from
        stream->captured = event->captured;
        stream->captured_from = event->captured_from;
    }
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
    Guard guard(lock());
    return result(enqueue(handle, cudaGraphNodeTypeHost, [=] {
        wait_for_device();
        function(data);
        return cudaSuccess;
    }));
}
EXPORTED cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void *data, unsigned) {
    Guard guard(lock());
    wait_for_device();
    function(handle, sticky(), data);
    return result(cudaSuccess);
}

// ---- events

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t *made, unsigned flags) {
    Guard guard(lock());
    load_modules();
    if (!made) return result(cudaErrorInvalidValue);
    Event *event = new Event;
    event->flags = flags;
    *made = reinterpret_cast<cudaEvent_t>(event);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaEventCreate(cudaEvent_t *made) { return cudaEventCreateWithFlags(made, 0); }
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    if (!handle) return result(cudaErrorInvalidResourceHandle);
    delete event_of(handle);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t in, unsigned) {
    Guard guard(lock());
    Stream *stream = stream_of(in);
    if (!handle || !stream) return result(cudaErrorInvalidResourceHandle);
    Event *event = event_of(handle);
    event->captured = stream->captured;
    event->captured_from = stream->captured_from;
    return result(enqueue(in, cudaGraphNodeTypeEventRecord, [=] {
        event->recorded = true;
        event->seconds = device_time;
        return cudaSuccess;
    }));
}
EXPORTED cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t in) { return cudaEventRecordWithFlags(handle, in, 0); }
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    Guard guard(lock());
    if (!handle) return result(cudaErrorInvalidResourceHandle);
    wait_for_device();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaEventQuery(cudaEvent_t handle) { return cudaEventSynchronize(handle); }
EXPORTED cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    Guard guard(lock());
    if (!begin || !end || !milliseconds) return result(cudaErrorInvalidResourceHandle);
    Event *first = event_of(begin), *last = event_of(end);
    bool timed = !((first->flags | last->flags) & cudaEventDisableTiming);
    if (!first->recorded || !last->recorded || !timed) return result(cudaErrorInvalidResourceHandle);
    *milliseconds = float(1e3 * (last->seconds - first->seconds));
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    return cudaEventElapsedTime(milliseconds, begin, end);
}

// ---- capture

EXPORTED cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream) return result(cudaErrorInvalidResourceHandle);
    if (!handle || stream->captured) return result(cudaErrorStreamCaptureUnsupported);
    stream->captured = new Graph;
    stream->captured_from = handle;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !graph) return result(cudaErrorInvalidResourceHandle);
    if (!stream->captured || stream->captured_from != handle) return result(cudaErrorStreamCaptureUnmatched);
    Graph *captured = stream->captured;
    for (auto &one : streams())
        if (one.second.captured == captured) one.second.captured = nullptr;
    *graph = reinterpret_cast<cudaGraph_t>(captured);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
    Guard guard(lock());
    Stream *stream = stream_of(handle);
    if (!stream || !status) return result(cudaErrorInvalidResourceHandle);
    *status = stream->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return result(cudaSuccess); }
