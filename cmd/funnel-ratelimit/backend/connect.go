package backend

import (
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"funnel/internal/redisclient"
)

// Connect opens the connections and makes a call to each node, so that the first request finds them
// open: to connect may take longer than REDIS_TIMEOUT. It tries until that succeeds, but no longer
// than FUNNEL_DIAL_TIMEOUT: then it logs why, and requests open the connections. It returns an
// error if Redis refuses the user, because that does not end by itself.
func (b *Backend) Connect() error {
	within := b.options.DialTimeout
	err := b.client.Connect(b.settings.CacheKeyPrefix+"funnel-ratelimit", within)
	switch {
	case errors.Is(err, redisclient.ErrRefused):
		return fmt.Errorf("REDIS_AUTH, REDIS_SENTINEL_AUTH or REDIS_URL: %w", err)
	case err != nil:
		logrus.Errorf("no connection to Redis within FUNNEL_DIAL_TIMEOUT, %v: the service starts without it: %v",
			within, err)
	}
	return nil
}
