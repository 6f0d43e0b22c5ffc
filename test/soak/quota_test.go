// Quotas keep their limits even if the clocks of their callers are wrong, while servers fail over and are
// killed, and calls come late.

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// A period ends at each even second. The quota "used" limits reservations and takes; the quota "charged" only
// counts charges.
const (
	period                 = 2 * time.Second
	usedLimit, chargeLimit = 60, 1_000_000_000
)

// Leads are how far the clocks of callers are ahead.
var leads = []time.Duration{0, 0, 300 * time.Millisecond, -300 * time.Millisecond, 3 * time.Second, -3 * time.Second,
	20 * time.Minute, -20 * time.Minute, time.Hour, -time.Hour, 0, tenYears}

const tenYears = 10 * 365 * 24 * time.Hour

// TestQuotasKeepTheirLimitsByAnyClock: in each period by the server's clock, no more is granted than the limit and
// what was given back within the period, and charges add up. The servers lose nothing that was answered, so that
// holds through failovers and kill -9. In a period without them, all of the limit is granted: nobody is locked out
// by a clock that is ahead, even if its caller has used all of the limit first.
func TestQuotasKeepTheirLimitsByAnyClock(t *testing.T) {
	options := servertest.WithLog(servertest.Module(t), "no", "--repl-diskless-sync-delay", "0")
	run := &quotaRun{soak: &soak{T: t}, periods: map[int64]*granted{}}
	run.servers = [2]*servertest.Server{servertest.Start(t, options), servertest.Start(t, options)}
	run.primary.Store(run.servers[0])
	run.attach(run.servers[1], run.servers[0])
	t.Cleanup(run.end)

	first := &quotaCaller{quotaRun: run, lead: tenYears}
	got, err := first.ask("reserve", "used", usedLimit, usedLimit)
	require.NoError(t, err)
	first.at(got.instant, func(in *granted) { in.granted += got.quantity })
	for _, lead := range leads {
		caller := &quotaCaller{quotaRun: run, lead: lead}
		run.repeat(caller.call)
	}
	client := run.servers[0].Client(t)
	servertest.Eventually(t, "another caller has cut the period of ten years", func() bool {
		return servertest.ExpiryOf(t, client, "used") < time.Now().Add(2*period).UnixMilli()
	})
	nextBorder := func() time.Time {
		border := time.Now().Truncate(period).Add(period)
		time.Sleep(time.Until(border))
		return border
	}
	whole := map[int64]bool{}
	for range servertest.QuickOrLong(1, 20) {
		whole[nextBorder().UnixNano()] = true
		nextBorder()
		run.failOver(true)
		killed := run.primary.Load()
		client := killed.Client(t)
		servertest.Eventually(t, "the log has what it received as a replica", func() bool {
			return servertest.InfoField(t, client, "persistence", "aof_rewrite_in_progress")+
				servertest.InfoField(t, client, "persistence", "aof_rewrite_scheduled") == 0
		})
		killed.Kill()
		run.calling.Lock()
		killed.Restart(t)
		run.calling.Unlock()
		for _, server := range run.servers {
			if server != killed {
				run.attach(server, killed)
			}
		}
	}
	whole[nextBorder().UnixNano()] = true
	nextBorder()
	run.end()

	for begin, in := range run.periods {
		about := fmt.Sprintf("the period from %s, without failover: %v", time.Unix(0, begin).Format("15:04:05"), whole[begin])
		t.Logf("%s: %+v", about, *in)
		require.LessOrEqual(t, in.granted-in.refunded, int64(usedLimit), "granted in %s", about)
		require.GreaterOrEqual(t, in.charges, in.charged, "a charge is lost in %s", about)
		if whole[begin] {
			require.GreaterOrEqual(t, in.granted, int64(usedLimit), "granted in %s", about)
			require.Equal(t, in.charged, in.charges, "charges of another period in %s", about)
			require.Positive(t, in.ended, "callers that are behind, in %s", about)
		}
	}
}

// A quotaRun is what callers were told.
type quotaRun struct {
	*soak
	mutex   sync.Mutex
	periods map[int64]*granted // by the begin, in nanoseconds
}

// Granted is what callers were told in one period, by the server's clock.
type granted struct {
	granted, refunded int64 // of "used"; late refunds do not count
	charged, charges  int64 // what callers have charged, and the largest sum that the server has told
	ended             int
}

// at records what happened at an instant.
func (r *quotaRun) at(instant int64, record func(in *granted)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	begin := instant - instant%int64(period)
	if r.periods[begin] == nil {
		r.periods[begin] = &granted{}
	}
	record(r.periods[begin])
}

// A quotaCaller has a clock of its own.
type quotaCaller struct {
	*quotaRun
	lead   time.Duration
	server *servertest.Server // which the client is connected to
	client *redis.Client
	late   []receipt
}

// A receipt is given back late, at an instant after the end of its period.
type receipt struct {
	until, quantity int64
	due             time.Time
}

