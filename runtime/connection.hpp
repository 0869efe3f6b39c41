// The stand-in CUDA runtime: what its files share, and the connection to the simulator, its parent process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace perfmodel {

// Requests to the simulator; perfmodel/programs/protocol.py has the same numbers.
enum class Request : uint32_t {
    device = 1,     // text of name=value lines
    load = 2,       // fat binary -> module, bytes of its variables
    place = 3,      // module, address -> addresses of its variables
    kernel = 4,     // module, name -> kernel, attributes, parameters
    launch = 5,     // kernel, shape, parameter bytes -> error, whether the context is lost, seconds, what was printed
    occupancy = 6,  // kernel, threads, shared bytes -> blocks per SM
    allocated = 7,  // address, bytes: no answer
    freed = 8,      // address: no answer
    missing = 9,    // function that the stand-in lacks: no answer
    object = 10,    // number of a texture or surface object, what it sees: no answer
};

// Bytes of a request, put together field by field.
class Writer {
  public:
    template <class T> Writer &put(const T &value) { return put(&value, sizeof value); }
    Writer &put(const void *data, size_t bytes) {
        const char *begin = static_cast<const char *>(data);
        bytes_.insert(bytes_.end(), begin, begin + bytes);
        return *this;
    }
    Writer &text(const std::string &value) { return put(uint32_t(value.size())).put(value.data(), value.size()); }
    const std::vector<char> &bytes() const { return bytes_; }

  private:
    std::vector<char> bytes_;
};

// Bytes of an answer, taken apart field by field.
class Reader {
  public:
    explicit Reader(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
    template <class T> T get() {
        T value{};
        if (at_ + sizeof(T) <= bytes_.size()) std::memcpy(&value, &bytes_[at_], sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    std::string rest() {
        std::string value(at_ < bytes_.size() ? &bytes_[at_] : "", at_ < bytes_.size() ? bytes_.size() - at_ : 0);
        at_ = bytes_.size();
        return value;
    }
    std::string text() {
        uint32_t size = get<uint32_t>();
        std::string value(at_ + size <= bytes_.size() ? &bytes_[at_] : "", at_ + size <= bytes_.size() ? size : 0);
        at_ += size;
        return value;
    }

  private:
    std::vector<char> bytes_;
    size_t at_ = 0;
};

// Ends the process where the program runs without its simulator.
Reader ask(Request request, const Writer &fields = {});
void tell(Request request, const Writer &fields);

// Guards everything below; functions of the runtime hold it while they work.
std::recursive_mutex &lock();
using Guard = std::lock_guard<std::recursive_mutex>;

// ---- errors

// Keeps an error for cudaGetLastError, and a sticky one for all later calls; gives back what the call returns.
cudaError_t result(cudaError_t error);
// An error after which a context is lost, such as an illegal address; cudaSuccess where there is none.
cudaError_t sticky();
void make_sticky(cudaError_t error);
// Reports a function or feature that the stand-in lacks.
cudaError_t missing(const char *function);

// ---- device

// A fact of the GPU that the simulator stands in for.
long long fact(const char *name);
const std::string &fact_text(const char *name);

// ---- memory

enum class Kind : uint32_t { device = 0, pinned = 1, managed = 2, registered = 3, module = 4, array = 5 };
struct Block {
    size_t bytes;
    Kind kind;
    unsigned flags;
    void *host;  // of registered memory: where the host sees it
};
void *allocate(size_t bytes, Kind kind, unsigned flags = 0);
bool release(void *address);
// The allocation that an address lies in, and its first byte; null where there is none.
const Block *block_at(const void *address, char **first = nullptr);

// ---- modules

struct Kernel {
    uint32_t module = 0;
    std::string name;
    bool known = false;
    uint32_t id = 0;
    int registers = 0, threads = 0, binary_version = 0, ptx_version = 0;
    size_t shared_bytes = 0, constant_bytes = 0, local_bytes = 0;
    std::vector<std::pair<uint32_t, uint32_t>> parameters;  // offset and bytes
    int dynamic_shared_bytes = 0, carve_out = -1;
    bool portable_clusters = true;
};
// A kernel by the address of its host function or by its handle; null where it is none.
Kernel *kernel_of(const void *function);
// A variable by its host shadow; false where it is none.
bool symbol(const void *shadow, char **address, size_t *bytes);
void load_modules();

struct Shape {
    dim3 grid, block, cluster;
    size_t shared_bytes = 0;
    bool cooperative = false;
};
cudaError_t launch(Kernel &kernel, const Shape &shape, const std::vector<char> &parameters);
std::vector<char> packed(const Kernel &kernel, void **arguments);

// ---- streams and time

// Runs work now, or keeps it for the graph that a stream captures.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, std::function<cudaError_t()> work);
// Device time so far in seconds: the predicted times of all launches.
double device_seconds();
void add_device_seconds(double seconds);
// The host waits for the device: its clocks now hold the device time so far, and what kernels have printed appears.
void wait_for_device();
void add_printed(const std::string &text);
// Time for which the host's clocks stand still while it waits for the simulator.
void add_simulation_nanoseconds(long long nanoseconds);
long long real_nanoseconds();

}  // namespace perfmodel
