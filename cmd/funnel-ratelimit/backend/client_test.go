package backend

import (
	"testing"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestTargets(t *testing.T) {
	type of = redis.UniversalOptions
	for _, c := range []struct {
		kind, url, auth, sentinelAuth string
		options                       of
		hasTLS                        bool
		err                           string
	}{
		{url: "localhost:6379", options: of{Addrs: []string{"localhost:6379"}}},
		{url: "[::1]:1", options: of{Addrs: []string{"[::1]:1"}}},
		{url: "a:65535", options: of{Addrs: []string{"a:65535"}}},
		{url: "/run/redis.sock", options: of{Addrs: []string{"/run/redis.sock"}}},
		{url: "a:1", auth: "secret", options: of{Addrs: []string{"a:1"}, Password: "secret"}},
		{url: "a:1", auth: "me:se:cret", options: of{Addrs: []string{"a:1"}, Username: "me", Password: "se:cret"}},
		{url: "redis://me:sec%40ret@a:1/3", options: of{Addrs: []string{"a:1"}, Username: "me",
			Password: "sec@ret", DB: 3}},
		{url: "redis://me:x@a:1", auth: "you:secret",
			options: of{Addrs: []string{"a:1"}, Username: "you", Password: "secret"}},
		{url: "redis://a", options: of{Addrs: []string{"a:6379"}}}, // as URLs of Redis have it
		{url: "rediss://a:1", options: of{Addrs: []string{"a:1"}}, hasTLS: true},
		{kind: "CLUSTER", url: "a:1,rediss://b:2",
			options: of{Addrs: []string{"a:1", "b:2"}, IsClusterMode: true}, hasTLS: true},
		{kind: "cluster", url: "a:1", options: of{Addrs: []string{"a:1"}, IsClusterMode: true}},
		{kind: "sentinel", url: "mymaster,redis://s:t@a:1,b:2", auth: "me:secret", sentinelAuth: "",
			options: of{MasterName: "mymaster", Addrs: []string{"a:1", "b:2"}, Username: "me",
				Password: "secret", SentinelUsername: "s", SentinelPassword: "t"}},
		{kind: "sentinel", url: "mymaster,a:1", sentinelAuth: "secret",
			options: of{MasterName: "mymaster", Addrs: []string{"a:1"}, SentinelPassword: "secret"}},

		{url: "", err: "REDIS_URL: address 1 is empty: it must be host:port, the path of a socket, or a URL"},
		{url: "localhost", err: "REDIS_URL: address 1 is 'localhost': it must be host:port with a port from 1 to 65535, " +
			"and without spaces, as in localhost:6379"},
		{url: "localhost:", err: "address 1 is 'localhost:': it must"},
		{url: "localhost:0", err: "address 1 is 'localhost:0': it must"},
		{url: "localhost:65536", err: "address 1 is 'localhost:65536': it must"},
		{url: "localhost:redis", err: "address 1 is 'localhost:redis': it must"},
		{url: "::1:6379", err: "address 1 is '::1:6379': it must"},
		{url: "a b:1", err: "address 1 is 'a b:1': it must"},
		{url: "a:1 ", err: "address 1 is 'a:1 ': it must"},
		{url: "redis://me:SECRET@a:0", err: "REDIS_URL: address 1 must be host:port with a port from 1 to 65535"},
		{url: "me:SECRET@a:1", err: "address 1 is not like redis://user:password@host:6379"},
		{url: "http://a:1", err: "address 1 is not like redis://user:password@host:6379"},
		{kind: "cluster", url: "a:1, b:2", err: "address 2 is ' b:2': it must"},
		{kind: "cluster", url: "a:1,", err: "address 2 is empty"},
		{url: "a:1,b:1", err: "REDIS_TYPE is 'single', and REDIS_URL has 2 parts: it must be single with one address"},
		{kind: "ring", url: "a:1", err: "REDIS_TYPE is 'ring', and REDIS_URL has 1 parts"},
		{kind: "sentinel", url: "mymaster", err: "REDIS_TYPE is 'sentinel', and REDIS_URL has 1 parts"},
		{kind: "sentinel", url: ",a:1", err: "it must begin with the name of the primary"},
		{kind: "sentinel", url: "my master,a:1", err: "it must begin with the name of the primary"},
		{kind: "sentinel", url: "mymaster,a", err: "REDIS_URL: address 1 is 'a': it must"},
	} {
		if c.kind == "" {
			c.kind = "single"
		}
		targets, err := readTargets(settings.Settings{
			RedisType: c.kind, RedisUrl: c.url, RedisAuth: c.auth, RedisSentinelAuth: c.sentinelAuth})
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%s %s", c.kind, c.url)
			require.NotContains(t, err.Error(), "SECRET")
			continue
		}
		require.NoError(t, err, "%s %s", c.kind, c.url)
		require.Equal(t, &c.options, targets.options, "%s %s", c.kind, c.url)
		require.Equal(t, c.hasTLS, targets.hasTLS, "%s %s", c.kind, c.url)
	}
}