// A told is what a caller learns from the reply to a call that was decided.
type told struct {
	instant   int64 // Unix nanoseconds, by the server's clock; 0 if nothing was counted
	until     int64 // the receipt, in Unix nanoseconds
	quantity  int64 // that was granted
	remaining int64
}

// call makes one call, and checks the reply.
func (c *quotaCaller) call() error {
	time.Sleep(rand.N(8 * time.Millisecond))
	var failure error
	switch dice, quantity := rand.IntN(10), 1+rand.Int64N(3); {
	case len(c.late) > 0 && time.Now().After(c.late[0].due):
		failure = c.refund(c.late[0])
		c.late = c.late[1:]
	case dice < 4:
		failure = c.use("reserve", quantity)
	case dice < 7:
		failure = c.use("take", 3*quantity)
	default:
		got, err := c.ask("charge", "charged", chargeLimit, quantity)
		failure = err
		if err == nil {
			c.at(got.instant, func(in *granted) {
				in.charged += quantity
				in.charges = max(in.charges, chargeLimit-got.remaining)
			})
		}
	}
	if isReply := errors.As(failure, new(redis.Error)); isReply || errors.Is(failure, errWrong) {
		return failure
	}
	return nil // the server was killed
}

var errWrong = errors.New("wrong")

// use reserves or takes some of the quota. Of the quantities, it gives some back at once and some too late: those
// of the period that ends at the next border. What a caller ahead was granted before another has cut its period
// may reach the next one.
func (c *quotaCaller) use(operation string, quantity int64) error {
	got, err := c.ask(operation, "used", usedLimit, quantity)
	if err != nil || got.quantity == 0 {
		return err
	}
	c.at(got.instant, func(in *granted) { in.granted += got.quantity })
	end := got.instant - got.instant%int64(period) + int64(period)
	back := receipt{until: got.until, quantity: got.quantity, due: time.Unix(0, end).Add(rand.N(period / 2))}
	switch dice := rand.IntN(3); {
	case got.until != end:
	case dice == 0:
		c.at(got.instant, func(in *granted) { in.refunded += got.quantity })
		return c.refund(back)
	case dice == 1:
		c.late = append(c.late, back)
	}
	return nil
}

func (c *quotaCaller) refund(back receipt) error {
	_, err := c.send("refund", "used", usedLimit, back.until, back.quantity)
	return err
}

var endedPattern = regexp.MustCompile(`^ENDED until must be later than the server's clock: got \S+, and it is (\S+)$`)

// ask asks for the period that runs by the caller's clock or, if that has ended, by the server's clock.
func (c *quotaCaller) ask(operation, key string, limit, quantity int64) (got told, err error) {
	instant := time.Now().Add(c.lead).UnixNano()
	for {
		until, sent := instant-instant%int64(period)+int64(period), time.Now().UnixNano()
		reply, err := c.send(operation, key, limit, until, quantity)
		if err != nil {
			if match := endedPattern.FindStringSubmatch(err.Error()); match != nil {
				instant = nanoseconds(match[1])
				c.at(instant, func(in *granted) { in.ended++ })
				continue
			}
			return got, err
		}
		row := reply[2].([]any)[0].([]any)
		got = told{quantity: quantity, remaining: row[2].(int64)}
		if reply[0] == int64(1) && operation == "reserve" {
			got.quantity = 0
		} else if operation == "take" {
			got.quantity = reply[3].(int64)
		}
		if row[5] != "0" {
			got.until = nanoseconds(row[5])
			got.instant = got.until - nanoseconds(row[4])
		}
		// The script's clock may stand still since the event loop began.
		left, wrong := until-sent+int64(50*time.Millisecond), ""
		switch wait := nanoseconds(row[3]); {
		case left < 0:
			wrong = "the period has ended: ENDED is missing"
		case wait > left:
			wrong = fmt.Sprint("it is limited for longer than its period: ", time.Duration(wait))
		case (got.quantity > 0) != (got.instant > 0):
			wrong = "only what is granted has a receipt"
		}
		if wrong != "" {
			return got, fmt.Errorf("%w: %s until %d, by a clock that is %v ahead: %s", errWrong, operation, until, c.lead, wrong)
		}
		return got, nil
	}
}

// send sends a call to the primary, by the module or the script.
func (c *quotaCaller) send(operation, key string, limit, until, quantity int64) ([]any, error) {
	c.calling.RLock()
	defer c.calling.RUnlock()
	if current := c.primary.Load(); current != c.server {
		if c.client != nil {
			c.client.Close()
		}
		c.server, c.client = current, redis.NewClient(&redis.Options{Addr: current.Addr(), MaxRetries: -1, PoolSize: 1})
		c.Cleanup(func() { c.client.Close() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	words := []any{limit, "UNTIL", fmt.Sprintf("%d.%09d", until/1e9, until%1e9), quantity}
	if rand.IntN(3) == 0 {
		return byScript.Run(ctx, c.client, []string{key}, append([]any{operation}, words...)...).Slice()
	}
	return c.client.Do(ctx, append([]any{"cl." + operation, key}, words...)...).Slice()
}

var byScript = redis.NewScript(limiter.Script())
