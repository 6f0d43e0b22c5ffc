// Two Caddys share limits for long, while their clients give up, configurations are reloaded, and
// Caddys end. Nothing is left behind: no slot, and no token that neither Caddy counts.

package caddylimit

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/internal/policy"
)

// soakSite has a window that ends each two seconds. What funnel and quota count neither leaks nor
// ends during a tenth, so both count what was taken.
const soakSite = `
	funnel {
		policy slots {
			key all
			slots 24
		}
		policy funnel {
			key all
			rate 1 12h
			capacity 100000
		}
		policy quota {
			key all
			quota 1000000000 year
		}
		policy window {
			key all
			window 300 2s
		}
	}
	reverse_proxy `

// soakLimits are the limits of the policies that count what was taken.
var soakLimits = map[string]limiter.Limit{
	"funnel": limiter.Per(1, 12*time.Hour).WithCapacity(100_000),
	"quota":  limiter.Yearly(1_000_000_000, time.UTC),
}

// clients are 32 clients of some Caddys, who mostly give up within 4 ms.
type clients struct {
	group            sync.WaitGroup
	leave            context.CancelFunc
	allowed, limited atomic.Int64
	gaveUp           atomic.Int64 // who do not know what was decided
}

func startClients(t *testing.T, caddys []*server) *clients {
	ctx, leave := context.WithCancel(t.Context())
	c := &clients{leave: leave}
	for i := range 32 {
		c.group.Go(func() {
			for ctx.Err() == nil {
				leaving, cancel := servertest.LeavingContext(ctx)
				got, err := caddys[i%len(caddys)].try(leaving, "/")
				switch {
				case err == nil && got.status == http.StatusOK:
					c.allowed.Add(1)
				case err == nil && got.status == http.StatusTooManyRequests:
					c.limited.Add(1)
				case err != nil || got.status == policy.StatusClientClosedRequest:
					// A reload or the end of Caddy may break a connection that is just being made, and
					// seldom reverse_proxy gives the status to a client that is still there.
					c.gaveUp.Add(1)
				default:
					assert.Equal(t, http.StatusOK, got.status, got.body)
				}
				cancel()
			}
		})
	}
	return c
}

func (c *clients) stop() {
	c.leave()
	c.group.Wait()
}

// TestTwoCaddysWhoseClientsLeaveLeaveNothing: in each tenth of FUNNEL_SOAK_TIME clients leave while
// one Caddy after the other is reloaded. Then the clients stop, and Redis must count what the
// metrics of both Caddys count. At last both Caddys end under load.
func TestTwoCaddysWhoseClientsLeaveLeaveNothing(t *testing.T) {
	t.Parallel()
	redis := servertest.StartModule(t)
	rdb := redis.Client(t)
	upstream := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) })
	duration, tenths := time.Second, 1
	if long := servertest.SoakTime(); long > 0 {
		duration, tenths = long, 10
	}
	var allowed, limited, gaveUp int64
	var reloads int
	t.Log("| minutes | allowed | limited | clients that gave up | reloads | slots left |")
	began := time.Now()
	for tenth := range tenths {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		site := soakSite + upstream
		// On a busy machine an answer of Redis may take longer than the second that Caddy waits by default.
		const settings = "timeout 10s\non_failure error"
		caddys := []*server{start(t, redis.Addr(), settings, site), start(t, redis.Addr(), settings, site)}
		ends := time.Now().Add(duration / time.Duration(tenths))
		asking := startClients(t, caddys)
		for i := 0; time.Until(ends) > 0 && !t.Failed(); i++ {
			require.NoError(t, caddys[i%2].reload(t, fmt.Sprintf("\theader X-Reload %d\n%s", i, site)))
			reloads++
			time.Sleep(min(time.Second, max(0, time.Until(ends))))
		}
		servertest.Eventually(t, "an answer", func() bool { return asking.allowed.Load() > 0 })
		asking.stop()
		awaitCounts(t, rdb, caddys)

		ending := startClients(t, caddys)
		servertest.Eventually(t, "requests before the end", func() bool { return ending.allowed.Load() > 0 })
		for _, caddy := range caddys {
			caddy.end(t)
			require.NotContains(t, caddy.log.String(), "Redis has not answered everything")
		}
		ending.stop()
		slots := rdb.ZCard(t.Context(), policy.SlotsKey("slots", "all")).Val()

		for _, c := range []*clients{asking, ending} {
			allowed, limited, gaveUp = allowed+c.allowed.Load(), limited+c.limited.Load(), gaveUp+c.gaveUp.Load()
		}
		t.Logf("| %.1f | %d | %d | %d | %d | %d |", time.Since(began).Minutes(), allowed, limited, gaveUp, reloads, slots)
		require.False(t, t.Failed(), "in tenth %d", tenth)
		require.Zero(t, slots, "slots that nobody holds after both Caddys have ended, in tenth %d", tenth)
		require.Positive(t, asking.gaveUp.Load())
	}
}

// awaitCounts waits until no slot is held and Redis counts what the metrics of the Caddys count.
func awaitCounts(t *testing.T, rdb *redis.Client, caddys []*server) {
	t.Helper()
	reader := limiter.New(rdb)
	servertest.Await(t, 10*time.Millisecond, "Redis counts what the Caddys count", func() error {
		held := rdb.ZCard(t.Context(), policy.SlotsKey("slots", "all")).Val()
		if held > 0 {
			return fmt.Errorf("%d slots are held that nobody holds", held)
		}
		for name, limit := range soakLimits {
			result, err := reader.Peek(t.Context(), policy.LimitKey(name, "all", limit), limit)
			if err != nil {
				return err
			}
			counted := 0
			for _, caddy := range caddys {
				counted += caddy.metrics(t, "decisions_total", fmt.Sprintf("policy=%q", name), `outcome="allowed"`)
			}
			used := limit.Capacity - result.Remaining
			if used != counted {
				return fmt.Errorf("policy %s: Redis counts %d tokens, and the Caddys %d", name, used, counted)
			}
		}
		return nil
	})
}
