package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/limiter"
)

// ErrRefused says that Redis knows no such user or password, or does not let the user limit
// anything. Trying again does not help: somebody has to correct the settings or the user.
var ErrRefused = errors.New("the user is refused by Redis")

// Connect opens the connections and makes a call to each node, which takes nothing, so that the
// first request finds them open: to connect may take longer than requests wait. It tries until that
// succeeds, but no longer than within. The keys of the calls begin with prefix. The error is
// [ErrRefused], the cause of ctx if that is done before, or says why the last attempt failed.
func (c *Client) Connect(ctx context.Context, prefix string, within time.Duration) error {
	connecting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	// It has a breaker of its own, so the Limiter that serves requests begins with a closed one.
	probe := limiter.New(c.Pipeline, limiter.WithTimeout(within))
	for {
		err := c.peek(connecting, probe, prefix)
		switch {
		case err == nil:
			return nil
		case redis.IsAuthError(err) || redis.IsPermissionError(err):
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-connecting.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
}

// peek makes a call to each node.
func (c *Client) peek(ctx context.Context, probe *limiter.Limiter, prefix string) error {
	keys, err := c.keys(ctx, prefix)
	errs := make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			_, errs[i] = probe.Peek(ctx, key, limiter.PerSecond(1))
			if isKeyDenied(errs[i]) { // an answer: the user may have other keys alone
				errs[i] = nil
			}
		})
	}
	group.Wait()
	return errors.Join(append(errs, err)...)
}

// keys returns a key on each node that has keys.
func (c *Client) keys(ctx context.Context, prefix string) (keys []string, err error) {
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

// isKeyDenied reports whether the user may run the command, but not on the key. The text tells,
// since both errors have one code.
func isKeyDenied(err error) bool {
	return redis.IsPermissionError(err) && !strings.Contains(err.Error(), "permissions to run")
}
