// The last error of each thread, errors after which a context is lost, names and texts of errors.
#include "connection.hpp"

#include <set>

// Made from the header's enumeration when the runtime is built.
extern "C" const char *perfmodel_error_name(int error);

namespace perfmodel {

namespace {
thread_local cudaError_t last = cudaSuccess;
cudaError_t lost_context = cudaSuccess;

const std::map<int, const char *> &texts() {
    static const std::map<int, const char *> known = {
        {cudaSuccess, "no error"},
        {cudaErrorInvalidValue, "invalid argument"},
        {cudaErrorMemoryAllocation, "out of memory"},
        {cudaErrorInvalidConfiguration, "invalid configuration argument"},
        {cudaErrorInvalidPitchValue, "invalid pitch argument"},
        {cudaErrorInvalidSymbol, "invalid device symbol"},
        {cudaErrorInvalidDevicePointer, "invalid device pointer"},
        {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
        {cudaErrorNoDevice, "no CUDA-capable device is detected"},
        {cudaErrorInvalidDevice, "invalid device ordinal"},
        {cudaErrorInvalidDeviceFunction, "invalid device function"},
        {cudaErrorInvalidResourceHandle, "invalid resource handle"},
        {cudaErrorNotReady, "device not ready"},
        {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
        {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
        {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
        {cudaErrorAssert, "device-side assert triggered"},
        {cudaErrorMisalignedAddress, "misaligned address"},
        {cudaErrorLaunchFailure, "unspecified launch failure"},
        {cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"},
        {cudaErrorNotSupported, "operation not supported"},
        {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
        {cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"},
        {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
        {cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"},
        {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
        {cudaErrorUnknown, "unknown error"},
    };
    return known;
}
}  // namespace

cudaError_t sticky() { return lost_context; }
void make_sticky(cudaError_t error) { lost_context = error; }

cudaError_t result(cudaError_t error) {
    if (error == cudaSuccess) error = lost_context;
    if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
    return error;
}

cudaError_t missing(const char *function) {
    static std::set<std::string> *named = new std::set<std::string>;
    Guard guard(lock());
    if (named->insert(function).second) tell(Request::missing, Writer().text(function));
    return result(cudaErrorNotSupported);
}

}  // namespace perfmodel

using namespace perfmodel;

EXPORTED cudaError_t cudaGetLastError(void) {
    cudaError_t error = last != cudaSuccess ? last : sticky();
    last = cudaSuccess;
    return error;
}
EXPORTED cudaError_t cudaPeekAtLastError(void) { return last != cudaSuccess ? last : sticky(); }
EXPORTED const char *cudaGetErrorName(cudaError_t error) { return perfmodel_error_name(error); }
EXPORTED const char *cudaGetErrorString(cudaError_t error) {
    auto found = texts().find(error);
    return found == texts().end() ? perfmodel_error_name(error) : found->second;
}
// What the generated functions call for which there is no other definition.
extern "C" int perfmodel_missing(const char *function) { return missing(function); }
