// empty: nothing.
//
// Measures:  what a launch costs, between two events, in a row, and as a node of a graph.

extern "C" __global__ void empty()
{
}
