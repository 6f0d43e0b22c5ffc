package replication_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestLedgerFindsWhatBreaksTheLaw, on a server whose funnels are tampered with.
func TestLedgerFindsWhatBreaksTheLaw(t *testing.T) {
	ctx := context.Background()
	ledger := openLedger(mixedFunnels()[:30])
	client := startPrimary(t).Client(t)
	load := startLoad(t, ledger, client)
	load.goOn(t, 5000)
	load.stop(t)
	require.Empty(t, ledger.compare(ledger.read(t, client), time.Now()))

	set := func(key string, tokens int64, interval time.Duration) {
		tat, err := client.Get(ctx, key).Int64()
		require.NoError(t, err)
		tat += tokens * int64(interval)
		require.NoError(t, client.Do(ctx, "set", key, tat, "pxat", (tat+999_999)/1_000_000).Err())
	}
	for _, c := range []struct {
		name   string
		tamper func()
		law    string // that is broken
	}{
		{"a token granted twice", func() { set("large:1", -1, still) }, "is too empty"},
		{"a token nobody asked for", func() { set("large:4", 1, still) }, "is too full"},
		{"more than the capacity", func() { set("small:0", 1, still) }, "is too full"},
		{"a funnel lost", func() { client.Del(ctx, "large:7") }, "is too empty"},
		{"a leaking funnel with too much", func() { servertest.Throttle(t, client, "leaks:2", 100_000, 1, 0.1, 36_000) }, "is too full"},
		{"an expiry a millisecond late", func() {
			client.Do(ctx, "pexpireat", "small:3", servertest.ExpiryOf(t, client, "small:3")+1)
		}, "does not expire when it is empty"},
	} {
		before := ledger.compare(ledger.read(t, client), time.Now())
		c.tamper()
		after := ledger.compare(ledger.read(t, client), time.Now())
		require.Len(t, after, len(before)+1, c.name)
		require.Contains(t, strings.Join(after, "\n"), c.law, c.name)
	}

	load = startLoad(t, ledger, client)
	load.goOn(t, 1000)
	load.end()
	require.Contains(t, strings.Join(ledger.breaches, "\n"), "finds the funnel emptier")
}
