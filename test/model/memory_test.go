package model_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestNoCallKeepsMemory, whatever becomes of it: what a funnel holds is all that a call
// leaves behind.
func TestNoCallKeepsMemory(t *testing.T) {
	call := func(words ...string) []string { return append([]string{"cl.throttle"}, words...) }
	requireNoMemoryKept(t, 2_000, servertest.QuickOrLong(20_000, 1_000_000), map[string][][]string{
		"allowed":              {call("allowed", "9223372036854775807", "1", "0.000000001")},
		"allowed on a new key": {call("new", "1", "1", "1"), {"del", "new"}},
		"limited":              {call("limited", "1", "1", "1000000")},
		"peeked":               {call("peeked", "1", "1", "1", "0")},
		"number of arguments":  {call("key", "1", "1", "1", "1", "1")},
		"wrong argument":       {call("key", "1", "x", "1")},
		"too large together":   {call("key", "1", "2", "0.000000001")},
		"another type":         {call("list", "1", "1", "1")},
		"no funnel":            {call("text", "1", "1", "1")},
	})
}

// requireNoMemoryKept makes the calls of each case, in turn, on keys of which one holds a
// list and one a text.
func requireNoMemoryKept(t *testing.T, first, calls int, cases map[string][][]string) {
	t.Helper()
	server := servertest.StartModule(t)
	client := server.Client(t)
	ctx := context.Background()
	require.NoError(t, client.LPush(ctx, "list", 1).Err())
	require.NoError(t, client.Set(ctx, "text", "no funnel", 0).Err())
	wire := server.Wire(t)
	for name, words := range cases {
		round := func(calls int) {
			require.NoError(t, servertest.CallMany(wire, calls, func(i int) []string { return words[i%len(words)] },
				func(int, any) error { return nil }), name)
		}
		round(first) // what is made once, such as buffers, is made now
		used, resident := servertest.InfoField(t, client, "memory", "used_memory"), servertest.MemoryOf(t, server, "VmRSS")
		round(calls)
		require.Less(t, servertest.InfoField(t, client, "memory", "used_memory"), used+64<<10, name)
		require.Less(t, servertest.MemoryOf(t, server, "VmRSS"), resident+1<<20, name)
	}
}
