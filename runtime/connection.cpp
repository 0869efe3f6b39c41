// The connection to the simulator: a socket that the parent process hands over, requests and answers with a length in front.
#include "connection.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

namespace perfmodel {

namespace {

int connected() {
    static const int descriptor = [] {
        const char *text = std::getenv("PERFMODEL_RUN_SOCKET");
        if (!text) {
            std::fprintf(stderr, "perfmodel: this program is linked with the stand-in CUDA runtime; start it by `perfmodel run`\n");
            _exit(2);
        }
        return std::atoi(text);
    }();
    return descriptor;
}

[[noreturn]] void lost() { _exit(3); }

void send_all(const void *data, size_t bytes) {
    const char *at = static_cast<const char *>(data);
    while (bytes) {
        ssize_t sent = ::send(connected(), at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) lost();
        at += sent;
        bytes -= size_t(sent);
    }
}

void receive_all(void *data, size_t bytes) {
    char *at = static_cast<char *>(data);
    while (bytes) {
        ssize_t got = ::recv(connected(), at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) lost();
        at += got;
        bytes -= size_t(got);
    }
}

}  // namespace

std::recursive_mutex &lock() {
    static std::recursive_mutex *mutex = new std::recursive_mutex;  // outlives static destructors
    return *mutex;
}

void tell(Request request, const Writer &fields) {
    Guard guard(lock());
    uint64_t head[2] = {uint64_t(request), fields.bytes().size()};
    send_all(head, sizeof head);
    send_all(fields.bytes().data(), fields.bytes().size());
}

Reader ask(Request request, const Writer &fields) {
    Guard guard(lock());
    long long begin = real_nanoseconds();
    tell(request, fields);
    uint64_t size = 0;
    receive_all(&size, sizeof size);
    std::vector<char> bytes(size);
    receive_all(bytes.data(), size);
    add_simulation_nanoseconds(real_nanoseconds() - begin);
    return Reader(std::move(bytes));
}

}  // namespace perfmodel
