package stackroom_test

import (
	"testing"
	"unsafe"

	"funnel/module/stackroom"
)

// TestEnsureMovesTheStackOnce: a fresh goroutine's stack moves when it grows, and
// stays where it is when there is room.
func TestEnsureMovesTheStackOnce(t *testing.T) {
	done := make(chan [3]uintptr)
	go func() {
		var here byte
		var at [3]uintptr
		for i := range at {
			at[i] = uintptr(unsafe.Pointer(&here))
			stackroom.Ensure()
		}
		done <- at
	}()
	at := <-done
	if at[0] == at[1] {
		t.Error("the stack did not grow")
	}
	if at[1] != at[2] {
		t.Error("the stack moved although there was room")
	}
}

func BenchmarkEnsure(b *testing.B) {
	for b.Loop() {
		stackroom.Ensure()
	}
}
