package redis_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/limiter/internal/redis"
)

// A replyError is an error reply, as go-redis returns it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// By its first words an error tells whether the call is wrong or the server has failed. All errors of
// the contract say that the call is wrong.
func TestFirstWordsOfErrors(t *testing.T) {
	t.Parallel()
	const oom = "-OOM command not allowed when used memory > 'maxmemory'."
	errors := map[string]bool{
		"ERR row 2: count must be an integer":                                                  true,
		"CROSSSLOT Keys in request don't hash":                                                 true,
		"ERR max number of clients reached":                                                    false,
		"ERR max number of clients + cluster":                                                  false,
		"ERR Connection refused":                                                               false, // twemproxy
		"ERR unknown command 'cl.reserve'":                                                     false,
		"ERR Error running script (call to f_1): " + oom:                                       false, // Redis 6.2
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -NOREPLICAS": false,
		"ERR user_script:1: -READONLY You can't write against a read only replica. script: f1": false,
		"ERR The user executing the script can't run this command or subcommand script: f1":    false, // Redis 7.0
		"ERR ACL failure in script: User app has no permissions to run the 'time' command":     false,
		"LOADING": false, "OOM": false, "READONLY": false, "NOPERM": false, "NOREPLICAS": false, "MISCONF": false,
		"BUSY": false, "CLUSTERDOWN": false, "MASTERDOWN": false, "NOAUTH": false, "TRYAGAIN": false, "NEWCODE ERR": false,
	}
	for _, outcome := range slices.Concat(contract.Outcomes, contract.SlotsErrors, contract.QuotaErrors) {
		if outcome[0] <= 'Z' { // an error
			errors[outcome] = true
		}
	}
	for text, isBadCall := range errors {
		require.Equal(t, isBadCall, redis.IsBadCall(replyError(text)), text)
	}
}
