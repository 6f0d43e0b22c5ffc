package servertest

// RefusedUnload is the error of MODULE UNLOAD. Servers free the commands of a module
// while clients may still point at them, and crash, so the module refuses.
const RefusedUnload = "ERR Error unloading module: operation not possible."
