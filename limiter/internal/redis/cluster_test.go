package redis_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter/internal/redis"
)

// A cluster answers with an error, and takes an hour to reload.
type cluster struct {
	err      error
	reloaded atomic.Int64
}

func (c *cluster) Process(context.Context, goredis.Cmder) error { return c.err }
func (c *cluster) ReloadState(context.Context)                  { c.reloaded.Add(1); time.Sleep(time.Hour) }
func (c *cluster) MasterForKey(context.Context, string) (*goredis.Client, error) {
	return nil, errors.New("it is not known")
}

// Ten calls in a second without an answer reload twice. No caller waits.
func TestReload(t *testing.T) {
	for err, reloaded := range map[error]int64{
		errors.New("refused"): 2, context.DeadlineExceeded: 2, replyError("CLUSTERDOWN The cluster is down"): 0, goredis.Nil: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			client, began := &cluster{err: err}, time.Now()
			s := redis.New(client, "", "", func() time.Duration { return time.Since(began) }, time.Now)
			for range 10 {
				_ = s.Reset(t.Context(), "key")
				time.Sleep(time.Second / 10)
			}
			require.Equal(t, time.Second, time.Since(began), "%v: a caller waits", err)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, reloaded, client.reloaded.Load(), err.Error())
		})
	}
}
