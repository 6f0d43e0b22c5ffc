package redisclient

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSetAddresses(t *testing.T) {
	type options = redis.UniversalOptions
	for name, c := range map[string]struct {
		before    options
		addresses []string
		after     options
		hasTLS    bool
	}{
		"a host and a port": {options{}, []string{"localhost:6379"},
			options{Addrs: []string{"localhost:6379"}}, false},
		"IPv6":          {options{}, []string{"[::1]:1"}, options{Addrs: []string{"[::1]:1"}}, false},
		"the last port": {options{}, []string{"a:65535"}, options{Addrs: []string{"a:65535"}}, false},
		"a socket": {options{}, []string{"/run/redis.sock"},
			options{Addrs: []string{"/run/redis.sock"}}, false},
		"a URL with the port of URLs": {options{}, []string{"redis://a"}, options{Addrs: []string{"a:6379"}}, false},
		"a URL with TLS":              {options{}, []string{"rediss://a:1"}, options{Addrs: []string{"a:1"}}, true},
		"TLS in one of several": {options{}, []string{"a:1", "rediss://b:2"},
			options{Addrs: []string{"a:1", "b:2"}}, true},
		"addresses that were there": {options{Addrs: []string{"old:1"}}, []string{"new:1"},
			options{Addrs: []string{"new:1"}}, false},
		"a user, an escaped password and a database": {options{}, []string{"redis://me:sec%40ret@a:1/3"},
			options{Addrs: []string{"a:1"}, Username: "me", Password: "sec@ret", DB: 3}, false},
		"a user that was set counts more": {options{Username: "you", Password: "secret", DB: 1},
			[]string{"redis://me:x@a:1/3"}, options{Addrs: []string{"a:1"}, Username: "you", Password: "secret", DB: 1}, false},
		"with Sentinels the user is theirs": {options{MasterName: "mymaster", Username: "me"},
			[]string{"redis://s:t@a:1", "b:2"}, options{MasterName: "mymaster", Username: "me", Addrs: []string{"a:1", "b:2"},
				SentinelUsername: "s", SentinelPassword: "t"}, false},
	} {
		is := c.before
		hasTLS, err := SetAddresses(&is, c.addresses...)
		require.NoError(t, err, name)
		require.Equal(t, c.after, is, name)
		require.Equal(t, c.hasTLS, hasTLS, name)
	}
}

// The errors say which address is wrong, and what is accepted. They do not show a URL, which may
// hold a password.
func TestWrongAddresses(t *testing.T) {
	const noURL = "address 2 is not like redis://user:password@host:6379, with special characters escaped as in %40"
	const port = "must be host:port with a port from 1 to 65535, and without spaces, as in localhost:6379"
	for address, text := range map[string]string{
		"": "address 2 is empty: it must be host:port, the path of a socket, or a URL such as " +
			"redis://host:6379",
		"localhost":             "address 2 is 'localhost': it " + port,
		"localhost:":            "address 2 is 'localhost:': it " + port,
		"localhost:0":           "address 2 is 'localhost:0': it " + port,
		"localhost:65536":       "address 2 is 'localhost:65536': it " + port,
		"localhost:redis":       "address 2 is 'localhost:redis': it " + port,
		"::1:6379":              "address 2 is '::1:6379': it " + port,
		"a b:1":                 "address 2 is 'a b:1': it " + port,
		"a:1 ":                  "address 2 is 'a:1 ': it " + port,
		"redis://me:SECRET@a:0": "address 2 " + port,
		"me:SECRET@a:1":         noURL,
		"http://a:1":            noURL,
	} {
		_, err := SetAddresses(&redis.UniversalOptions{}, "right:1", address)
		require.EqualError(t, err, text, address)
	}
}
