package servertest

// A server frees the commands of a module that it unloads, and goes on to use them for
// clients that have called them, or are about to: it crashes. So funnel stays.
const RefusedUnload = "ERR Error unloading module: operation not possible."
