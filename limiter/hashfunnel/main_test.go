package hashfunnel_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
)

// rdb is the client of the examples.
var rdb *redis.Client

func TestMain(m *testing.M) {
	os.Exit(servertest.RunWithClient(m, func(client *redis.Client) { rdb = client }))
}
