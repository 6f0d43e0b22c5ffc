package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, Forever, Left(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Equal(t, time.Minute, Left(ctx))
		time.Sleep(time.Hour)
		require.Zero(t, Left(ctx), "a deadline that has passed")
	})
}

func TestDue(t *testing.T) {
	require.Equal(t, 3*time.Second, Due(time.Second, 2*time.Second))
	require.Equal(t, Forever, Due(time.Second, Forever), "no overflow")
	require.Equal(t, Forever, Due(Forever, time.Second), "no overflow")
}

func TestSleep(t *testing.T) {
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		sleeps, canceled, took time.Duration
		want                   error
	}{
		"to the end":       {sleeps: time.Second, canceled: time.Minute, took: time.Second},
		"canceled":         {sleeps: time.Minute, canceled: time.Second, took: time.Second, want: gone},
		"nothing to sleep": {sleeps: 0, canceled: time.Second},
		"less than that":   {sleeps: -1, canceled: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer time.AfterFunc(c.canceled, func() { cancel(gone) }).Stop()
			began := time.Now()
			require.Equal(t, c.want, Sleep(ctx, c.sleeps), name)
			require.Equal(t, c.took, time.Since(began), name)
		})
	}
}

// A caller that has nothing to sleep goes ahead, even if its context is done.
func TestNothingToSleep(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select of two channels that are ready would take each of them at times
		require.NoError(t, Sleep(gone, 0))
		require.Equal(t, context.Canceled, Sleep(gone, time.Hour))
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, Sleep(t.Context(), 1))
		require.Equal(t, time.Nanosecond, time.Since(began), "one nanosecond is something to sleep")
	})
}
