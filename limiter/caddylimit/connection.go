package caddylimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"funnel/internal/redisclient"
	"funnel/limiter"
	"funnel/limiter/lease"
)

// connections has a connection for each set of settings that a configuration uses.
var connections = caddy.NewUsagePool()

// A connection is what stays through reloads: the connections to Redis, and the Limiter.
type connection struct {
	prefix   string
	client   *redisclient.Client
	limiter  decider
	log      *relay
	requests sync.WaitGroup // that are under way
	connect  sync.Mutex
	isTried  bool // to connect
}

// A decider decides by leases where one policy applies to a request, and by the Limiter otherwise.
type decider struct {
	*limiter.Limiter
	single limiter.Allower
}

// AllowN asks about one policy.
func (d decider) AllowN(ctx context.Context, key string, limit limiter.Limit, quantity int) (limiter.Result, error) {
	return d.single.AllowN(ctx, key, limit, quantity)
}

// quietly sends what go-redis says to Caddy's log of debugging: it has a line for each attempt to
// connect, and the Limiter logs an outage itself.
var quietly = sync.OnceFunc(func() { redis.SetLogger(redisLogger{}) })

type redisLogger struct{}

func (redisLogger) Printf(_ context.Context, format string, words ...any) {
	caddy.Log().Named("funnel").Debug("redis", zap.String("says", fmt.Sprintf(format, words...)))
}

func newConnection(s *settings) (*connection, error) {
	quietly()
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	c := &connection{prefix: s.Prefix, client: client, log: newRelay()}
	c.limiter.Limiter = limiter.New(client.Pipeline, limiter.WithPrefix(s.Prefix), limiter.WithTimeout(time.Duration(s.Timeout)),
		limiter.OnFailure(s.onFailure), limiter.WithLogger(slog.New(c.log)))
	c.limiter.single = c.limiter.Limiter
	if s.Lease > 0 {
		c.limiter.single = lease.New(c.limiter.Limiter, time.Duration(s.Lease))
	}
	return c, nil
}

// startsWithin is how long the start of a configuration waits for Redis. A site should not be down
// for longer because Redis is.
const startsWithin = 2 * time.Second

// start connects to Redis, unless a configuration before has done so. What is logged from now on
// goes to the logger.
func (c *connection) start(logger *slog.Logger) error {
	c.log.set(logger.Handler())
	c.connect.Lock()
	defer c.connect.Unlock()
	if c.isTried {
		return nil
	}
	err := c.client.Connect(context.Background(), c.prefix+"caddy", startsWithin)
	if errors.Is(err, redisclient.ErrRefused) {
		return fmt.Errorf("username, password or redis: %w", err)
	}
	c.isTried = true
	if err != nil {
		logger.Error("no connection to Redis: starting without it", "within", startsWithin, "error", err)
	}
	return nil
}

// closing is for the connections that are closed in the background.
var closing sync.WaitGroup

// drainsWithin is how long the end of a connection waits for answers of Redis, and the end of the
// process for that.
const drainsWithin = 3 * time.Second

// Destruct closes the connection in the background, when the last request has ended: a WebSocket
// may go on longer than its configuration.
func (c *connection) Destruct() error {
	closing.Go(func() {
		c.requests.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), drainsWithin)
		defer cancel()
		left, err := c.limiter.Drain(ctx)
		if err != nil {
			slog.New(c.log).Warn("Redis has not answered everything: slots that were to be given back are held "+
				"until their ttl is over", "left", left)
		}
		c.client.Close()
	})
	return nil
}

func init() {
	caddy.OnExit(func(ctx context.Context) {
		done := make(chan struct{})
		go func() {
			closing.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(drainsWithin + time.Second):
		case <-ctx.Done():
		}
	})
}
