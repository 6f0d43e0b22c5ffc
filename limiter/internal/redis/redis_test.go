package redis_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter/internal/redis"
)

// The code of an error tells whether the call is wrong or the server has failed. All errors of the
// contract say that the call is wrong.
func TestCodesOfErrors(t *testing.T) {
	t.Parallel()
	const oom = "-OOM command not allowed when used memory > 'maxmemory'."
	isBad := map[string]bool{
		"INVALID row 2: count must be an integer":             true,
		"INVALID whatever a later version says":               true,
		"CROSSSLOT Keys in request don't hash":                true,
		"ERR wrong number of arguments for 'cl.take' command": true,
		"ERR wrong number of keys":                            false,
		"ERR row 2: count must be an integer":                 false,
		"INVALIDATED":                                         false,
		"ERR the key does not hold a funnel":                  false,
		"ERR max number of clients reached":                   false,
		"ERR max number of clients + cluster":                 false,
		"ERR Connection refused":                              false, // twemproxy
		"ERR unknown command 'cl.reserve'":                    false,
		"ERR Error running script (call to f_1): " + oom:      false, // Redis 6.2
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -NOREPLICAS": false,
		"ERR user_script:1: -READONLY You can't write against a read only replica. script: f1": false,
		"ERR The user executing the script can't run this command or subcommand script: f1":    false, // Redis 7.0
		"ERR ACL failure in script: User app has no permissions to run the 'time' command":     false,
		"LOADING": false, "OOM": false, "READONLY": false, "NOPERM": false, "NOREPLICAS": false, "MISCONF": false,
		"BUSY": false, "CLUSTERDOWN": false, "MASTERDOWN": false, "NOAUTH": false, "TRYAGAIN": false, "NEWCODE ERR": false,
	}
	for _, outcome := range slices.Concat(contract.Outcomes, contract.SlotsErrors, contract.QuotaErrors) {
		if outcome[0] <= 'Z' { // an error
			isBad[outcome+"uments"] = true // the contract cuts "wrong number of arg" short
		}
	}
	require.False(t, redis.IsCrossSlot(errors.New("limiter: key \"a: CROSSSLOT b\": x")))
	for text, isBadCall := range isBad {
		require.Equal(t, isBadCall, redis.IsBadCall(servertest.ErrorReply(text)), text)
	}
}

// A cluster answers each command with an error, and takes an hour to reload.
type cluster struct {
	err      error
	reloaded atomic.Int64
}

func (c *cluster) Process(context.Context, goredis.Cmder) error { return c.err }
func (c *cluster) ReloadState(context.Context)                  { c.reloaded.Add(1); time.Sleep(time.Hour) }
func (c *cluster) MasterForKey(context.Context, string) (*goredis.Client, error) {
	return nil, errors.New("it is not known")
}

// If ten calls in a second get no answer, the client reloads the map of the nodes twice. No caller
// waits for that.
func TestReload(t *testing.T) {
	for err, reloaded := range map[error]int64{
		errors.New("refused"):    2,
		context.DeadlineExceeded: 2,
		goredis.Nil:              0,
		servertest.ErrorReply("CLUSTERDOWN The cluster is down"): 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			client, began := &cluster{err: err}, time.Now()
			s := redis.New(client, "", func() time.Duration { return time.Since(began) }, time.Now)
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
