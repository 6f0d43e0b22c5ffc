package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"funnel/internal/redisclient"
)

// Connect opens the connections and makes a call to each node, so that the first request finds them
// open: connecting may take longer than REDIS_TIMEOUT. It tries until that succeeds, but no longer
// than FUNNEL_DIAL_TIMEOUT. Then it logs why it failed, and requests open the connections. If
// Redis refuses the user, it returns an error at once, because somebody has to correct the user. If
// ctx is done before, it returns the cause of ctx.
func (b *Backend) Connect(ctx context.Context) error {
	within := b.options.DialTimeout
	err := b.client.Connect(ctx, b.settings.CacheKeyPrefix+"funnel-ratelimit", within)
	switch {
	case errors.Is(err, redisclient.ErrRefused):
		return fmt.Errorf("REDIS_AUTH, REDIS_SENTINEL_AUTH or REDIS_URL: %w", err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		logrus.Errorf("no connection to Redis within FUNNEL_DIAL_TIMEOUT, %v: the service starts without it: %v",
			within, err)
	}
	return nil
}
