// A Set decides as package gcra does, for callers in any number of goroutines.

package funnels_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"funnel/gcra"
	"funnel/internal/funnels"
)

// TestSetDecidesAsPackageGCRA: a Set adds nothing to the arithmetic but memory for each key. A
// funnel that has drained may be removed, which no decision shows.
func TestSetDecidesAsPackageGCRA(t *testing.T) {
	operations := []gcra.Operation{gcra.Reserve, gcra.Take, gcra.Peek, gcra.Charge, gcra.Refund}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		set, tats := funnels.New(func() time.Time { return now }), map[string]int64{}
		rate, err := gcra.NewRate(rapid.Int64Range(1, 5).Draw(t, "capacity"), 1, 1e9)
		require.NoError(t, err)
		for range 50 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "elapsed")))
			request, err := rate.Request(rapid.Int64Range(0, 6).Draw(t, "quantity"))
			require.NoError(t, err)
			first := rapid.IntRange(0, 8).Draw(t, "first key")
			keys := []string{fmt.Sprint(first), fmt.Sprint(first + 1)}
			got, want := make([]gcra.Item, 2), make([]gcra.Item, 2)
			for i, key := range keys {
				got[i].Request, want[i].Request, want[i].TAT = request, request, tats[key]
			}
			operation := rapid.SampledFrom(operations).Draw(t, "operation")
			_, err = operation.Decide(want, now.UnixNano(), 0, gcra.NoReceipt)
			require.NoError(t, err)
			require.NoError(t, set.Decide(operation, keys, "", got, 0, gcra.NoReceipt))
			for i, key := range keys {
				tats[key] = want[i].Decision.TAT
				got[i].Decision.TAT, want[i].Decision.TAT = 0, 0 // of empty funnels, any TAT in the past
				require.Equal(t, want[i].Decision, got[i].Decision)
			}
			if rapid.IntRange(0, 9).Draw(t, "empty") == 0 {
				set.Empty(keys[0])
				delete(tats, keys[0])
			}
		}
	})
}

// Calls from many goroutines are decided one by one, and an error changes nothing.
func TestSetIsSafe(t *testing.T) {
	now := time.Now()
	set := funnels.New(func() time.Time { return now })
	rate, err := gcra.NewRate(100, 1, 1e9)
	require.NoError(t, err)
	take := func(quantity int64) (bool, error) {
		request, err := rate.Request(quantity)
		require.NoError(t, err)
		items := []gcra.Item{{Request: request}}
		err = set.Decide(gcra.Reserve, []string{"key"}, "", items, 0, 0)
		return !items[0].Decision.Limited, err
	}
	var callers sync.WaitGroup
	var allowed atomic.Int64
	for range 200 {
		callers.Go(func() {
			if ok, _ := take(1); ok {
				allowed.Add(1)
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 100, allowed.Load())
	require.Equal(t, 1, set.Len())

	charge := []gcra.Item{{}, {}}
	charge[0].Request, err = rate.Request(1)
	require.NoError(t, err)
	charge[1].Request, err = rate.Request(9e9)
	require.NoError(t, err)
	require.ErrorIs(t, set.Decide(gcra.Charge, []string{"new", "other"}, "", charge, 0, 0), gcra.ErrTAT)
	require.Equal(t, 1, set.Len())
	now = now.Add(100 * time.Second)
	ok, err := take(100)
	require.NoError(t, err)
	require.True(t, ok)
}
