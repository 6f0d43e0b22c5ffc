package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sirupsen/logrus"

	"funnel/limiter"
)

// Connect opens the connections and makes a call to each node, so that the first request finds them
// open: connecting may take longer than REDIS_TIMEOUT. It tries until that succeeds, but no longer
// than FUNNEL_DIAL_TIMEOUT. Then it logs why it failed, and requests open the connections. It
// returns an error if Redis refuses the user, because that does not end by itself, and the cause of
// ctx if ctx is done before.
func (b *Backend) Connect(ctx context.Context) error {
	within := b.options.DialTimeout
	connecting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	// It has a breaker of its own, so the Limiter that serves requests begins with a closed one.
	probe := limiter.New(b.client.pipeline, limiter.WithTimeout(within))
	for {
		err := b.client.peek(connecting, probe, b.settings.CacheKeyPrefix)
		switch {
		case err == nil:
			return nil
		case isRefusal(err):
			return fmt.Errorf("the user of REDIS_AUTH, REDIS_SENTINEL_AUTH or REDIS_URL is refused by Redis: %w", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-connecting.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			logrus.Errorf("no connection to Redis within FUNNEL_DIAL_TIMEOUT, %v: the service starts without it: %v",
				within, err)
			return nil
		}
	}
}

// peek makes a call to each node that takes nothing.
func (c *client) peek(ctx context.Context, probe *limiter.Limiter, prefix string) error {
	keys, err := c.keys(ctx, prefix+"funnel-ratelimit")
	errs := make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			_, errs[i] = probe.Peek(ctx, key, limiter.PerSecond(1))
			if isKeyDenied(errs[i]) { // an answer: users may have the keys of their domains alone
				errs[i] = nil
			}
		})
	}
	group.Wait()
	return errors.Join(append(errs, err)...)
}

// keys returns a key on each node that has keys.
func (c *client) keys(ctx context.Context, prefix string) (keys []string, err error) {
	if c.cluster == nil {
		return []string{prefix}, nil
	}
	nodes := map[*redis.Client]bool{}
	for i := range 1000 { // of some nodes with few slots there may be none
		key := prefix + strconv.Itoa(i)
		node, err := c.cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if !nodes[node] {
			nodes[node] = true
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// isRefusal reports whether Redis knows no such user or password, or does not let the user limit
// anything.
func isRefusal(err error) bool { return redis.IsAuthError(err) || redis.IsPermissionError(err) }

// isKeyDenied reports whether the user may run the command, but not on the key. The text tells,
// since both errors have one code.
func isKeyDenied(err error) bool {
	return redis.IsPermissionError(err) && !strings.Contains(err.Error(), "permissions to run")
}
