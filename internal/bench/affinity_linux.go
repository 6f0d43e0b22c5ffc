package bench

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onOneProcessor runs start such that the processes it starts, and all their
// threads, are bound to one processor.
func onOneProcessor(start func() error) error {
	// A process inherits the binding of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return err
	}
	for processor := 0; one.Count() == 0; processor++ {
		if allowed.IsSet(processor) {
			one.Set(processor)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &allowed)
	return start()
}
