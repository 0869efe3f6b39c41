// A graph of work: its nodes in an order that keeps every dependency, which is the order in which they were added.
#pragma once

#include "connection.hpp"

namespace perfmodel {

struct Node {
    cudaGraphNodeType type;
    std::function<cudaError_t()> work;
    size_t position;
    bool enabled = true;
};

struct Graph {
    std::vector<Node *> nodes;  // never freed: handles of nodes outlive their graph's executable copies

    Node *add(cudaGraphNodeType type, std::function<cudaError_t()> work) {
        nodes.push_back(new Node{type, std::move(work), nodes.size()});
        return nodes.back();
    }
};

// An instantiated graph: its own copy of the nodes, by position.
struct ExecutableGraph {
    std::vector<Node> nodes;
};

std::function<cudaError_t()> launch_work(const cudaKernelNodeParams &p);
std::function<cudaError_t()> copy_work(const cudaMemcpy3DParms &p);
std::function<cudaError_t()> copy_work(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
std::function<cudaError_t()> fill_work(const cudaMemsetParams &p);

}  // namespace perfmodel
