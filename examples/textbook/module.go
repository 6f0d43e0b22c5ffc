package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A module keeps the funnel of a user in Redis, as a single number: the instant at which it will be
// empty. The command does the rest, in nanoseconds. Its reply also says how many tokens remain, and
// how long to wait.
type module struct {
	rdb *redis.Client
	limit
}

func (m *module) allow(ctx context.Context, key string) (bool, error) {
	reply, err := m.rdb.Do(ctx, "CL.THROTTLE", key, m.count, m.count, m.period.Seconds()).Int64Slice()
	if err != nil {
		return false, err
	}
	return reply[0] == 0, nil // limited, limit, remaining, retry_after, reset_after
}
