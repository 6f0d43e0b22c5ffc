package replication_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// audit requires that no reply broke the bound and that a server holds what it may, and
// continues from there. It returns how many of the tokens that clients were told of are
// lost. No load may be running.
func (l *ledger) audit(t testing.TB, client redis.UniversalClient) (lost int64) {
	t.Helper()
	requireNone(t, l.breaches, "replies break the bound")
	states := l.read(t, client)
	now := time.Now()
	requireNone(t, l.compare(states, now), "funnels break the bound")
	for i := range l.accounts {
		account := &l.accounts[i]
		tat := max(states[i].tat, now.UnixNano())
		tokens := (tat - l.opened.UnixNano()) / int64(account.interval)
		lost += max(0, account.answered-tokens)
		account.answered, account.kept = tokens, tokens
		account.asked = (tat - now.UnixNano() + int64(account.interval) - 1) / int64(account.interval)
	}
	return lost
}

// compare returns what is wrong with the funnels of a server.
func (l *ledger) compare(states []stored, now time.Time) (breaches []string) {
	for i, account := range l.accounts {
		least := l.opened.Add(time.Duration(account.kept) * account.interval)
		most := now.Add(time.Duration(min(account.asked, account.capacity)) * account.interval)
		tat := time.Unix(0, states[i].tat)
		wrong := ""
		switch {
		case tat.Before(least) && now.Before(least):
			wrong = "is too empty"
		case tat.After(most):
			wrong = "is too full"
		case states[i].expiry != (states[i].tat+999_999)/1_000_000:
			wrong = "does not expire when it is empty"
		default:
			continue
		}
		breaches = append(breaches, fmt.Sprintf("%s: %+v holds %+v, opened %d, now %d", wrong, account, states[i], l.opened.UnixNano(), now.UnixNano()))
	}
	return breaches
}

// A stored is what a server keeps of a funnel: TAT and expiry, 0 when there is no key.
type stored struct{ tat, expiry int64 }

// read reads all funnels of a server or a cluster.
func (l *ledger) read(t testing.TB, client redis.UniversalClient) (states []stored) {
	t.Helper()
	ctx := context.Background()
	pipeline := client.Pipeline()
	var tats []*redis.StringCmd
	var expiries []*redis.Cmd
	for _, account := range l.accounts {
		tats = append(tats, pipeline.Get(ctx, account.key))
		expiries = append(expiries, pipeline.Do(ctx, servertest.ToAny(servertest.AskExpiry(t, account.key))...))
	}
	_, err := pipeline.Exec(ctx)
	require.NoError(t, servertest.IgnoreNil(err))

	for i := range l.accounts {
		expiry, err := expiries[i].Int64()
		require.NoError(t, err)
		if tats[i].Err() == redis.Nil || expiry == -2 { // it may expire between the two
			states = append(states, stored{})
			continue
		}
		tat, err := tats[i].Int64()
		require.NoError(t, err)
		require.Equal(t, strconv.FormatInt(tat, 10), tats[i].Val())
		states = append(states, stored{tat, expiry})
	}
	return states
}

// requireSame requires that two servers hold the same, but for what has expired since.
func (l *ledger) requireSame(t testing.TB, want, got []stored, whose string) {
	t.Helper()
	now := time.Now().UnixMilli()
	var differences []string
	for i, account := range l.accounts {
		if want[i] != got[i] && max(want[i].expiry, got[i].expiry) > now {
			differences = append(differences, fmt.Sprintf("%s: %+v, not %+v", account.key, got[i], want[i]))
		}
	}
	requireNone(t, differences, "funnels differ in "+whose)
}

func requireNone(t testing.TB, wrong []string, what string) {
	t.Helper()
	require.Empty(t, strings.Join(wrong[:min(len(wrong), 5)], "\n"), "%d %s, such as these", len(wrong), what)
}
