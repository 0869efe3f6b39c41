// Graphs: made by capture or node by node, instantiated, launched, their nodes' parameters changed.
#include "graphs.hpp"

using namespace perfmodel;

static Graph *graph_of(cudaGraph_t handle) { return reinterpret_cast<Graph *>(handle); }
static Node *node_of(cudaGraphNode_t handle) { return reinterpret_cast<Node *>(handle); }
static ExecutableGraph *executable(cudaGraphExec_t handle) { return reinterpret_cast<ExecutableGraph *>(handle); }

static cudaError_t added(
    cudaGraphNode_t *made, cudaGraph_t graph, cudaGraphNodeType type, std::function<cudaError_t()> work) {
    Guard guard(lock());
    if (!made || !graph) return result(cudaErrorInvalidValue);
    *made = reinterpret_cast<cudaGraphNode_t>(graph_of(graph)->add(type, std::move(work)));
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaGraphCreate(cudaGraph_t *made, unsigned) {
    *made = reinterpret_cast<cudaGraph_t>(new Graph);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph_of(graph);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphClone(cudaGraph_t *made, cudaGraph_t graph) {
    Graph *copy = new Graph;
    for (Node *node : graph_of(graph)->nodes) copy->add(node->type, node->work);
    *made = reinterpret_cast<cudaGraph_t>(copy);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                            const cudaKernelNodeParams *p) {
    Guard guard(lock());
    load_modules();
    return p ? added(made, graph, cudaGraphNodeTypeKernel, launch_work(*p)) : result(cudaErrorInvalidValue);
}
EXPORTED cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                            const cudaMemcpy3DParms *p) {
    return p ? added(made, graph, cudaGraphNodeTypeMemcpy, copy_work(*p)) : result(cudaErrorInvalidValue);
}
EXPORTED cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                              void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return added(made, graph, cudaGraphNodeTypeMemcpy, copy_work(to, from, bytes, kind));
}
EXPORTED cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                            const cudaMemsetParams *p) {
    return p ? added(made, graph, cudaGraphNodeTypeMemset, fill_work(*p)) : result(cudaErrorInvalidValue);
}
EXPORTED cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                          const cudaHostNodeParams *p) {
    if (!p) return result(cudaErrorInvalidValue);
    cudaHostNodeParams kept = *p;
    return added(made, graph, cudaGraphNodeTypeHost, [kept] {
        wait_for_device();
        kept.fn(kept.userData);
        return cudaSuccess;
    });
}
EXPORTED cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t) {
    return added(made, graph, cudaGraphNodeTypeEmpty, [] { return cudaSuccess; });
}
EXPORTED cudaError_t cudaGraphAddChildGraphNode(
    cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *, size_t, cudaGraph_t child) {
    std::vector<Node *> nodes = graph_of(child)->nodes;
    return added(made, graph, cudaGraphNodeTypeGraph, [nodes] {
        for (Node *node : nodes)
            if (cudaError_t error = node->work()) return error;
        return cudaSuccess;
    });
}
EXPORTED cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    auto &all = graph_of(graph)->nodes;
    if (nodes)
        for (size_t k = 0; k < *count && k < all.size(); ++k) nodes[k] = reinterpret_cast<cudaGraphNode_t>(all[k]);
    *count = all.size();
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type) {
    *type = node_of(node)->type;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    Guard guard(lock());
    node_of(node)->work = launch_work(*p);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
    Guard guard(lock());
    if (!made || !graph) return result(cudaErrorInvalidValue);
    ExecutableGraph *copy = new ExecutableGraph;
    for (Node *node : graph_of(graph)->nodes) copy->nodes.push_back(*node);
    *made = reinterpret_cast<cudaGraphExec_t>(copy);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(made, graph, flags);
}
EXPORTED cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete executable(graph);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    Guard guard(lock());
    if (!graph) return result(cudaErrorInvalidValue);
    for (Node &node : executable(graph)->nodes)
        if (node.enabled)
            if (cudaError_t error = enqueue(stream, node.type, node.work)) return result(error);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphExecUpdate(cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo *info) {
    Guard guard(lock());
    auto &nodes = graph_of(from)->nodes;
    if (info) *info = cudaGraphExecUpdateResultInfo{};
    bool same = nodes.size() == executable(graph)->nodes.size();
    for (size_t k = 0; same && k < nodes.size(); ++k) same = nodes[k]->type == executable(graph)->nodes[k].type;
    if (!same) {
        if (info) info->result = cudaGraphExecUpdateErrorTopologyChanged;
        return result(cudaErrorGraphExecUpdateFailure);
    }
    for (size_t k = 0; k < nodes.size(); ++k) executable(graph)->nodes[k].work = nodes[k]->work;
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams *p) {
    Guard guard(lock());
    executable(graph)->nodes.at(node_of(node)->position).work = launch_work(*p);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphExecMemcpyNodeSetParams(
    cudaGraphExec_t graph, cudaGraphNode_t node, const cudaMemcpy3DParms *p) {
    executable(graph)->nodes.at(node_of(node)->position).work = copy_work(*p);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphExecMemcpyNodeSetParams1D(
    cudaGraphExec_t graph, cudaGraphNode_t node, void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    executable(graph)->nodes.at(node_of(node)->position).work = copy_work(to, from, bytes, kind);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphExecMemsetNodeSetParams(
    cudaGraphExec_t graph, cudaGraphNode_t node, const cudaMemsetParams *p) {
    executable(graph)->nodes.at(node_of(node)->position).work = fill_work(*p);
    return result(cudaSuccess);
}
EXPORTED cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t graph, cudaGraphNode_t node, unsigned enabled) {
    executable(graph)->nodes.at(node_of(node)->position).enabled = enabled;
    return result(cudaSuccess);
}
