package model_test

import (
	"context"
	"fmt"
	"funnel/internal/servertest"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAMillionRandomCommandsLeaveMemoryFlat: half of them are malformed, and the
// server is up and no larger afterwards.
func TestAMillionRandomCommandsLeaveMemoryFlat(t *testing.T) {
	server := servertest.StartModule(t)
	client := server.Client(t)
	ctx := context.Background()
	seed := rand.Uint64()
	generator := &fuzzer{random: rand.New(rand.NewPCG(seed, 1)), model: newModel()}
	words := func(i int) []string {
		if i%2 == 0 {
			return append([]string{"cl.throttle", pick(generator, fuzzKeys)}, pick(generator, fuzzRates)...)
		}
		return generator.malformed()
	}

	// Measures what is left when all data is gone.
	measure := func() (used, resident int64) {
		require.NoError(t, client.FlushAll(ctx).Err())
		require.NoError(t, client.Do(ctx, "memory", "purge").Err())
		return servertest.InfoField(t, client, "memory", "used_memory"), servertest.MemoryOf(t, server, "VmRSS")
	}
	failed := 0
	round := func(calls int) {
		wire, err := server.TryWire()
		require.NoError(t, err)
		defer wire.Close()
		require.NoError(t, servertest.CallMany(wire, calls, words, func(i int, got any) error {
			_, isError := got.(servertest.ErrorReply)
			if isError {
				failed++
			}
			if reply, ok := got.([]any); isError == ok || ok && len(reply) != 5 {
				return fmt.Errorf("seed %d: call %d was answered %v", seed, i, got)
			}
			return nil
		}))
	}

	calls := servertest.QuickOrLong(100_000, 1_000_000)
	round(calls / 10) // what is made once, such as buffers, is made now
	usedBefore, residentBefore := measure()
	failed = 0
	start := time.Now()
	round(calls)
	rate := servertest.CallsPerSecond(calls, start)
	usedAfter, residentAfter := measure()
	t.Logf("%d calls, %d per second, %d failed; used memory %d KB before, %d KB after; resident %d KB, %d KB",
		calls, rate, failed, usedBefore>>10, usedAfter>>10, residentBefore>>10, residentAfter>>10)
	require.Greater(t, failed, calls/2-1)
	require.Less(t, usedAfter, usedBefore+128<<10)
	require.Less(t, residentAfter, residentBefore+2<<20)
}
