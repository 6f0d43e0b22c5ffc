//go:build !linux

package bench

// onOneProcessor just runs start: servers under callgrind start less surely then.
func onOneProcessor(start func() error) error { return start() }
